#!/usr/bin/env python3
"""The benchmark of the whole mount runs and reports every row; what it measures is not judged.

usage: overlay_quick_test.py BIN_DIRECTORY      exit 77 = skipped
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

OVERLAY = Path(__file__).resolve().parent / "overlay"
SKIPPED = 77


def problems_of(row: dict[str, Any], names: list[str]) -> list[str]:
    """A row has a number for every target, unless the machine cannot run it on the source either."""
    if "native" in row["failures"]:
        return []
    return [f"{row['name']}: no samples of {name}" for name in names if not row["samples"].get(name)]


def main() -> int:
    rows = subprocess.run([OVERLAY, "--list"], check=True, capture_output=True, text=True).stdout.split()
    with tempfile.TemporaryDirectory(prefix="hipfile_overlay_test.", dir="/var/tmp") as directory:
        result = Path(directory) / "overlay.json"
        status = subprocess.run([OVERLAY, "--quick", "--bin", sys.argv[1], "--json", result]).returncode
        if status:
            print(f"overlay ended with {status}")
            return SKIPPED if status == SKIPPED else 1
        document = json.loads(result.read_text(encoding="utf-8"))
    names = [target["name"] for target in document["targets"]]
    problems = [problem for row in document["rows"] for problem in problems_of(row, names)]
    if [row["name"] for row in document["rows"]] != rows:
        problems.append("rows are missing")
    if not {"native", "native2", "hipfile-fuse"} <= set(names):
        problems.append(f"targets are missing: {names}")
    print("\n".join(problems) or "ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
