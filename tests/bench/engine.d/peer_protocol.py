"""What peers written in Python have in common: they answer workloads as bench_engine does."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


def answer(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(load: Callable[[], int]) -> dict[str, Any]:
    """load: does the work, and gives its bytes."""
    begin, cpu = time.perf_counter(), cpu_seconds()
    loaded = load()
    seconds, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    return {
        "seconds": seconds,
        "bytes": loaded,
        "operations": 1,
        "cpu_seconds": cpu,
        "server_cpu_seconds": 0,
        "p50_us": seconds * 1e6,
        "p99_us": seconds * 1e6,
        "verified_bytes": 0,
        "route": "",
    }


def serve(start: Callable[[], tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]) -> None:
    """start: what it is in words, and a function that measures one workload."""
    try:
        about, measure = start()
    except Exception as error:  # whatever a package that is not for this machine says
        answer({"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    answer({"runtime": about})
    for line in sys.stdin:
        try:
            answer(measure(json.loads(line)))
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


def parts(path: str, size: int) -> Iterator[tuple[int, bytes]]:
    """The file as offset and bytes, for comparisons."""
    with open(path, "rb") as file:
        for offset in range(0, size, 1 << 20):
            yield offset, file.read(min(1 << 20, size - offset))


def equal_or_raise(found: bytes, wanted: bytes, offset: int) -> None:
    if found != wanted:
        raise ValueError(f"other bytes at {offset}")
