"""Where a benchmark ran, for its report."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def first_line(command: list[str]) -> str:
    """What a program calls its version."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = [line for line in (said.stdout + said.stderr).splitlines() if "version" in line] or (
        said.stdout + said.stderr
    ).splitlines()
    return lines[0].strip() if lines else ""


def text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def value_after(text: str, key: str, separator: str) -> str:
    """The value of the first line "key separator value"."""
    for line in text.splitlines():
        name, _, value = line.partition(separator)
        if name.strip() == key:
            return value.strip().strip('"')
    return ""


def file_system_of(directory: Path) -> str:
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in text_of("/proc/self/mountinfo").splitlines():
        fields = line.split()
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return "unknown"


def machine(directory: Path) -> dict[str, object]:
    return {
        "cpu": value_after(text_of("/proc/cpuinfo"), "model name", ":") or platform.machine(),
        "cpus": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "distribution": value_after(text_of("/etc/os-release"), "PRETTY_NAME", "="),
        "file_system": file_system_of(directory),
        "fuse_enable_uring": text_of("/sys/module/fuse/parameters/enable_uring"),
        "load_average": list(os.getloadavg()),
    }


def revision() -> str:
    return first_line(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"])
