#!/usr/bin/env python3
"""fastsafetensors loads a file of tensors onto a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peer_protocol import measured, serve
from torch_device import gpu, verify_tensors


def start() -> tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    import torch
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    device = gpu(torch)

    def measure(work: dict[str, Any]) -> dict[str, Any]:
        loader = SafeTensorsFileLoader(SingleGroup(), device)
        tensors: dict[str, Any] = {}
        buffers = None
        try:

            def load() -> int:
                nonlocal buffers
                loader.add_filenames({0: [work["path"]]})
                buffers = loader.copy_files_to_device()
                tensors.update((key, buffers.get_tensor(key)) for key in loader.get_keys())
                torch.cuda.synchronize()
                return sum(tensor.numel() for tensor in tensors.values())

            result = measured(load)
            if work.get("verify"):
                result["verified_bytes"] = verify_tensors(tensors, work["path"])
        finally:
            tensors.clear()
            if buffers is not None:
                buffers.close()
            loader.close()
        return result

    return f"fastsafetensors, torch {torch.__version__}", measure


serve(start)
