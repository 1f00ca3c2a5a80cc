#!/usr/bin/env python3
"""Clients from PyPI, unmodified, on libhipfile and the software HIP runtime. Run by pypi_test.

usage: pypi_client.py fastsafetensors|hipfile DIRECTORY
"""
import ctypes
import glob
import importlib.util
import os
import random
import sys

SIZE, BUFFER = 5_000_003, 8 << 20


def from_device(hip, address, length):
    host = ctypes.create_string_buffer(length)
    device_to_host = 2
    assert hip.hipMemcpy(host, ctypes.c_void_p(address), ctypes.c_size_t(length), device_to_host) == 0
    return host.raw


def fastsafetensors(hip, path, content):
    """Only the compiled module: the package around it imports torch."""
    directory = importlib.util.find_spec("fastsafetensors").submodule_search_locations[0]
    (module,) = glob.glob(os.path.join(directory, "cpp.*.so"))
    spec = importlib.util.spec_from_file_location("cpp", module)
    cpp = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cpp)

    cpp.load_library_functions("libamdhip64.so")
    assert cpp.is_hip_found() and cpp.is_cufile_found()
    assert cpp.init_gds() == 0
    address = cpp.gpu_malloc(BUFFER)
    buffer = cpp.gds_device_buffer(address, BUFFER, True)
    assert buffer.cufile_register(0, BUFFER) == 0
    for direct in (True, False):
        assert hip.hipMemset(ctypes.c_void_p(address), 0, ctypes.c_size_t(BUFFER)) == 0
        file = cpp.gds_file_handle(path, direct, True)
        reader = cpp.gds_file_reader(2, True, 0)
        for offset in range(0, SIZE, 1 << 20):
            length = min(1 << 20, SIZE - offset)
            request = reader.submit_read(file, buffer, offset, length, offset, SIZE)
            assert reader.wait_read(request) == length
        assert from_device(hip, address, SIZE) == content, f"other bytes, O_DIRECT {direct}"
        del reader, file
    assert buffer.cufile_deregister(0) == 0
    cpp.gpu_free(address)
    assert cpp.close_gds() == 0


def hipfile(hip, path, content):
    from hipfile import Buffer, Driver, FileHandle, HipFileException, OpError, Stream
    from hipfile import driver_get_properties, get_version, supports_async
    from hipfile.hipMalloc import hipFree, hipMalloc

    assert get_version() == (0, 5, 0), get_version()
    assert supports_async()
    memory = hipMalloc(BUFFER)
    with Driver():
        assert Driver.use_count() == 1
        driver_get_properties()
        with Buffer.from_ctypes_void_p(memory, BUFFER, 0) as buffer:
            with FileHandle(path, os.O_RDONLY | os.O_DIRECT) as file:
                assert file.read(buffer, SIZE, 0, 0) == SIZE
                assert from_device(hip, memory.value, SIZE) == content, "other bytes"
                assert file.read(buffer, 1001, 4_000_001, 77) == 1001
                part = from_device(hip, memory.value, 1078)[77:]
                assert part == content[4_000_001:4_001_002], "other bytes, unaligned"
                assert file.read(buffer, BUFFER, SIZE - 10, 0) == 10
                try:
                    file.read(buffer, BUFFER, 0, 1)
                    raise AssertionError("a read behind the buffer")
                except HipFileException as e:
                    assert e.hipfile_err == OpError.INVALID_VALUE, e
                assert hip.hipMemset(memory, 0, ctypes.c_size_t(BUFFER)) == 0
                stream = ctypes.c_void_p()
                assert hip.hipStreamCreate(ctypes.byref(stream)) == 0
                with Stream(stream.value) as registered:
                    io = file.read_async(buffer, SIZE, 0, 0, registered.handle)
                    assert hip.hipStreamSynchronize(stream) == 0
                    assert io.bytes_done == SIZE
                assert from_device(hip, memory.value, SIZE) == content, "other bytes, asynchronous"
                assert hip.hipStreamDestroy(stream) == 0
            with FileHandle(path + ".copy", os.O_RDWR | os.O_CREAT) as copy:
                assert copy.write(buffer, SIZE, 0, 0) == SIZE
            with open(path + ".copy", "rb") as f:
                assert f.read() == content, "other bytes written"
    assert Driver.use_count() == 0
    hipFree(memory)


def main():
    client, directory = sys.argv[1:]
    content = random.Random(3).randbytes(SIZE)
    path = os.path.join(directory, client)
    with open(path, "wb") as f:
        f.write(content)
    # For all to see: the hipfile package needs hipPeekAtLastError, and libhipfile brings no runtime along by linking it.
    hip = ctypes.CDLL("libamdhip64.so", mode=ctypes.RTLD_GLOBAL)
    {"fastsafetensors": fastsafetensors, "hipfile": hipfile}[client](hip, path, content)
    print(client, "ok")


if __name__ == "__main__":
    main()
