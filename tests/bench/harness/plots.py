"""Plots by gnuplot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def draw(script: str, path: Path) -> str:
    """Runs a gnuplot script that prints an SVG; returns what stands in the way, or nothing."""
    if not shutil.which("gnuplot"):
        return "no plot: gnuplot is missing (Debian: gnuplot-nox)"
    done = subprocess.run(["gnuplot"], input=script, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return f"no plot: {done.stderr.strip()}"
    path.write_text(done.stdout, encoding="utf-8")
    return ""
