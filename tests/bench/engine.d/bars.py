"""What the project asks of itself: printed beside what was measured, and deciding nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grid import KIB, Row
from results import Results


@dataclass(frozen=True)
class Bar:
    row: str
    what: str
    asked: float
    at_least: bool
    got: float

    @property
    def met(self) -> bool:
        return self.got >= self.asked if self.at_least else self.got <= self.asked

    @property
    def verdict(self) -> str:
        if self.met:
            return "met"
        return f"missed by {abs(self.got / self.asked - 1) * 100:.0f} %"


@dataclass(frozen=True)
class Group:
    """The rows of one place and memory, looked up by what they are."""

    results: Results
    place: str
    memory: str

    def find(self, transport: str, state: str, size: int, threads: int = 1, memory: str = "") -> Row | None:
        for row in self.results.rows.values():
            if (row.transport, row.state, row.size, row.threads) != (transport, state, size, threads):
                continue
            if row.direction == "read" and row.place == self.place and row.memory == (memory or self.memory):
                return row if self.results.measured(row) else None
        return None


def groups(results: Results, memories: list[str]) -> Iterator[Group]:
    for place, memory in dict.fromkeys((row.place, row.memory) for row in results.rows.values()):
        if place != "-" and memory in memories:
            yield Group(results, place, memory)


def bars(results: Results, kind: str, memories: list[str], span: int) -> list[Bar]:
    """Of the runtime at hand and its sorts of memory, not of peers."""
    found: list[Bar] = []
    for group in groups(results, memories):
        found += of_any_runtime(group, span)
        found += of_the_software_runtime(group, span) if kind == "software" else of_a_gpu(group, span)
    return found


Value = Callable[[Row], float | None]


def ratio_bar(
    row: Row | None, other: Row | None, what: str, asked: float, value: Value, at_least: bool = True
) -> list[Bar]:
    mine, others = (value(row) if row else None), (value(other) if other else None)
    if row is None or not mine or not others:
        return []
    return [Bar(row.name, what, asked, at_least, mine / others)]


def absolute_bar(row: Row | None, what: str, asked: float, value: Value, at_least: bool) -> list[Bar]:
    got = value(row) if row else None
    return [Bar(row.name, what, asked, at_least, got)] if row and got is not None else []


def baseline(results: Results, transport: str, place: str, state: str) -> Row | None:
    """Of large reads by the host alone; the one with the fewest threads."""
    found = [
        row
        for row in results.rows.values()
        if (row.transport, row.place, row.state, row.direction) == (transport, place, state, "read")
        and row.memory == "host"
        and not row.is_small
    ]
    return min(found, key=lambda row: row.threads, default=None)


def of_any_runtime(group: Group, span: int) -> list[Bar]:
    results = group.results
    found: list[Bar] = []
    for state in ("cached", "cold"):
        here = group.find("sync", state, span)
        for transport, what in (
            ("ioctl", "one large IO ioctl against the same call in process"),
            ("sync@mount", "the library on the mount against the library on the file"),
        ):
            found += ratio_bar(group.find(transport, state, span), here, what, 0.97, results.rate)
    small, sync, trip = (group.find(t, "cached", 4 * KIB) for t in ("ioctl", "sync", "round_trip"))
    if small and sync and trip:
        mine, process, empty = (results.microseconds(row) for row in (small, sync, trip))
        if mine and process and empty:
            what = "4 KiB ioctl against in process and an empty round trip"
            found.append(Bar(small.name, what, 1.0, False, mine / (process + empty)))
    return found


def of_the_software_runtime(group: Group, span: int) -> list[Bar]:
    results = group.results
    large, small = group.find("sync", "cached", span), group.find("sync", "cached", 4 * KIB)
    copy, fallback = baseline(results, "memcpy", "-", "-"), group.find("fallback", "cached", span)
    bare = group.find("pread", "cached", 4 * KIB, memory="host")
    return (
        ratio_bar(
            large, copy, "one cached request, per used core, against one memcpy", 0.9, results.rate_per_core
        )
        + ratio_bar(large, fallback, "one cached request against what AMD's fallback does", 2, results.rate)
        + ratio_bar(small, bare, "4 KiB against a bare pread", 1.5, results.microseconds, at_least=False)
    )


def of_a_gpu(group: Group, span: int) -> list[Bar]:
    results = group.results
    found: list[Bar] = []
    for transport in ("sync", "ioctl"):
        cached, kept = group.find(transport, "cached", span), group.find(transport, "kept", span)
        found += absolute_bar(cached, "one cached request, GB/s", 45, results.rate, True)
        found += absolute_bar(kept, "re-read of a kept window, GB/s", 53, results.rate, True)
        found += absolute_bar(kept, "re-read of a kept window, cores", 0.1, results.cores, False)
    cold, disk = group.find("sync", "cold", span), baseline(results, "disk", group.place, "cold")
    found += ratio_bar(cold, disk, "cold against the disk's limit", 0.97, results.rate)
    small = group.find("sync", "cached", 4 * KIB)
    found += absolute_bar(small, "4 KiB, us", 10, results.microseconds, False)
    for transport in ("batch", "ioctl_batch"):
        batch = group.find(transport, "cached", 4 * KIB)
        found += absolute_bar(batch, "batched 4 KiB, us for each", 1.3, results.microseconds, False)
    many = group.find("sync", "cached", 4 * KIB, threads=16)
    return found + ratio_bar(many, small, "4 KiB by 16 threads against one", 8, results.operations)
