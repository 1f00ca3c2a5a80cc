"""Other software for the same work, where the machine has it. A peer's rows have its name in place of the memory's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from grid import KIB, MIB, Place, Row, Scale, comparisons, row, states_of

HERE = Path(__file__).resolve().parent
ONE_TENSOR = 64 * MIB


@dataclass(frozen=True)
class Peer:
    """Speaks the language of bench_engine."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    rows: Callable[[Scale, Place], Iterator[Row]] = lambda scale, place: iter(())
    prepares: bool = False  # brings files into their state by itself
    file: str = ""  # that it reads, if not the ordinary one: "safetensors"


def made(scale: Scale, place: Place, state: str, size: int, peer: str, transport: str, **more: object) -> Row:
    return row(
        scale,
        place=place.name,
        memory=peer,
        direction="read",
        state=state,
        size=size,
        transport=transport,
        workload=more,
        **comparisons(place.memory, "read", state, size),
    )


def library_rows(peer: str, direct: bool) -> Callable[[Scale, Place], Iterator[Row]]:
    """Of a library with hipFile's interface."""

    def rows(scale: Scale, place: Place) -> Iterator[Row]:
        sizes = [size for size in scale.sizes if size in (4 * KIB, MIB, scale.span)]
        for state, size, transport in product(states_of(place, "read"), sizes, ("sync", "batch", "async")):
            if state != "half":
                yield made(scale, place, state, size, peer, transport, direct=direct)

    return rows


def whole_file_rows(peer: str) -> Callable[[Scale, Place], Iterator[Row]]:
    def rows(scale: Scale, place: Place) -> Iterator[Row]:
        for state in states_of(place, "read"):
            yield made(scale, place, state, scale.span, peer, "load")

    return rows


def cufile(program: list[str], directory: Path) -> Peer:
    """With a configuration of its own: without the driver nvidia-fs it works only in compatibility mode."""
    configuration = directory / "cufile.json"
    content = {
        "logging": {"dir": str(directory), "level": "ERROR"},
        "properties": {"allow_compat_mode": True},
    }
    configuration.write_text(json.dumps(content), encoding="utf-8")
    return Peer(
        "cufile",
        [*program, "--library", "libcufile.so.0", "--prefix", "cuFile"],
        {"CUFILE_ENV_PATH_JSON": str(configuration)},
        library_rows("cufile", direct=True),
        prepares=True,
    )


def other_library(program: list[str], text: str) -> Peer:
    """NAME=PATH of another libhipfile.so."""
    name, _, path = text.partition("=")
    return Peer(name, [*program, "--library", path], {}, library_rows(name, direct=False), prepares=True)


def script(name: str, file: str = "") -> Peer:
    return Peer(name, [sys.executable, str(HERE / f"peer_{name}.py")], {}, whole_file_rows(name), file=file)


PEERS = ("cufile", "kvikio", "safetensors", "fastsafetensors")


def known_peers(program: list[str], directory: Path) -> list[Peer]:
    return [
        cufile(program, directory),
        script("kvikio"),
        script("safetensors", "safetensors"),
        script("fastsafetensors", "safetensors"),
    ]


def write_safetensors(source: Path, path: Path) -> None:
    """The bytes of `source` as tensors of bytes."""
    size = source.stat().st_size
    header: dict[str, object] = {}
    for number, begin in enumerate(range(0, size, ONE_TENSOR)):
        end = min(begin + ONE_TENSOR, size)
        header[f"t{number}"] = {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(source, "rb") as data, open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        while part := data.read(MIB):
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
