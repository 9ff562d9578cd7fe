"""The logs under tests/fixtures/log: made by this script, kept, and read by every later version.

    python -m tests.log.golden          # writes what is not there yet; never replaces anything

Clock and log id are fixed, so the same calls give the same bytes for as long as the format is the same.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.changes.op import Op
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.log.replica_source import LogSource
from penstock.store.local import LocalStore
from tests.log.logs import changes_of

__all__ = ["FOLDER", "LOGS", "files_of", "line_of", "lines_of", "users", "write_shipment"]

FOLDER = Path(__file__).parents[1] / "fixtures" / "log" / "format-1"
OPTIONS = LogOptions(fsync="never", segment_bytes=4096)
START = 1_700_000_000_000_000

USERS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("score", pa.float64())]
)
PAYMENTS = pa.schema(
    [
        ("day", pa.date32()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("notes", pa.map_(pa.string(), pa.int64())),
        ("seal", pa.binary()),
        ("paid", pa.bool_()),
    ]
)


class Steps:
    """A clock that takes one step each time it is asked."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> int:
        self.time += 1_000
        return self.time


def users(*rows: tuple[int, str | None, float | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(USERS.names, row, strict=True)) for row in rows], schema=USERS
    )


def payments(count: int) -> pa.RecordBatch:
    at = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
    rows = [
        {
            "day": at.date(),
            "amount": Decimal(f"{i}.25"),
            "at": at.replace(microsecond=i),
            "tags": None if i % 3 == 0 else ["a", "b"][: i % 3],
            "place": {"city": "Oslo", "zip": i} if i % 2 else None,
            "notes": [("n", i)] * (i % 2),
            "seal": bytes([i, 0, 255]),
            "paid": None if i == 4 else bool(i % 2),
        }
        for i in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PAYMENTS)


def make(folder: Path) -> Log:
    return Log.create(LocalStore(folder, fsync=False), OPTIONS, log_id=bytes(range(16)), clock=Steps())


def everything(folder: Path) -> None:
    """Every kind of frame and column, sealed segments and one that is not, ranges, and a higher term."""
    log = make(folder)
    log.add_collection("users", USERS, ["id"])
    log.append("users", users((1, "ada", 1.5), (2, "größe", None), (3, None, float("inf"))))
    log.add_collection("payments", PAYMENTS)
    with log.transaction() as transaction:
        transaction.append("payments", payments(5))
        transaction.emit(
            "update",
            "users",
            before={"id": 1, "name": "ada", "score": 1.5},
            after={"id": 1, "name": "Ada", "score": 1.5},
        )
        transaction.emit("update", "users", after={"id": 2, "name": "gross"}, changed_columns=["name"])
        transaction.emit("delete", "users", before={"id": 3}, timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    weighted = users((4, "dan", 0.0), (5, "eve", -0.0)).append_column("_weight", pa.array([3, -2]))
    log.append("users", weighted)
    log.split_range("users", 1)
    while log.stats().segments < 3:
        log.append("payments", payments(9))
        log.refresh("users", users((1, "Ada", 2.0), (7, "gus", 7.0)))
    log.promote(3)
    log.merge_ranges("users", 2, 3)
    old, new = {"id": 7, "name": "gus", "score": 7.0}, {"id": 8, "name": "gus", "score": 7.0}
    log.append("users", changes_of(USERS, [(Op.UPDATE_BEFORE, old), (Op.UPDATE_AFTER, new)]))
    log.refresh("payments", payments(0))
    log.close()


def trimmed(folder: Path) -> None:
    """The oldest segments are dropped; collections and ranges stay."""
    everything(folder)
    log = Log.open(LocalStore(folder, fsync=False), options=OPTIONS, clock=Steps())
    log.trim(log.current_lsn)
    log.close()


def torn(folder: Path) -> None:
    """What a writer leaves that was killed amid its third transaction: no mark, and half a frame."""
    log = make(folder)
    log.add_collection("users", USERS, ["id"])
    log.append("users", users((1, "ada", 1.5)))
    log.append("users", users((2, "bob", 2.5), (3, "cid", 3.5)))
    (segment,) = (folder / "segments").iterdir()
    kept = segment.read_bytes()
    log.append("users", users((4, "dan", 4.5)))
    whole = segment.read_bytes()
    log.close()
    segment.write_bytes(whole[: (len(kept) + len(whole)) // 2])


LOGS: dict[str, Callable[[Path], None]] = {"everything": everything, "trimmed": trimmed, "torn": torn}


def line_of(
    lsn: int,
    collection: str,
    refresh: bool,
    committed: int,
    ends: bool,
    changed: list[str] | None,
    rows: list[tuple[int, dict[str, Any], int, int]],
) -> str:
    """An event as a line of text: of each row its operation, values, weight and time."""
    shown = [
        (op, {it: str(value) if isinstance(value, datetime) else value for it, value in row.items()}, *rest)
        for op, row, *rest in rows
    ]
    what = f"{'refresh of ' if refresh else ''}{collection}{', ends' if ends else ''}"
    return f"{lsn} {what}, at {committed}, changed {changed}: {shown}"


def lines_of(log: Log) -> list[str]:
    """What is in a log, one line for each event."""
    lines = []
    for changes in log.read(since=log.oldest_lsn - 1):
        times = changes.rows.column("_ts").view(pa.int64()).to_pylist()
        values = changes.data.to_pylist()
        rows = list(zip(changes.ops.tolist(), values, changes.weights.tolist(), times, strict=True))
        committed = (changes.committed - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        refresh = changes.is_refresh
        starts = [0] if refresh else changes.stored.event_starts().tolist()
        told = [None] if refresh else changes.changed_columns()
        for i, lsn in enumerate(changes.lsns):
            ends = changes.ends_transaction and lsn == changes.last_lsn
            some = rows[starts[i] : [*starts, len(rows)][i + 1]]
            lines.append(line_of(lsn, changes.collection.name, refresh, committed, ends, told[i], some))
    return lines


def write_shipment(folder: Path) -> bytes:
    """What a primary sends of the log in this folder, from the middle of it on."""
    with Log.open(LocalStore(folder, fsync=False), "read") as log:
        since = log.boundary(log.current_lsn // 2)
        return LogSource(log).ship(since, max_bytes=1500).encode()


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a log, without the lock, which says who wrote it last."""
    found = sorted(it for it in folder.rglob("*") if it.is_file() and it.name != "writer.lock")
    return {it.relative_to(folder).as_posix(): it.read_bytes() for it in found}


def main() -> None:
    for name, write in LOGS.items():
        if (FOLDER / name).exists():
            continue
        with tempfile.TemporaryDirectory() as made:
            write(Path(made))
            shutil.copytree(made, FOLDER / name, ignore=shutil.ignore_patterns("writer.lock"))
        with Log.open(FOLDER / name, "read") as log:
            (FOLDER / f"{name}.events").write_text("".join(f"{line}\n" for line in lines_of(log)))
    shipment = FOLDER / "everything.shipment"
    if not shipment.exists():
        shipment.write_bytes(write_shipment(FOLDER / "everything"))


if __name__ == "__main__":
    sys.exit(main())
