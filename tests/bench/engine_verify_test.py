#!/usr/bin/env python3
"""bench_engine moves what it is told to, by every transport that needs no mount, and notices a wrong byte.

usage: engine_verify_test.py BENCH_ENGINE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any

PROGRAM = ""
SIZE = 4 << 20
WHOLE = ("sync", "batch", "async", "pread_pageable", "pread_pinned", "direct_pinned", "fallback")


def answers(*workloads: dict[str, Any]) -> list[dict[str, Any]]:
    command = [PROGRAM, "--runtime", "software", *(json.dumps(workload) for workload in workloads)]
    environment = {**os.environ, "HIP_SOFTWARE_STRICT": "1", "HIP_SOFTWARE_NO_AIS": "1"}
    said = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    ).stdout
    return [json.loads(line) for line in said.splitlines()][1:]


class Verify(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="hipfile_verify.", dir="/var/tmp")
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "file")
        self.assertNotIn("error", answers({"transport": "make", "path": self.file, "span": SIZE})[0])

    def work(self, transport: str, **more: Any) -> dict[str, Any]:
        return {"transport": transport, "path": self.file, "span": SIZE, "depth": 4, "verify": True} | more

    def test_every_transport_moves_the_bytes_of_the_file(self) -> None:
        for size in (4096, SIZE):
            more = {
                "size": size,
                "random": True,
                "threads": min(3, SIZE // size),
                "interleaved": size == 4096,
            }
            works = [self.work(t, **more) for t in WHOLE]
            for transport, answer in zip(WHOLE, answers(*works)):
                self.assertEqual(answer.get("verified_bytes"), SIZE, (transport, size, answer))

    def test_every_transport_writes_the_bytes_of_the_device(self) -> None:
        works = [self.work(t, size=65536, direction="write", state="fresh") for t in WHOLE]
        for transport, answer in zip(WHOLE, answers(*works)):
            self.assertEqual(answer.get("verified_bytes"), SIZE, (transport, answer))

    def test_a_wrong_byte_is_noticed(self) -> None:
        with open(self.file, "r+b") as file:
            file.seek(1_000_001)
            (byte,) = file.read(1)
            file.seek(1_000_001)
            file.write(bytes([byte ^ 1]))
        for transport, answer in zip(WHOLE, answers(*(self.work(t, size=65536) for t in WHOLE))):
            self.assertIn("device memory at 1000000", answer.get("error", ""), transport)

    def test_a_file_that_stays_cached_is_not_called_cold(self) -> None:
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("no tmpfs at /dev/shm")
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="hipfile_verify.") as file:
            make = {"transport": "make", "path": file.name, "span": SIZE}
            cold = self.work("sync", path=file.name, state="cold")
            self.assertIn("stays in the page cache", answers(make, cold)[1].get("error", ""))

    def test_states_are_what_they_are_called(self) -> None:
        cached, half, cold = answers(
            *(self.work("prepare", state=state) for state in ("cached", "half", "cold"))
        )
        self.assertEqual((cached["resident"], half["resident"]), (1, 0.5))
        self.assertLessEqual(cold["resident"], 0.01)

    def test_bad_workloads_are_refused_by_name(self) -> None:
        bad = answers(self.work("nonsense"), self.work("sync", size=0), self.work("sync", threads="two"))
        for answer, text in zip(bad, ("transport 'nonsense'", "size and span", "workload")):
            self.assertIn(text, answer.get("error", ""))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
