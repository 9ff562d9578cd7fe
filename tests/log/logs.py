"""Logs for tests: in a folder, without waiting for a disk that no test takes the power from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.changes.op import Op
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.store.local import LocalStore

__all__ = ["FAST", "changes_of", "make_log", "open_log"]

FAST = LogOptions(fsync="never")


def make_log(folder: Path, options: LogOptions = FAST) -> Log:
    return Log.create(LocalStore(folder, fsync=False), options)


def open_log(folder: Path, options: LogOptions = FAST) -> Log:
    return Log.open(LocalStore(folder, fsync=False), options=options)


def changes_of(schema: pa.Schema, rows: list[tuple[Op, dict[str, object]]]) -> pa.RecordBatch:
    """A batch to append: each row with its operation."""
    batch = pa.RecordBatch.from_pylist([row for _, row in rows], schema=schema)
    return batch.append_column("_op", pa.array([int(op) for op, _ in rows], pa.int8()))
