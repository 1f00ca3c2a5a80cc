"""File systems to measure on, the files there, and hipfile-fuse over them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from grid import MIB, NO_CACHE_CONTROL, Place, Row
from harness.machine import file_system_of
from harness.mounts import Mount, MountError, is_mounted

LOOP_OVERHEAD = 400 * MIB  # of a file system; xfs wants 300 MiB at least
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
READ_FILES = {"cached": "cached", "kept": "cached", "half": "half", "cold": "cold", "-": "cached"}


@dataclass
class Site:
    """A directory of our own on one file system, and the mounts that show it, by sort of memory."""

    name: str
    directory: Path
    mounts: dict[str, Path] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        return self.directory / "source"

    def files(self) -> list[str]:
        """One for each state, so that preparing one spoils no other."""
        return ["cached", "write"] + ([] if self.name in NO_CACHE_CONTROL else ["half", "cold"])

    def paths(self, row: Row) -> dict[str, object]:
        if row.state == "-":
            return {}
        name = "write" if row.direction == "write" else READ_FILES[row.state]
        on_mount = row.transport in (
            "ioctl",
            "ioctl_batch",
            "tagged",
            "round_trip",
        ) or row.transport.endswith("@mount")
        root = self.mounts[row.memory] if on_mount else self.source
        return {"path": str(root / name), "source": str(self.source / name)}


def own_directory(parent: Path, cleanup: ExitStack) -> Path:
    base = Path(tempfile.mkdtemp(prefix="hipfile_engine.", dir=parent.resolve()))
    base.chmod(0o755)
    cleanup.callback(remove, base)
    return base


def remove(base: Path) -> None:
    if any(is_mounted(path) for path in [base, *base.glob("*")]):
        print(f"engine: {base} is left behind: something is still mounted there", flush=True)
        return
    shutil.rmtree(base, ignore_errors=True)


def run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MountError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise MountError(f"{command[0]}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout.strip()


def loop_site(kind: str, parent: Path, size: int, cleanup: ExitStack) -> Site:
    """A file system in a file; the loop device reads it with O_DIRECT, so that nothing is cached twice."""
    if os.geteuid() != 0:
        raise MountError("needs root")
    base = own_directory(parent, cleanup)
    image = base / "image"
    with open(image, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size + LOOP_OVERHEAD)
    run([*MKFS[kind], str(image)])
    mount_point = base / "loop"
    mount_point.mkdir()
    device = run(["losetup", "--find", "--show", "--direct-io=on", str(image)])
    try:
        run(["mount", device, str(mount_point)])
        cleanup.callback(unmount, mount_point)
    finally:
        run(["losetup", "--detach", device])  # takes effect with the unmount
    return make_site(kind, own_directory(mount_point, cleanup))


def unmount(path: Path) -> None:
    for options in ([], ["--lazy"]):
        if not subprocess.run(["umount", *options, str(path)], capture_output=True, check=False).returncode:
            return


def make_site(name: str, base: Path) -> Site:
    site = Site(name, base)
    site.source.mkdir()
    return site


def open_sites(
    directories: list[Path],
    loops: list[str],
    loop_parent: Path,
    size: int,
    cleanup: ExitStack,
    skipped: dict[str, str],
) -> list[Site]:
    sites: list[Site] = []
    for directory in directories:
        name = file_system_of(directory)
        if any(site.name == name for site in sites):
            name += f"{len(sites) + 1}"
        try:
            sites.append(make_site(name, own_directory(directory, cleanup)))
        except OSError as error:
            skipped[str(directory)] = str(error)
    for kind in loops:
        if any(site.name == kind for site in sites):
            continue
        try:
            sites.append(loop_site(kind, loop_parent, size, cleanup))
        except (MountError, OSError) as error:
            skipped[kind] = str(error)
    return sites


def show(
    site: Site, memory: str, program: Path, options: str, environment: dict[str, str], cleanup: ExitStack
) -> None:
    """Mounts hipfile-fuse over the site for this sort of memory, or notes why not."""
    point = site.directory / f"mount.{memory}"
    point.mkdir()
    command = [str(program), "-f", str(site.source), str(point), "-o", options]
    try:
        if not os.access(program, os.X_OK):
            raise MountError(f"no {program}")
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise MountError("needs /dev/fuse")
        cleanup.enter_context(Mount(command, point, site.directory / f"mount.{memory}.log", environment))
        site.mounts[memory] = point
    except MountError as error:
        site.skipped[memory] = str(error)


def places_of(sites: list[Site], memories: list[str]) -> list[Place]:
    return [Place(site.name, memory, memory in site.mounts) for site in sites for memory in memories]
