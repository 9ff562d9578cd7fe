"""Measuring: best of several runs, per row, and as a ratio to copying the same bytes in the same run.

Absolute times belong to a machine; ratios travel. So each row of a table says both, and the copy is
measured right beside the operation, not once at the start.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["Compared", "Measured", "best", "compare", "copying", "measure", "report", "turns"]

RESULTS = Path(__file__).parent / "results"


def best(run: Callable[[], Any], seconds: float = 0.5, least: int = 5) -> float:
    """The shortest of several runs, in seconds: the one that was disturbed least."""
    run()
    gc.collect()
    gc.disable()
    try:
        shortest, spent, runs = float("inf"), 0.0, 0
        while spent < seconds or runs < least:
            start = time.perf_counter()
            run()
            took = time.perf_counter() - start
            shortest, spent, runs = min(shortest, took), spent + took, runs + 1
        return shortest
    finally:
        gc.enable()


def copying(nbytes: int) -> float:
    """Seconds that NumPy takes to copy so many bytes."""
    source = np.ones(max(nbytes, 1), np.uint8)
    target = np.empty_like(source)
    return best(lambda: np.copyto(target, source), seconds=0.05)


def turns(runs: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """What each run tells of itself, in turns: A, B, A, B, …, so that a noisy moment hits all alike."""
    told: list[list[float]] = [[] for _ in runs]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for run, values in zip(runs, told, strict=True):
                values.append(run())
    finally:
        gc.enable()
    return told


@dataclass(frozen=True, slots=True)
class Measured:
    """One operation: nanoseconds per row, its target, and how many times the copy of its bytes it takes."""

    name: str
    rows: int
    ns: float
    target: float | None
    copies: float
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.ns < self.target else "MISSED"


def measure(
    name: str,
    run: Callable[[], Any],
    *,
    rows: int,
    nbytes: int,
    target: float | None = None,
    note: str = "",
) -> Measured:
    """Run it, and copy as many bytes as it handles with NumPy, in the same moments."""
    seconds = best(run)
    return Measured(name, rows, seconds / rows * 1e9, target, seconds / copying(nbytes), note)


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure held against a target: mostly how many times better than a peer, or a share of a limit."""

    name: str
    ours: str
    against: str
    value: float
    target: float | None = None
    unit: str = "×"
    at_most: bool = False  # the target is a bound from above, as of a latency
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.value <= self.target if self.at_most else self.value >= self.target
        return "met" if met else "MISSED"


def report(room: str, results: list[Measured], remarks: list[str]) -> None:
    """Print the table and keep it as ``bench/results/<room>.json``."""
    table = Table(title=f"penstock.{room}", title_justify="left")
    for heading in ("operation", "rows", "ns/row", "target", "", "× copy of its bytes", "note"):
        justify: Literal["left", "right"] = "right" if heading in ("rows", "ns/row", "target") else "left"
        table.add_column(heading, justify=justify, no_wrap=heading != "× copy of its bytes")
    for it in results:
        table.add_row(
            it.name,
            f"{it.rows:,}",
            f"{it.ns:,.2f}",
            "" if it.target is None else f"< {it.target:g}",
            it.verdict,
            f"{it.copies:,.1f}",
            it.note,
        )
    _tell(table, remarks)
    _keep(room, results, remarks)


def compare(room: str, results: list[Compared], remarks: list[str], *, keep: bool = True) -> None:
    """As `report`, for rows that are held against a peer."""
    table = Table(title=f"penstock.{room}", title_justify="left")
    for heading in ("what", "ours", "against", "figure", "target", "", "note"):
        table.add_column(heading, justify="right" if heading in ("figure", "target") else "left")
    for it in results:
        target = "" if it.target is None else f"{'≤' if it.at_most else '≥'} {it.target:,g} {it.unit}"
        table.add_row(it.name, it.ours, it.against, f"{it.value:,.3g} {it.unit}", target, it.verdict, it.note)
    _tell(table, remarks)
    if keep:
        _keep(room, results, remarks)


def _tell(table: Table, remarks: list[str]) -> None:
    Console(width=max(150, Console().width)).print(table, *remarks, sep="\n")


def _keep(room: str, results: Sequence[Measured | Compared], remarks: list[str]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{room}.json").write_text(
        json.dumps(
            {
                "machine": {"platform": platform.platform(), "python": sys.version.split()[0]},
                "versions": {name: metadata.version(name) for name in ("pyarrow", "numpy", "orjson")},
                "results": [{**asdict(it), "verdict": it.verdict} for it in results],
                "remarks": remarks,
            },
            indent=1,
        )
        + "\n"
    )
