"""What people hand in, as columns by name: Arrow arrays where there are such, else lists of Python values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.changes.intake.refused import closest, listed, show
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["Given", "given"]

Values: TypeAlias = pa.ChunkedArray | pa.Array | list[Any]

_TAKEN = "Give Arrow, pandas or Polars data, a list of dictionaries or of tuples, or a dictionary of columns."


@dataclass(frozen=True, slots=True)
class Given:
    """Columns of one length."""

    rows: int
    columns: dict[str, Values]


def given(
    data: Any,
    names: Sequence[str],
    kinds: Mapping[str, pa.DataType],
    subject: str,
    *,
    positional: bool = False,
    unnamed: Sequence[str] | None = None,
) -> Given:
    """The columns of what was handed in. ``names`` are those there can be, ``kinds`` their types.

    Rows without names are in the order of ``unnamed`` (else ``names``); ``positional`` says that so is data
    that has names.
    """
    order = names if unnamed is None else unnamed
    if isinstance(data, pa.RecordBatch | pa.Table):
        return _of_arrow(data, names, subject, positional)
    if _is_pandas(data):
        return _of_pandas(data, names, order, subject, positional)
    if isinstance(data, pa.RecordBatchReader) or hasattr(data, "__arrow_c_stream__"):
        return _of_arrow(_from_foreign(_stream, data, subject), names, subject, positional)
    if hasattr(data, "__arrow_c_array__"):
        return _of_arrow(_from_foreign(pa.record_batch, data, subject), names, subject, positional)
    if isinstance(data, Mapping):
        return _of_mapping(data, names, kinds, subject)
    if isinstance(data, str | bytes | bytearray | memoryview | np.ndarray) or not isinstance(data, Iterable):
        hint = "Call its collect() first." if type(data).__name__ == "LazyFrame" else _TAKEN
        raise InvalidArgument(f"{show(data)} is not rows", subject=subject, hint=hint)
    return _of_rows(list(data), names, order, subject)


# -- Arrow and frames -------------------------------------------------------------------------------


def _stream(data: Any) -> pa.Table:
    reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
    return reader.read_all()


def _from_foreign(read: Callable[[Any], Any], data: Any, subject: str) -> Any:
    try:
        return read(data)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        raise InvalidArgument(
            f"{type(data).__name__} cannot be read as Arrow data ({error})", subject=subject, hint=_TAKEN
        ) from error


def _of_arrow(data: pa.RecordBatch | pa.Table, names: Sequence[str], subject: str, positional: bool) -> Given:
    there = _named(data.schema.names, names, subject, positional)
    return Given(data.num_rows, dict(zip(there, data.columns, strict=True)))


def _named(there: list[str], names: Sequence[str], subject: str, positional: bool) -> list[str]:
    """The names that the columns are to have: their own, or by position."""
    if positional:
        if len(there) != len(names):
            raise SchemaMismatch(
                f"there are {len(there)} columns and not {len(names)}",
                subject=subject,
                hint=f"Give values for {listed(names)}.",
            )
        return list(names)
    for name in there:
        _check_known(name, names, subject)
        if there.count(name) > 1:
            raise SchemaMismatch(
                f"the column {name!r} is there more than once", subject=subject, hint="Give each column once."
            )
    return there


def _check_known(name: object, names: Sequence[str], subject: str) -> None:
    if name in names:
        return
    raise SchemaMismatch(
        f"there is no column {show(name) if not isinstance(name, str) else repr(name)}",
        subject=subject,
        hint=f"{closest(name, names)}The columns are {listed(names)}.",
    )


def _is_pandas(data: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _of_pandas(
    frame: Any, names: Sequence[str], order: Sequence[str], subject: str, positional: bool
) -> Given:
    """An index with names counts as columns; another one is left out. A missing value is NULL, NaN too."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    there = list(frame.columns)
    if there == list(range(len(there))):  # a frame made without names
        positional, names = True, order
    there = _named(there, names, subject, positional)
    columns = {name: _of_series(frame.iloc[:, i]) for i, name in enumerate(there)}
    return Given(len(frame), columns)


def _of_series(series: Any) -> Values:
    if series.dtype != object:
        try:
            found: Values = pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            pass  # a type that Arrow does not know: what is in it may still be taken, value by value
        else:
            return found
    missing = series.isna().tolist()
    return [None if gone else value for gone, value in zip(missing, series.tolist(), strict=True)]


# -- Python's own -----------------------------------------------------------------------------------


def _of_mapping(
    data: Mapping[Any, Any], names: Sequence[str], kinds: Mapping[str, pa.DataType], subject: str
) -> Given:
    for name in data:
        _check_known(name, names, subject)
    if not _holds_columns(data, kinds):
        return Given(1, {name: [value] for name, value in data.items()})
    columns = {name: _listed(values) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        (short, fewer), (long, more) = (f(lengths.items(), key=lambda it: it[1]) for f in (min, max))
        raise InvalidArgument(
            f"the column {short!r} has {fewer} values and the column {long!r} has {more}",
            subject=subject,
            hint="Give as many values for each column; for one row, give values and not lists.",
        )
    return Given(next(iter(lengths.values())), columns)


def _holds_columns(data: Mapping[str, Any], kinds: Mapping[str, pa.DataType]) -> bool:
    """Whether a dictionary holds columns and not one row.

    Told by what is given for columns of flat types: lists or values. Where all columns are nested, a list
    may be either; then it is one row, unless something is given that is only ever a column.
    """
    if any(_is_column(value) for value in data.values()):
        return True
    flat = [value for name, value in data.items() if not pa.types.is_nested(kinds[name])]
    return bool(flat) and all(isinstance(value, list | tuple | np.ndarray) for value in flat)


def _is_column(value: Any) -> bool:
    if isinstance(value, pa.Array | pa.ChunkedArray) or hasattr(value, "__arrow_c_stream__"):
        return True
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.Series)


def _listed(values: Any) -> Values:
    if isinstance(values, pa.Array | pa.ChunkedArray | list):
        return values
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.Series):
        return _of_series(values)
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim == 1:
        return pa.array(values)
    return list(values) if isinstance(values, tuple | np.ndarray) else [values]


def _of_rows(rows: list[Any], names: Sequence[str], order: Sequence[str], subject: str) -> Given:
    kinds = set(map(type, rows))
    if all(issubclass(kind, Mapping) for kind in kinds):
        return _of_dictionaries(rows, names, subject)
    if all(issubclass(kind, tuple | list) for kind in kinds):
        fields = {getattr(kind, "_fields", None) for kind in kinds}
        own = fields.pop() if len(fields) == 1 else None
        if own is not None:  # named tuples say themselves what they hold
            for name in own:
                _check_known(name, names, subject)
        return _of_tuples(rows, order if own is None else own, subject)
    if all(issubclass(kind, pa.RecordBatch) for kind in kinds):
        return _of_arrow(_from_foreign(pa.Table.from_batches, rows, subject), names, subject, False)
    row = next(i for i, it in enumerate(rows) if not isinstance(it, type(rows[0])) or not _is_row(it))
    before = f", and row 0 is a {type(rows[0]).__name__}" if row else ""
    raise InvalidArgument(
        f"row {row} is {show(rows[row])}, a {type(rows[row]).__name__}{before}", subject=subject, hint=_TAKEN
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping | tuple | list)


def _of_dictionaries(rows: list[Mapping[Any, Any]], names: Sequence[str], subject: str) -> Given:
    there = set(chain.from_iterable(rows))
    unknown = there.difference(names)
    if unknown:
        row, name = next((i, name) for i, it in enumerate(rows) for name in it if name in unknown)
        _check_known(name, names, f"{subject}, row {row}")
    return Given(len(rows), {name: [row.get(name) for row in rows] for name in names if name in there})


def _of_tuples(rows: list[Sequence[Any]], names: Sequence[str], subject: str) -> Given:
    if set(map(len, rows)) - {len(names)}:
        row = next(i for i, it in enumerate(rows) if len(it) != len(names))
        raise SchemaMismatch(
            f"row {row} has {len(rows[row])} values and not {len(names)}",
            subject=subject,
            hint=f"Give values for {listed(names)}.",
        )
    return Given(len(rows), {name: [row[i] for row in rows] for i, name in enumerate(names)})
