"""Samples by row, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from grid import GIB, Row, compared_row

Sample = dict[str, Any]  # an answer of bench_engine


@dataclass
class Results:
    rows: dict[str, Row]
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # places, mounts and peers that are not there

    def add(self, row: Row, sample: Sample) -> None:
        self.samples.setdefault(row.name, []).append(sample)

    def fail(self, row: Row, reason: str) -> None:
        self.failures.setdefault(row.name, reason)

    def measured(self, row: Row) -> bool:
        return bool(self.samples.get(row.name))

    def middle(self, row: Row, value: Callable[[Sample], float]) -> float | None:
        samples = [sample for sample in self.samples.get(row.name, []) if sample["seconds"] > 0]
        return median(value(sample) for sample in samples) if samples else None

    def rate(self, row: Row) -> float | None:
        """GB/s"""
        return self.middle(row, lambda s: s["bytes"] / s["seconds"] / 1e9)

    def rate_per_core(self, row: Row) -> float | None:
        """GB/s for each core that was busy, counting parts of cores."""
        return self.middle(row, lambda s: s["bytes"] / max(cpu_of(s), 1e-9) / 1e9)

    def microseconds(self, row: Row) -> float | None:
        """Of one request as its thread sees it: half of them take longer, or half of the groups of `depth`."""
        return self.middle(row, lambda s: s["p50_us"] / row.depth)

    def operations(self, row: Row) -> float | None:
        """Per second"""
        return self.middle(row, lambda s: s["operations"] / s["seconds"])

    def cores(self, row: Row) -> float | None:
        return self.middle(row, lambda s: cpu_of(s) / s["seconds"])

    def cpu_per_gib(self, row: Row) -> float | None:
        """Seconds of this process and of the daemon"""
        return self.middle(row, lambda s: cpu_of(s) * GIB / max(s["bytes"], 1))

    def percentile(self, row: Row, name: str) -> float | None:
        """Microseconds that handing over up to `depth` requests takes; name: p50_us or p99_us"""
        return self.middle(row, lambda s: s[name])

    def value(self, row: Row) -> float | None:
        return self.microseconds(row) if row.is_small else self.rate(row)

    def spread(self, row: Row) -> float | None:
        """Half of the distance between the best and the worst round, as a part of the median."""
        values = [
            sample["p50_us"] if row.is_small else sample["bytes"] / sample["seconds"]
            for sample in self.samples.get(row.name, [])
            if sample["seconds"] > 0
        ]
        return (max(values) - min(values)) / 2 / median(values) if len(values) > 1 else None

    def comparison(self, row: Row, which: tuple[str, str] | None) -> tuple[float, str] | None:
        """The ratio to a baseline, and its transport."""
        other = compared_row(row, which, self.rows)
        mine, others = self.value(row), self.value(other) if other else None
        if other is None or mine is None or not others:
            return None
        return mine / others, other.transport

    def route(self, row: Row) -> str:
        routes = [sample.get("route", "") for sample in self.samples.get(row.name, [])]
        return routes[-1] if routes else ""


def cpu_of(sample: Sample) -> float:
    return float(sample["cpu_seconds"] + sample["server_cpu_seconds"])
