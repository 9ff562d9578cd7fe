"""Rows as people see them in reprs and messages: a few of them, short, and without ever failing."""

from __future__ import annotations

import reprlib

import pyarrow as pa

__all__ = ["shown_row", "shown_value"]

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 24
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 3
_SHORT.maxlevel = 2
_MOST_COLUMNS = 6


def shown_row(batch: pa.RecordBatch, row: int) -> str:
    """One row of a batch.

    >>> shown_row(pa.record_batch({"id": [1], "name": ["a name much longer than anybody would like"]}), 0)
    "(id=1, name='a name mu...would like')"
    """
    names = batch.schema.names[:_MOST_COLUMNS]
    values = [f"{name}={shown_value(batch.column(i)[row])}" for i, name in enumerate(names)]
    return f"({', '.join(values + ['…'] * (batch.num_columns > len(names)))})"


def shown_value(scalar: pa.Scalar) -> str:
    """One value.

    >>> shown_value(pa.scalar(2**62, pa.timestamp("us")))
    '<timestamp[us]>'
    """
    try:
        return _SHORT.repr(scalar.as_py())
    except (ValueError, OverflowError, pa.ArrowException):  # a time outside what Python can tell
        return f"<{scalar.type}>"
