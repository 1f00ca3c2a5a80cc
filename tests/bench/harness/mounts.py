"""Mounts that a benchmark makes for itself, each with the process behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

MOUNT_SECONDS = 20
UNMOUNT_ATTEMPTS = 20


class MountError(Exception):
    """A mount that is not there, with what its program said."""


def is_mounted(path: Path) -> bool:
    """By the mount table: a mount whose daemon has died counts too."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        points = [line.split()[4] for line in table]
    return str(path).replace(" ", "\\040") in points


class Mount(AbstractContextManager["Mount"]):
    """A mount and the process behind it."""

    def __init__(
        self, command: list[str], directory: Path, log: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.log = log
        # A session of its own: Ctrl-C is for this program, which unmounts in order.
        with open(log, "wb") as output:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
            except OSError as error:
                raise MountError(f"{command[0]}: {error.strerror}") from error
        try:
            self._wait()
        except BaseException:
            self.unmount()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + MOUNT_SECONDS
        while time.monotonic() < deadline:
            if is_mounted(self.directory):
                try:
                    os.stat(self.directory)  # answered once the daemon serves
                    return
                except OSError as error:
                    raise MountError(self._said() or error.strerror) from error
            if self.process.poll():  # 0: it went to the background
                raise MountError(self._said() or f"exit status {self.process.returncode}")
            time.sleep(0.01)
        raise MountError(f"no mount after {MOUNT_SECONDS} s: {self._said()}")

    def _said(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1].strip() if lines else ""

    def warnings(self) -> list[str]:
        """Lines of the log that say that something is not as asked for."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "[warning]" in line or "[error]" in line]

    def unmount(self) -> None:
        """Lazily in the end; a daemon whose mount is gone ends by itself, or is made to."""
        for attempt in range(UNMOUNT_ATTEMPTS):
            if not is_mounted(self.directory):
                break
            lazy = ["--lazy"] if attempt == UNMOUNT_ATTEMPTS - 1 else []
            command = ["umount", *lazy, str(self.directory)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                time.sleep(0.1)
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number:
                self.process.send_signal(signal_number)
            try:
                self.process.wait(10)
                return
            except subprocess.TimeoutExpired:
                continue

    def __exit__(self, *_: object) -> None:
        self.unmount()
