#!/usr/bin/env python3
"""KvikIO reads a file into device memory, with its own threads and settings."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from peer_protocol import equal_or_raise, measured, parts, serve


class DeviceArray:
    """Device memory of the CUDA driver, as the interface that array packages share; no such package is needed."""

    def __init__(self, cuda: ctypes.CDLL, size: int) -> None:
        self.cuda, self.size = cuda, size
        address = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
        self.address = address.value
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "strides": None,
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }

    def poison(self) -> None:
        check(
            self.cuda.cuMemsetD8_v2(ctypes.c_uint64(self.address), 0xA5, ctypes.c_size_t(self.size)),
            "cuMemsetD8",
        )
        check(self.cuda.cuCtxSynchronize(), "cuCtxSynchronize")

    def read_back(self, offset: int, length: int) -> bytes:
        host = ctypes.create_string_buffer(length)
        source = ctypes.c_uint64(self.address + offset)
        check(self.cuda.cuMemcpyDtoH_v2(host, source, ctypes.c_size_t(length)), "cuMemcpyDtoH")
        return host.raw


def check(status: int, call: str) -> None:
    if status:
        raise OSError(f"{call}: error {status}")


def primary_context() -> ctypes.CDLL:
    cuda = ctypes.CDLL("libcuda.so.1")
    check(cuda.cuInit(0), "cuInit")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return cuda


def start() -> tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    import kvikio

    cuda = primary_context()
    arrays: dict[int, DeviceArray] = {}

    def measure(work: dict[str, Any]) -> dict[str, Any]:
        size = work["span"]
        array = arrays.get(size) or arrays.setdefault(size, DeviceArray(cuda, size))
        if work.get("verify"):
            array.poison()
        with kvikio.CuFile(work["path"], "r") as file:
            result = measured(lambda: int(file.read(array, size)))
        if work.get("verify"):
            for offset, wanted in parts(work["path"], size):
                equal_or_raise(array.read_back(offset, len(wanted)), wanted, offset)
            result["verified_bytes"] = size
        return result

    return f"kvikio {kvikio.__version__}", measure


serve(start)
