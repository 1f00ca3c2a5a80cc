"""Signals end a benchmark in order, so that it unmounts and deletes what it made."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_in_order() -> None:
    for number in ENDING:
        signal.signal(number, _end)


def ignore() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: object) -> NoReturn:
    ignore()
    sys.exit(128 + number)
