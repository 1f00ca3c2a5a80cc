"""Tables that read well as text and as Markdown."""

from __future__ import annotations


def number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}" if abs(value) < 1e4 else f"{value:.0f}"


def aligned(rows: list[list[str]], left: int = 1) -> str:
    """The first row is the heading; the first `left` columns are flush left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| "
        + " | ".join(
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        )
        + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
