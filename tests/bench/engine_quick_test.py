#!/usr/bin/env python3
"""The benchmark of the engine runs, reports every row, and has verified what it moved; timings are not judged.

usage: engine_quick_test.py BIN_DIRECTORY      exit 77 = skipped
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ENGINE = Path(__file__).resolve().parent / "engine"
SKIPPED = 77
SAMPLE = {
    "seconds",
    "bytes",
    "operations",
    "cpu_seconds",
    "server_cpu_seconds",
    "p50_us",
    "p99_us",
    "resident",
}
ROW = {
    "name",
    "unit",
    "median",
    "ratio_to_base",
    "cpu_seconds_per_gib",
    "p50_us",
    "p99_us",
    "operations_per_second",
}
ROW |= {"route", "bars", "samples", "failure"}
HALF_WAY = {"pread", "disk", "memcpy", "device_copy", "round_trip"}  # move nothing from a file to the device
RESIDENT = {"cached": (0.99, 1), "kept": (0.99, 1), "half": (0.3, 0.7), "cold": (0, 0.01)}
LIBRARY, MOUNTED = {"sync", "batch", "async"}, {"ioctl", "ioctl_batch", "tagged", "sync@mount"}


def problems_of(row: dict[str, Any]) -> list[str]:
    if row["failure"] or len(row["samples"]) != 1:
        return [f"failed: {row['failure']}"]
    (sample,) = row["samples"]
    found = [f"lacks {sorted(ROW - set(row))}"] if ROW - set(row) else []
    found += [f"sample lacks {sorted(SAMPLE - set(sample))}"] if SAMPLE - set(sample) else []
    if not row["median"] or sample["bytes"] == 0:
        found.append("moved nothing")
    if row["transport"] not in HALF_WAY and sample["verified_bytes"] != sample["bytes"]:
        found.append(f"verified {sample['verified_bytes']} of {sample['bytes']} bytes")
    low, high = RESIDENT.get(row["state"], (0, 1))
    if row["place"] != "-" and row["direction"] == "read" and not low <= sample["resident"] <= high:
        found.append(f"{sample['resident']:.0%} of the file were cached")
    if not row["baseline"] and row["ratio_to_base"] is None:
        found.append("has no baseline")
    return found


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hipfile_engine_test.", dir="/var/tmp") as directory:
        out = Path(directory) / "out"
        command = [str(ENGINE), "--quick", "--bin", sys.argv[1], "--runtime", "software", "--out", str(out)]
        status = subprocess.run(command, check=False).returncode
        if status == SKIPPED or not out.exists():
            print(f"engine ended with {status}")
            return SKIPPED if status == SKIPPED else 1
        document = json.loads((out / "engine.json").read_text(encoding="utf-8"))
        problems = [f"no {name}" for name in ("engine.md", "engine.gp") if not (out / name).exists()]
    problems += [f"{row['name']}: {problem}" for row in document["rows"] for problem in problems_of(row)]
    wanted = LIBRARY | (MOUNTED if os.geteuid() == 0 and os.path.exists("/dev/fuse") else set())
    if missing := wanted - {row["transport"] for row in document["rows"]}:
        problems.append(f"no rows of {sorted(missing)}")
    if not any(row["bars"] for row in document["rows"]):
        problems.append("no bar speaks of any row")
    print("\n".join(problems) or "ok")
    return 1 if problems or status else 0


if __name__ == "__main__":
    sys.exit(main())
