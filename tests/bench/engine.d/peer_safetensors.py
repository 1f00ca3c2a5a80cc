#!/usr/bin/env python3
"""safetensors loads a file of tensors onto a GPU through PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peer_protocol import measured, serve
from torch_device import gpu, verify_tensors


def start() -> tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    import safetensors
    import torch
    from safetensors.torch import load_file

    device = gpu(torch)

    def measure(work: dict[str, Any]) -> dict[str, Any]:
        tensors: dict[str, Any] = {}

        def load() -> int:
            tensors.update(load_file(work["path"], device=str(device)))
            torch.cuda.synchronize()
            return sum(tensor.numel() for tensor in tensors.values())

        result = measured(load)
        if work.get("verify"):
            result["verified_bytes"] = verify_tensors(tensors, work["path"])
        return result

    return f"safetensors {safetensors.__version__}, torch {torch.__version__}", measure


serve(start)
