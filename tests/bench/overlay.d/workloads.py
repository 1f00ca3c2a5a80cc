"""What is measured: each workload runs in one directory and gives one number."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

COMMAND_SECONDS = 900
MIB = 1 << 20
SMALLEST_BAR = 0.95  # of data rows


class WorkloadError(Exception):
    """A workload that could not run, with the reason."""


@dataclass(frozen=True)
class Sizes:
    """How much is done; `quick` only shows that everything runs."""

    mib: int = 1024  # the file of data workloads
    small_mib: int = 256  # what 4 KiB writes write
    seconds: float = 2.0  # of workloads that run for a time
    files: int = 10000  # files in one directory
    hot_files: int = 1000  # those that warm metadata workloads go over
    operations: int = 20000  # that they make at least
    tree_files: int = 2000
    repeats: int = 10  # of commands that end at once
    settle_seconds: float = 0.2  # for daemons to follow a drop of caches

    @staticmethod
    def quick() -> Sizes:
        return Sizes(
            mib=16,
            small_mib=8,
            seconds=0.1,
            files=300,
            hot_files=100,
            operations=500,
            tree_files=100,
            repeats=2,
            settle_seconds=0.02,
        )


@dataclass(frozen=True)
class Bench:
    """What workloads need beside a directory."""

    sizes: Sizes
    metadata: Path  # bench_metadata
    archive: Path  # of the tree


@dataclass(frozen=True)
class Workload:
    name: str
    unit: str
    run: Callable[[Bench, Path], float]
    bar: float | None = None  # on the ratio to native: a data rate's least, a time's most
    cold: bool = False  # drops caches, which takes root

    @property
    def is_rate(self) -> bool:
        return self.unit in ("MB/s", "IOPS")


def command_output(command: list[str], expected: int = 0) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkloadError(f"{command[0]}: {error}") from error
    if done.returncode != expected:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise WorkloadError(said[-1])
    return done.stdout


def drop_caches(what: int, sizes: Sizes) -> None:
    """2: names and attributes, 3: data too. Twice, because the first frees what a FUSE mount holds of the
    file system underneath, and only once its daemon has heard of it can the second free that."""
    os.sync()
    for _ in range(2):
        try:
            Path("/proc/sys/vm/drop_caches").write_text(f"{what}\n")
        except OSError as error:
            raise WorkloadError(f"cannot drop caches: {error.strerror}") from error
        time.sleep(sizes.settle_seconds)


def read_whole(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


# Data ---------------------------------------------------------------------------------------------


def make_data(bench: Bench, path: Path) -> None:
    """One file that every target has a hard link to: reads meet the same blocks of the disk everywhere."""
    with open(path, "wb") as file:
        file.writelines(os.urandom(MIB) for _ in range(bench.sizes.mib))
        os.fsync(file.fileno())


def fio(file: Path, mib: int, *arguments: str) -> dict[str, Any]:
    """Runs one job of fio and returns the half of its result, read or write, that did something."""
    command = [
        "fio",
        "--name=overlay",
        f"--filename={file}",
        f"--size={mib}m",
        "--thread",
        "--invalidate=0",
        "--fallocate=none",
        "--norandommap",
        "--randrepeat=1",
        "--output-format=json",
        *arguments,
    ]
    output = command_output(command)
    try:
        job = json.loads(output[output.index("{") :])["jobs"][0]
    except (ValueError, KeyError, IndexError) as error:
        raise WorkloadError(f"fio: {output.strip().splitlines()[:1]}") from error
    if job["error"]:
        raise WorkloadError(f"fio: {os.strerror(job['error'])}")
    return max(job["read"], job["write"], key=lambda half: half["io_bytes"])


def rate_of(half: dict[str, Any], unit: str) -> float:
    return float(half["bw_bytes"]) / 1e6 if unit == "MB/s" else float(half["iops"])


def fio_read(unit: str, *arguments: str, prepare: str, whole: bool = False) -> Callable[[Bench, Path], float]:
    """Reads of the shared file: once, or for the set time. prepare: "warm", "cold", or "none"."""

    def run(bench: Bench, directory: Path) -> float:
        file = directory / "data"
        if prepare == "warm":
            read_whole(file)
        elif prepare == "cold":
            drop_caches(3, bench.sizes)
        limits = [] if whole else ["--time_based", f"--runtime={int(bench.sizes.seconds * 1000)}ms"]
        half = fio(file, bench.sizes.mib, "--allow_file_create=0", *limits, *arguments)
        return rate_of(half, unit)

    return run


def fio_write(unit: str, *arguments: str, size: Callable[[Sizes], int]) -> Callable[[Bench, Path], float]:
    """Writes a new file once."""

    def run(bench: Bench, directory: Path) -> float:
        file = directory / "written"
        os.sync()  # nobody pays for what was written before
        try:
            half = fio(file, size(bench.sizes), "--rw=write", "--ioengine=psync", *arguments)
        finally:
            file.unlink(missing_ok=True)
        return rate_of(half, unit)

    return run


# Metadata -----------------------------------------------------------------------------------------


def fresh_directory(parent: Path) -> Path:
    """Where no files were removed: by the name ext4 chooses the region of the disk (see Stage.source)."""
    path = parent / f"fresh.{random.SystemRandom().getrandbits(64):x}"
    path.mkdir()
    return path


def metadata(operation: str, hot: bool = False, cold: bool = False) -> Callable[[Bench, Path], float]:
    """Microseconds of one operation on the files of a large directory, on all or on the hot ones."""

    def run(bench: Bench, directory: Path) -> float:
        files = directory / "files"
        if operation == "create":
            shutil.rmtree(files, ignore_errors=True)
            fresh_directory(directory).rename(files)
        command = [
            str(bench.metadata),
            operation,
            str(files),
            f"--files={bench.sizes.hot_files if hot else bench.sizes.files}",
            f"--operations={bench.sizes.operations}",
        ]
        if cold:
            drop_caches(2, bench.sizes)
            command.append("--cold")
        return float(json.loads(command_output(command))["ns_per_operation"]) / 1000

    return run


# Trees --------------------------------------------------------------------------------------------

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett")
NO_MATCH = "a text that is in no file"


def make_archive(bench: Bench, path: Path) -> None:
    """Small files of text in directories of 50, like sources."""
    chosen = random.Random(1)
    with tarfile.open(path, "w") as archive:
        for number in range(bench.sizes.tree_files):
            if number % 50 == 0:
                directory = tarfile.TarInfo(f"tree/d{number // 50:03}")
                directory.type, directory.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(directory)
            text = " ".join(chosen.choices(WORDS, k=chosen.randint(50, 2500))).encode()
            file = tarfile.TarInfo(f"tree/d{number // 50:03}/f{number:05}.txt")
            file.size, file.mode = len(text), 0o644
            archive.addfile(file, BytesIO(text))


def seconds_of(command: list[str], expected: int = 0, repeats: int = 1) -> float:
    """Seconds of one run, repeated by a shell because starting a program from here takes longer than some."""
    loop = (
        'n=$1 want=$2; shift 2; while [ $n -gt 0 ]; do "$@" >/dev/null; got=$?; '
        "[ $got -eq $want ] || exit 1; n=$((n - 1)); done"
    )
    start = time.perf_counter()
    command_output(["sh", "-c", loop, "sh", str(repeats), str(expected), *command])
    return (time.perf_counter() - start) / repeats


def untar(bench: Bench, directory: Path) -> float:
    os.sync()
    fresh = fresh_directory(directory)
    seconds = seconds_of(["tar", "-xf", str(bench.archive), "-C", str(fresh)])
    (fresh / "tree").rename(directory / "tree")
    fresh.rmdir()
    return seconds


def on_tree(
    *command: str, expected: int = 0, prepare: str = "none", short: bool = False
) -> Callable[[Bench, Path], float]:
    """Seconds of a command on the tree that untar left. short: it ends at once, so it is repeated."""

    def run(bench: Bench, directory: Path) -> float:
        whole = [*(word.format(tree=directory / "tree") for word in command)]
        if prepare == "warm":
            seconds_of(whole, expected)
        elif prepare == "cold":
            drop_caches(3, bench.sizes)
        return seconds_of(whole, expected, bench.sizes.repeats if short else 1)

    return run


FIND = ("find", "{tree}", "-type", "f")
GREP = ("grep", "-rF", NO_MATCH, "{tree}")

RANDOM_4K = ("--rw=randread", "--bs=4k")
READ_1M = ("--rw=read", "--bs=1m")
DIRECT = "--direct=1"
DEPTH_32 = "--iodepth=32"

# In the order in which they run: later ones use what earlier ones made.
WORKLOADS = [
    Workload(
        "seq_read_1m_cold",
        "MB/s",
        fio_read("MB/s", *READ_1M, "--ioengine=psync", prepare="cold", whole=True),
        SMALLEST_BAR,
        cold=True,
    ),
    Workload(
        "seq_read_1m_warm",
        "MB/s",
        fio_read("MB/s", *READ_1M, "--ioengine=psync", prepare="warm"),
        SMALLEST_BAR,
    ),
    Workload(
        "rand_read_4k_warm",
        "IOPS",
        fio_read("IOPS", *RANDOM_4K, "--ioengine=psync", prepare="warm"),
        SMALLEST_BAR,
    ),
    Workload(
        "rand_read_4k_mmap",
        "IOPS",
        fio_read("IOPS", *RANDOM_4K, "--ioengine=mmap", prepare="warm"),
        SMALLEST_BAR,
    ),
    Workload(
        "rand_read_4k_direct_qd1",
        "IOPS",
        fio_read("IOPS", *RANDOM_4K, DIRECT, "--ioengine=psync", prepare="none"),
        SMALLEST_BAR,
    ),
    Workload(
        "rand_read_4k_direct_qd32_io_uring",
        "IOPS",
        fio_read("IOPS", *RANDOM_4K, DIRECT, DEPTH_32, "--ioengine=io_uring", prepare="none"),
        SMALLEST_BAR,
    ),
    Workload(
        "rand_read_4k_direct_qd32_libaio",
        "IOPS",
        fio_read("IOPS", *RANDOM_4K, DIRECT, DEPTH_32, "--ioengine=libaio", prepare="none"),
        SMALLEST_BAR,
    ),
    Workload(
        "seq_read_1m_direct",
        "MB/s",
        fio_read("MB/s", *READ_1M, DIRECT, "--ioengine=psync", prepare="none"),
        SMALLEST_BAR,
    ),
    Workload(
        "seq_write_1m_fsync",
        "MB/s",
        fio_write("MB/s", "--bs=1m", "--end_fsync=1", size=lambda sizes: sizes.mib),
        SMALLEST_BAR,
    ),
    Workload(
        "seq_write_4k_buffered",
        "IOPS",
        fio_write("IOPS", "--bs=4k", size=lambda sizes: sizes.small_mib),
        SMALLEST_BAR,
    ),
    Workload("create", "us", metadata("create"), 3),
    Workload("stat_cold", "us", metadata("stat", cold=True), 4, cold=True),
    Workload("stat_warm", "us", metadata("stat", hot=True)),
    Workload("open_close", "us", metadata("open_close", hot=True), 25),
    Workload("open_write_close", "us", metadata("open_write_close", hot=True)),
    Workload("open_read_close", "us", metadata("open_read_close", hot=True)),
    Workload("chmod", "us", metadata("chmod", hot=True)),
    Workload("enoent", "us", metadata("enoent", hot=True)),
    Workload("rename", "us", metadata("rename", hot=True), 4),
    Workload("ls_l_cold", "us", metadata("ls_l", cold=True), cold=True),
    Workload("ls_l_warm", "us", metadata("ls_l"), 2),
    Workload("unlink", "us", metadata("unlink")),
    Workload("untar", "s", untar, 2),
    Workload("find_warm", "s", on_tree(*FIND, prepare="warm", short=True), 2),
    Workload("grep_r_cold", "s", on_tree(*GREP, expected=1, prepare="cold"), cold=True),
    Workload("grep_r_warm", "s", on_tree(*GREP, expected=1, prepare="warm", short=True)),
    Workload("rm_rf", "s", on_tree("rm", "-rf", "{tree}")),
]
