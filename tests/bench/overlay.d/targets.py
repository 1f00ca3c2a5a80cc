"""The directories that are compared: the source itself, and the same through hipfile-fuse and its peers."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from harness.machine import first_line
from harness.mounts import Mount

# {source} and {mount} are the directories; {empty} and {work} are empty ones beside {source}.
PEERS = {
    "passthrough_ll": "passthrough_ll -f -o source={source},allow_other {mount}",
    "passthrough_hp": "passthrough_hp {source} {mount}",
    "bindfs": "bindfs -f {source} {mount}",
    "mergerfs": "mergerfs -f -o cache.files=auto-full,minfreespace=0 {source} {mount}",
    "fuse-overlayfs": "fuse-overlayfs -f -o lowerdir={empty},upperdir={source},workdir={work} {mount}",
}


@dataclass
class Target:
    """A directory that workloads run in; all targets are directories of one file system."""

    name: str
    kind: str  # "native", "hipfile-fuse" or "peer"
    directory: Path
    options: str = ""
    command: list[str] = field(default_factory=list)
    version: str = ""


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
        """ext4 gives each directory in it inodes of another region (chattr +T): it is slow to make files where
        many were removed less than a minute ago, by whichever target."""
        path = self.subdirectory("source", file_name(name))
        subprocess.run(["chattr", "+T", str(path)], capture_output=True, check=False)
        return path

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
