"""Programs that measure: each is given workloads as lines of JSON and answers with one line each."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

START_SECONDS = 120  # loading a GPU's runtime and Python packages takes long
END_SECONDS = 20


class WorkerError(Exception):
    """A program that does not measure, with its reason."""


class Worker(AbstractContextManager["Worker"]):
    """Started when first asked, and again after it died or hung: one bad row does not end the others."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, seconds: float) -> None:
        self.command = command
        self.environment = environment
        self.log = log
        self.seconds = seconds  # that one answer may take
        self.process: subprocess.Popen[bytes] | None = None
        self.introduction: dict[str, Any] = {}
        self._pending = b""

    def start(self) -> None:
        if self.process:
            return
        with open(self.log, "ab") as errors:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise WorkerError(f"{self.command[0]}: {error.strerror}") from error
        self.introduction = self._answer(START_SECONDS)
        if problem := self.introduction.get("error"):
            self.stop()
            raise WorkerError(problem)

    def measure(self, workload: dict[str, object]) -> dict[str, Any]:
        """The answer; WorkerError if it is that the workload failed."""
        self.start()
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(json.dumps(workload).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            self.stop()
            raise WorkerError(self._said() or str(error)) from error
        answer = self._answer(self.seconds)
        if problem := answer.get("error"):
            raise WorkerError(problem)
        return answer

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self.process and self.process.stdout
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    raise WorkerError(f"no answer after {seconds:g} s")
                part = os.read(self.process.stdout.fileno(), 1 << 16)
                if not part:
                    status = self.stop()
                    raise WorkerError(f"ended with {status}: {self._said()}")
                self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise WorkerError(f"not an answer: {line[:200]!r}") from error
        return dict(answer)

    def _said(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1].strip() if lines else ""

    def stop(self) -> int | None:
        """The exit status."""
        process, self.process, self._pending = self.process, None, b""
        if not process:
            return None
        assert process.stdin and process.stdout
        try:
            process.stdin.close()
        except OSError:
            pass
        try:
            status = process.wait(END_SECONDS if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        process.stdout.close()
        return status

    def __exit__(self, *_: object) -> None:
        self.stop()
