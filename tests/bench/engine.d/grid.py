"""The rows: what is measured, how each is named, and which baseline of the same run it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL = 64 * KIB  # requests up to here are judged by their time, larger ones by their rate
SIZES = (4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
LIBRARY = ("sync", "batch", "async")
MOUNTED = ("ioctl", "ioctl_batch", "tagged", "sync@mount")
DISK_THREADS = 32  # synchronous requests in flight that fill any disk's queue
GATHERED = 64  # small reads that one copy takes along
DEPTHS = {4 * KIB: 64, 64 * KIB: 64, MIB: 16, 64 * MIB: 4}  # requests handed over together
NO_CACHE_CONTROL = ("tmpfs", "ramfs")  # their files are always cached


@dataclass(frozen=True)
class Place:
    """A directory, and device memory of one sort."""

    name: str  # of the file system
    memory: str
    mounted: bool  # hipfile-fuse shows the directory


@dataclass(frozen=True)
class Row:
    place: str
    memory: str
    direction: str
    state: str
    size: int
    transport: str
    threads: int = 1
    baseline: bool = False
    depth: int = 1
    workload: dict[str, object] = field(default_factory=dict, compare=False)
    base: tuple[str, str] | None = None  # memory and transport of the row that it is compared with
    limit: tuple[str, str] | None = None  # of the row that it cannot beat

    @property
    def name(self) -> str:
        return "/".join(
            (self.place, self.memory, self.direction, self.state, size_text(self.size), self.transport)
            + (f"t{self.threads}",)
        )

    @property
    def is_small(self) -> bool:
        return self.size <= SMALL


def size_text(size: int) -> str:
    for unit, text in ((GIB, "GiB"), (MIB, "MiB")):
        if size % unit == 0:
            return f"{size // unit}{text}"
    return f"{size // KIB}KiB"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    span: int  # bytes of the file
    threads: tuple[int, ...]
    seconds: float  # that a row of small requests may take
    operations: int  # that it makes at most
    quick: bool = False
    full: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        if self.quick:
            return (4 * KIB, self.span)
        return tuple(size for size in SIZES if size < self.span) + (self.span,)

    def fits(self, size: int, threads: int) -> bool:
        return size * threads <= self.span


def states_of(place: Place, direction: str) -> tuple[str, ...]:
    if direction == "write":
        return ("cached", "new")
    return ("cached",) if place.name in NO_CACHE_CONTROL else ("cached", "half", "cold")


def workload_of(scale: Scale, row: Row) -> dict[str, object]:
    """What bench_engine is asked for, apart from the file."""
    work: dict[str, object] = {
        "transport": row.transport.partition("@")[0],
        "direction": row.direction,
        "state": {"kept": "cached", "new": "fresh", "-": "as_is"}.get(row.state, row.state),
        "span": scale.span,
        "size": row.size,
        "threads": row.threads,
        "depth": row.depth,
    }
    if row.is_small:
        # The first requests of a thread make what later ones use.
        work |= {"random": True, "operations": scale.operations * row.threads, "seconds": scale.seconds}
        work |= {"warm_passes": 1, "warm_requests": 2 * row.depth}
    if row.state == "kept":
        work |= {"warm_passes": 2, "warm_requests": 0}
    if row.direction == "write" and row.state != "-" and not row.is_small:
        work["sync"] = True
    return work | row.workload


def depth_of(transport: str, size: int, span: int) -> int:
    if transport not in ("batch", "async", "ioctl_batch"):
        return 1
    return min(DEPTHS.get(size, 1), span // size)


def row(scale: Scale, **fields: object) -> Row:
    fields.setdefault("depth", depth_of(str(fields["transport"]), int(str(fields["size"])), scale.span))
    made = Row(**fields)  # type: ignore[arg-type]
    made.workload.update(workload_of(scale, made))
    return made


# Rows under test ----------------------------------------------------------------------------------


def transports_of(place: Place) -> tuple[str, ...]:
    return LIBRARY + (MOUNTED if place.mounted else ())


def comparisons(memory: str, direction: str, state: str, size: int) -> dict[str, tuple[str, str]]:
    """Small requests: a bare system call, and that with a copy. Large: one thread that reads and copies, and what
    the device link or the disk can do at most."""
    if size <= SMALL:
        return {"base": ("host", "pread"), "limit": (memory, "pread_pinned")}
    if direction == "write":
        return {"base": (memory, "pread_pinned"), "limit": ("host", "disk")}
    if state == "cold":
        return {"base": (memory, "direct_pinned"), "limit": ("host", "disk")}
    return {"base": (memory, "pread_pinned"), "limit": (memory, "device_copy")}


def tested(scale: Scale, place: Place) -> Iterator[Row]:
    for direction in ("read", "write"):
        for state, size, transport, threads in product(
            states_of(place, direction), scale.sizes, transports_of(place), scale.threads
        ):
            if scale.fits(size, threads) and wanted(scale, direction, state, size, transport, threads):
                yield row(
                    scale,
                    place=place.name,
                    memory=place.memory,
                    direction=direction,
                    state=state,
                    size=size,
                    transport=transport,
                    threads=threads,
                    **comparisons(place.memory, direction, state, size),
                )
    for transport in ("sync", "ioctl") if place.mounted else ("sync",):
        yield row(
            scale,
            place=place.name,
            memory=place.memory,
            direction="read",
            state="kept",
            size=scale.span,
            transport=transport,
            **comparisons(place.memory, "read", "kept", scale.span),
        )


def wanted(scale: Scale, direction: str, state: str, size: int, transport: str, threads: int) -> bool:
    """The whole product takes hours; without --full one thread does everything, and many do what tells most."""
    if scale.full:
        return True
    if direction == "write" and transport in ("batch", "async", "ioctl_batch", "sync@mount"):
        return not scale.quick and threads == 1 and size == MIB
    if threads > 1:
        states = ("cached",) if scale.quick else ("cached", "cold", "new")
        return transport in ("sync", "ioctl") and size in (4 * KIB, MIB) and state in states
    if state == "half":
        return size > SMALL and transport not in ("ioctl_batch", "sync@mount")
    return True


# Baselines ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Baselines:
    """Makes the baselines of a place; `more` is what bench_engine is asked beside the ordinary."""

    scale: Scale
    place: str
    memory: str

    def row(self, direction: str, state: str, size: int, name: str, threads: int = 1, **more: object) -> Row:
        return row(
            self.scale,
            place=self.place,
            memory=self.memory,
            direction=direction,
            state=state,
            size=size,
            transport=name,
            threads=threads,
            baseline=True,
            depth=more.get("depth", 1),
            workload=more,
        )


def host_baselines(scale: Scale, place: Place) -> Iterator[Row]:
    """That have nothing to do with the device."""
    made = Baselines(scale, place.name, "host").row
    small = [size for size in scale.sizes if size <= SMALL]
    for direction in ("read", "write"):
        for state, size, threads in product(states_of(place, direction), small, scale.threads):
            if state != "half" and (threads == 1 or size == 4 * KIB or scale.full):
                yield made(direction, state, size, "pread", threads)
    yield made("read", "cached", scale.span, "pread")
    if place.name not in NO_CACHE_CONTROL:
        deep = min(DISK_THREADS, scale.span // MIB)
        yield made("read", "cold", MIB, "disk", deep, interleaved=True)
        yield made("read", "cold", 4 * KIB, "disk", DISK_THREADS)
        yield made("write", "cached", MIB, "disk", deep, interleaved=True)
        yield made("write", "new", MIB, "disk", deep, interleaved=True)


def device_baselines(scale: Scale, place: Place) -> Iterator[Row]:
    """What a program would do by itself."""
    made = Baselines(scale, place.name, place.memory).row
    small = [size for size in scale.sizes if size <= SMALL]
    for state in states_of(place, "read"):
        yield made("read", state, scale.span, "pread_pinned")
        if state == "half":
            continue
        yield made("read", state, scale.span, "pread_pageable")
        yield made("read", state, scale.span, "fallback", chunk=16 * MIB)
        for size in small:
            yield made("read", state, size, "pread_pinned")
        if state == "cold":
            yield made("read", state, scale.span, "direct_pinned")
    gather: dict[str, object] = {"transport": "pread_pinned", "depth": GATHERED, "random": False}
    yield made("read", "cached", 4 * KIB, "gathered", 1, **gather)
    for state in states_of(place, "write"):
        yield made("write", state, scale.span, "pread_pinned")
        for size in small:
            yield made("write", state, size, "pread_pinned")
    if place.mounted:
        yield made("read", "cached", 4 * KIB, "round_trip")


def machine_baselines(scale: Scale, memories: list[str], cpus: int) -> Iterator[Row]:
    """That have nothing to do with files."""
    for threads in sorted({1, min(cpus, scale.span // MIB)}):
        size = scale.span // threads // MIB * MIB
        yield Baselines(scale, "-", "host").row("read", "-", size, "memcpy", threads)
    for memory, direction in product(memories, ("read", "write")):
        made = Baselines(scale, "-", memory).row
        yield made(direction, "-", scale.span, "device_copy", chunk=64 * MIB)


def rows_of(scale: Scale, places: list[Place], cpus: int) -> list[Row]:
    memories = list(dict.fromkeys(place.memory for place in places))
    made = list(machine_baselines(scale, memories, cpus))
    seen: set[str] = set()
    for place in places:
        if place.name not in seen:
            made += host_baselines(scale, place)
            seen.add(place.name)
        made += device_baselines(scale, place)
        made += tested(scale, place)
    return list({made_row.name: made_row for made_row in made}.values())


# Comparisons --------------------------------------------------------------------------------------


def speaks_of(baseline: Row, tested_row: Row) -> bool:
    """Whether a baseline, and the bars that are made with it, have to do with a row."""
    state = "cached" if tested_row.state == "kept" else tested_row.state
    return (
        baseline.baseline
        and not tested_row.baseline
        and baseline.direction == tested_row.direction
        and baseline.place in (tested_row.place, "-")
        and baseline.state in (state, "-")
        and (baseline.size == tested_row.size if tested_row.is_small else not baseline.is_small)
    )


def compared_row(tested_row: Row, which: tuple[str, str] | None, rows: dict[str, Row]) -> Row | None:
    """The baseline of that memory and transport which is nearest to a row: for small requests of the same size,
    and of as many threads or else of one; for large ones any that is large."""
    found = [
        other
        for other in rows.values()
        if (other.memory, other.transport) == which and speaks_of(other, tested_row)
    ]
    return min(found, key=lambda other: (other.threads != tested_row.threads, other.threads), default=None)
