"""The directories that are compared: the source itself, and the same through hipfile-fuse and its peers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

# {source} and {mount} are the directories; {empty} and {work} are empty ones beside {source}.
PEERS = {
    "passthrough_ll": "passthrough_ll -f -o source={source},allow_other {mount}",
    "passthrough_hp": "passthrough_hp {source} {mount}",
    "bindfs": "bindfs -f {source} {mount}",
    "mergerfs": "mergerfs -f -o cache.files=auto-full,minfreespace=0 {source} {mount}",
    "fuse-overlayfs": "fuse-overlayfs -f -o lowerdir={empty},upperdir={source},workdir={work} {mount}",
}
MOUNT_SECONDS = 20
UNMOUNT_ATTEMPTS = 20


class MountError(Exception):
    """A mount that is not there, with what its program said."""


@dataclass
class Target:
    """A directory that workloads run in; all targets are directories of one file system."""

    name: str
    kind: str  # "native", "hipfile-fuse" or "peer"
    directory: Path
    options: str = ""
    command: list[str] = field(default_factory=list)
    version: str = ""


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


def is_mounted(path: Path) -> bool:
    """By the mount table: a mount whose daemon has died counts too."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        points = [line.split()[4] for line in table]
    return str(path).replace(" ", "\\040") in points


class Mount(AbstractContextManager["Mount"]):
    """A mount and the process behind it."""

    def __init__(self, command: list[str], directory: Path, log: Path) -> None:
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


def file_name(name: str) -> str:
    """Of a target, without what fio and mount options take for separators."""
    return re.sub(r"[^\w.-]+", "_", name)


class Stage:
    """The work directory: a source directory and a mount point per target, and data that all share."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.shared = self.subdirectory("shared")

    def subdirectory(self, *parts: str) -> Path:
        path = self.base.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def source(self, name: str) -> Path:
        return self.subdirectory("source", file_name(name))

    def mount_point(self, name: str) -> Path:
        return self.subdirectory("mount", file_name(name))

    def mount(self, name: str, command: list[str]) -> Mount:
        return Mount(command, self.mount_point(name), self.base / f"{file_name(name)}.log")


def native(stage: Stage, name: str) -> Target:
    return Target(name, "native", stage.source(name))


def daemon(stage: Stage, program: Path, options: str) -> Target:
    """hipfile-fuse with these mount options; not mounted yet."""
    name = "hipfile-fuse" + (f" {options}" if options else "")
    command = [str(program), "-f", str(stage.source(name)), str(stage.mount_point(name))]
    if options:
        command += ["-o", options]
    return Target(
        name,
        "hipfile-fuse",
        stage.mount_point(name),
        options,
        command,
        first_line([str(program), "--version"]),
    )


def peer(stage: Stage, name: str, template: str) -> Target:
    """Another FUSE overlay; not mounted yet."""
    places = {
        "source": stage.source(name),
        "mount": stage.mount_point(name),
        "empty": stage.subdirectory("empty", file_name(name)),
        "work": stage.subdirectory("work", file_name(name)),
    }
    command = [word.format(**places) for word in shlex.split(template)]
    return Target(name, "peer", stage.mount_point(name), "", command, first_line([command[0], "--version"]))


def installed_peers() -> dict[str, str]:
    return {name: template for name, template in PEERS.items() if shutil.which(shlex.split(template)[0])}
