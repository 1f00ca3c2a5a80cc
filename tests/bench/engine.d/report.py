"""What comes out: tables, the bars, JSON with every sample, and a plot."""

from __future__ import annotations

import datetime
import json
import platform
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from bars import Bar
from grid import Row, Scale, size_text
from harness.machine import revision
from harness.plots import draw
from harness.tables import aligned, number
from results import Results


def compared(results: Results, row: Row, which: tuple[str, str] | None) -> str:
    found = None if row.baseline else results.comparison(row, which)
    return f"{found[0]:.2f} {found[1]}" if found else ""


def percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.0f} %"


def rate_row(results: Results, row: Row) -> list[str]:
    return [
        row.name,
        number(results.rate(row), 3),
        percent(results.spread(row)),
        compared(results, row, row.base),
        compared(results, row, row.limit),
        number(results.cpu_per_gib(row), 3),
        number(results.cores(row), 3),
        results.route(row),
    ]


def time_row(results: Results, row: Row) -> list[str]:
    operations = results.operations(row)
    return [
        row.name,
        number(results.microseconds(row), 3),
        percent(results.spread(row)),
        compared(results, row, row.base),
        compared(results, row, row.limit),
        number(results.percentile(row, "p50_us"), 3),
        number(results.percentile(row, "p99_us"), 3),
        number(operations / 1000 if operations else None, 3),
        str(row.depth),
        number(results.cpu_per_gib(row), 3),
        results.route(row),
    ]


RATES = ["large", "GB/s", "+-", "of base", "of limit", "CPU s/GiB", "cores", "route"]
TIMES = [
    "small",
    "us each",
    "+-",
    "x base",
    "x limit",
    "p50 us",
    "p99 us",
    "kops/s",
    "depth",
    "CPU s/GiB",
    "route",
]


def tables(results: Results) -> str:
    rows = [row for row in results.rows.values() if results.measured(row)]
    rates = [rate_row(results, row) for row in rows if not row.is_small]
    times = [time_row(results, row) for row in rows if row.is_small]
    parts = [aligned([heading, *body]) for heading, body in ((RATES, rates), (TIMES, times)) if body]
    return "\n\n".join(parts)


def bar_table(found: list[Bar]) -> str:
    if not found:
        return "no bar speaks of these rows"
    rows = [["bar", "row", "asked", "got", ""]]
    for bar in found:
        asked = f"{'>=' if bar.at_least else '<='} {bar.asked:g}"
        rows.append([bar.what, bar.row, asked, number(bar.got, 3), bar.verdict])
    return aligned(rows, left=2)


LEGEND = """\
Rows: file system / device memory / direction / state of the file / request / transport / threads. Medians over the
rounds; "+-" is half of the distance between the best and the worst of them.
"of base": the rate against one thread that reads (O_DIRECT if cold) into pinned memory and copies; "of limit":
against the pinned copy to the device, or what the disk can do. "x base": the time against a bare pread or pwrite;
"x limit": against that with a copy through pinned memory.
p50 and p99 are of `depth` requests handed over together, "us each" is p50 for each of them, kops/s are of all threads.
CPU counts this process and the mount's daemon. kept: the third read of the same range. fallback: as AMD's hipFile
does it without P2P. Large writes end with fdatasync, small ones do not."""


def notes(results: Results) -> str:
    lines = [LEGEND]
    lines += [f"skipped: {name}: {reason}" for name, reason in results.skipped.items()]
    lines += [f"failed: {name}: {reason}" for name, reason in results.failures.items()]
    return "\n".join(lines)


# JSON ---------------------------------------------------------------------------------------------


def row_of(results: Results, row: Row, found: list[Bar]) -> dict[str, object]:
    base, limit = (results.comparison(row, which) for which in (row.base, row.limit))
    return {
        "name": row.name,
        "place": row.place,
        "memory": row.memory,
        "direction": row.direction,
        "state": row.state,
        "size": row.size,
        "transport": row.transport,
        "threads": row.threads,
        "depth": row.depth,
        "baseline": row.baseline,
        "unit": "us" if row.is_small else "GB/s",
        "median": results.value(row),
        "ratio_to_base": base and {"ratio": base[0], "base": base[1]},
        "ratio_to_limit": limit and {"ratio": limit[0], "limit": limit[1]},
        "cpu_seconds_per_gib": results.cpu_per_gib(row),
        "cores": results.cores(row),
        "p50_us": results.percentile(row, "p50_us"),
        "p99_us": results.percentile(row, "p99_us"),
        "spread": results.spread(row),
        "operations_per_second": results.operations(row),
        "route": results.route(row),
        "bars": [{**asdict(bar), "met": bar.met} for bar in found if bar.row == row.name],
        "samples": results.samples.get(row.name, []),
        "failure": results.failures.get(row.name),
    }


def document(
    results: Results,
    found: list[Bar],
    about: dict[str, object],
    rounds: int,
    scale: Scale,
    versions: dict[str, str],
) -> dict[str, object]:
    return {
        "benchmark": "engine",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "revision": revision(),
        "machine": about,
        "versions": {"python": platform.python_version(), **versions},
        "rounds": rounds,
        "scale": asdict(scale),
        "skipped": results.skipped,
        "rows": [row_of(results, row, found) for row in results.rows.values()],
    }


# Plot ---------------------------------------------------------------------------------------------


def series(results: Results, small: bool) -> tuple[list[str], list[str], dict[tuple[str, str], float]]:
    """What lies along the axis, the transports, and the medians: of reads by one thread."""
    values: dict[tuple[str, str], float] = {}
    for row in results.rows.values():
        value = results.value(row)
        if (
            value is None
            or row.is_small != small
            or row.direction != "read"
            or row.threads != 1
            or row.place == "-"
        ):
            continue
        if row.memory != "host":
            values[f"{row.place}/{row.memory}/{row.state}/{size_text(row.size)}", row.transport] = value
    return (
        list(dict.fromkeys(key[0] for key in values)),
        list(dict.fromkeys(key[1] for key in values)),
        values,
    )


def panel(name: str, title: str, results: Results, small: bool) -> str:
    points, transports, values = series(results, small)
    if not points:
        return ""
    lines = [
        " ".join(
            [
                f'"{point}"',
                *(f"{values.get((point, transport), float('nan')):.5g}" for transport in transports),
            ]
        )
        for point in points
    ]
    plots = [f"${name} using {i + 2}:xtic(1) title '{transport}'" for i, transport in enumerate(transports)]
    return "\n".join([f"${name} << END", *lines, "END", f"set title '{title}'", "plot " + ", ".join(plots)])


def gnuplot_script(results: Results) -> str:
    panels = [
        panel("rates", "Large reads by one thread, GB/s (higher is better)", results, small=False),
        panel("times", "Small reads by one thread, us each (lower is better)", results, small=True),
    ]
    panels = [text for text in panels if text]
    return "\n".join(
        [
            "set terminal svg size 1800,1300 font 'sans,11' background 'white'",
            "set style data histogram\nset style histogram clustered gap 2",
            "set style fill solid 0.8 noborder\nset logscale y",
            "set xtics rotate by -35 noenhanced\nset key outside right noenhanced\nset grid ytics",
            f"set multiplot layout {len(panels)},1",
            *panels,
            "unset multiplot\n",
        ]
    )


def write_all(directory: Path, results: Results, content: dict[str, object], text: str) -> str:
    """engine.json, engine.md, engine.gp and, with gnuplot, engine.svg; returns why there is no plot."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "engine.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (directory / "engine.md").write_text(text + "\n", encoding="utf-8")
    script = gnuplot_script(results)
    (directory / "engine.gp").write_text(script, encoding="utf-8")
    return draw(script, directory / "engine.svg")
