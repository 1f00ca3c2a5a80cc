"""What comes out: a table of ratios to native, JSON with every sample, and a plot."""

from __future__ import annotations

import datetime
import json
import platform
import shlex
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from harness.machine import first_line, revision
from harness.plots import draw
from harness.tables import aligned, number
from targets import Target
from workloads import Sizes, Workload

BASELINE = "native"
TRANSPORT = "uring=on"  # bars on times are set for this mount option


@dataclass
class Results:
    """Samples and failures by workload and target."""

    workloads: list[Workload]
    targets: list[Target]
    skipped: dict[str, str] = field(default_factory=dict)  # targets that are not there
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, workload: Workload, target: Target, value: float) -> None:
        self.samples.setdefault(workload.name, {}).setdefault(target.name, []).append(value)

    def add_failure(self, workload: Workload, target: Target, reason: str) -> None:
        self.failures.setdefault(workload.name, {}).setdefault(target.name, reason)

    def middle(self, workload: Workload, name: str) -> float | None:
        values = self.samples.get(workload.name, {}).get(name)
        return median(values) if values else None

    def ratio(self, workload: Workload, name: str) -> float | None:
        value, base = self.middle(workload, name), self.middle(workload, BASELINE)
        return value / base if value is not None and base else None

    def bar(self, workload: Workload, target: Target) -> float | None:
        """What the project asks of this target."""
        asked = target.kind == "hipfile-fuse" and (workload.is_rate or TRANSPORT in target.options.split(","))
        return workload.bar if asked else None

    def misses_bar(self, workload: Workload, target: Target) -> bool:
        bar, ratio = self.bar(workload, target), self.ratio(workload, target.name)
        if bar is None or ratio is None:
            return False
        return ratio < bar if workload.is_rate else ratio > bar

    def daemon_fails(self) -> bool:
        """Something fails on hipfile-fuse that works on the source."""
        daemons = {target.name for target in self.targets if target.kind == "hipfile-fuse"}
        return any(BASELINE not in failed and daemons & set(failed) for failed in self.failures.values())


# Table --------------------------------------------------------------------------------------------


def cell(results: Results, workload: Workload, target: Target) -> str:
    if target.name == BASELINE:
        return number(results.middle(workload, BASELINE))
    ratio = results.ratio(workload, target.name)
    if ratio is None:
        return "failed" if workload.name in results.failures else "-"
    return f"{ratio:.2f}" + ("!" if results.misses_bar(workload, target) else "")


def table(results: Results) -> str:
    rows = [["", "unit", *(target.name for target in results.targets), "bar"]]
    for workload in results.workloads:
        bar = "" if workload.bar is None else f"{'>=' if workload.is_rate else '<='} {workload.bar:g}"
        rows.append(
            [
                workload.name,
                workload.unit,
                *(cell(results, workload, target) for target in results.targets),
                bar,
            ]
        )
    return aligned(rows, left=2)


def legend(results: Results) -> str:
    text = (
        f"{BASELINE}: median, in the unit of the row; the others: ratio of their median to it. Rates (MB/s, "
        "IOPS): higher is better; times: lower is better.\n"
        "native2 is the source once more, so its distance from 1 is noise. "
        f"! misses the bar; bars on times are for {TRANSPORT}."
    )
    reasons = {
        f"{workload} on {target}: {reason}"
        for workload, failed in results.failures.items()
        for target, reason in failed.items()
    }
    return "\n".join([text, *(f"failed: {reason}" for reason in sorted(reasons))])


# JSON ---------------------------------------------------------------------------------------------


def row_of(results: Results, workload: Workload) -> dict[str, object]:
    names = [target.name for target in results.targets]
    return {
        "name": workload.name,
        "unit": workload.unit,
        "better": "higher" if workload.is_rate else "lower",
        "bar": workload.bar,
        "samples": results.samples.get(workload.name, {}),
        "medians": {name: results.middle(workload, name) for name in names},
        "ratios": {name: results.ratio(workload, name) for name in names},
        "misses_bar": [target.name for target in results.targets if results.misses_bar(workload, target)],
        "failures": results.failures.get(workload.name, {}),
    }


def document(results: Results, about: dict[str, object], rounds: int, sizes: Sizes) -> dict[str, object]:
    return {
        "benchmark": "overlay",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "revision": revision(),
        "machine": about,
        "versions": {"fio": first_line(["fio", "--version"]), "python": platform.python_version()},
        "rounds": rounds,
        "sizes": asdict(sizes),
        "targets": [
            {"name": target.name, "kind": target.kind, "options": target.options, "version": target.version}
            for target in results.targets
        ],
        "skipped": results.skipped,
        "rows": [row_of(results, workload) for workload in results.workloads],
    }


def write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


# Plot ---------------------------------------------------------------------------------------------


def data_block(name: str, results: Results, workloads: list[Workload], columns: list[Target]) -> str:
    lines = [
        " ".join(
            [
                workload.name,
                *(
                    "NaN" if (ratio := results.ratio(workload, target.name)) is None else f"{ratio:.4f}"
                    for target in columns
                ),
            ]
        )
        for workload in workloads
    ]
    return "\n".join([f"${name} << END", *lines, "END"])


def panel(name: str, title: str, columns: list[Target], bar: float | None) -> str:
    titles = [target.name.replace("'", "") for target in columns]
    plots = [
        f"${name} using {column + 2}:xtic(1) title '{title_of}'" for column, title_of in enumerate(titles)
    ]
    lines = [f"1 with lines linecolor 'black' title '{BASELINE}'"]
    if bar is not None:
        lines.append(f"{bar} with lines dashtype 2 linecolor 'red' title 'bar {bar}'")
    return f"set title '{title}'\nplot " + ", ".join(plots + lines)


def gnuplot_script(results: Results) -> str:
    columns = [target for target in results.targets if target.name != BASELINE]
    rates = [workload for workload in results.workloads if workload.is_rate]
    times = [workload for workload in results.workloads if not workload.is_rate]
    bars = {workload.bar for workload in rates}
    return "\n".join(
        [
            "set terminal svg size 1400,1100 font 'sans,12' background 'white'",
            data_block("rates", results, rates, columns),
            data_block("times", results, times, columns),
            "set style data histogram\nset style histogram clustered gap 2",
            "set style fill solid 0.8 noborder",
            "set xtics rotate by -35 noenhanced\nset key outside below horizontal noenhanced\nset grid ytics",
            "set multiplot layout 2,1",
            "set yrange [0:*<2]",
            panel(
                "rates",
                "Data rates, ratio to native (higher is better, cut at 2)",
                columns,
                bars.pop() if len(bars) == 1 else None,
            ),
            "set yrange [*:*]\nset logscale y",
            panel("times", "Times, ratio to native (lower is better, logarithmic)", columns, None),
            "unset multiplot\n",
        ]
    )


def write_plot(path: Path, results: Results) -> str:
    """Draws an SVG; returns what stands in the way, or nothing."""
    return draw(gnuplot_script(results), path)
