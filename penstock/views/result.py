"""`Result`: rows that a query gave, in whichever form people want them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import NotFound

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Result"]

_SHOWN = 20


class Result:
    """Rows. Iterating gives a dictionary for each.

    >>> result = Result(pa.table({"customer": ["ada", "bob"], "n": [2, 1]}))
    >>> result
    customer | n
    ---------+--
    ada      | 2
    bob      | 1
    (2 rows)
    >>> [row["n"] for row in result]
    [2, 1]
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._table

    def pandas(self) -> pandas.DataFrame:
        """As a pandas data frame."""
        return self._table.to_pandas()

    def polars(self) -> polars.DataFrame:
        """As a Polars data frame; Polars has to be installed."""
        try:
            import polars
        except ImportError as error:
            raise NotFound(
                "Polars is not installed here", subject="Result.polars", hint="pip install polars"
            ) from error
        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """As a list of dictionaries."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    @property
    def columns(self) -> list[str]:
        names: list[str] = self._table.column_names
        return names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        shown = self._table.slice(0, _SHOWN).to_pylist()
        cells = [[_text(row[name]) for name in self.columns] for row in shown]
        widths = [
            max(len(name), *(len(row[i]) for row in cells)) if cells else len(name)
            for i, name in enumerate(self.columns)
        ]

        def line(row: list[str]) -> str:
            return " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

        count = len(self)
        more = f", the first {_SHOWN} shown" if count > _SHOWN else ""
        told = f"({count} row{'' if count == 1 else 's'}{more})"
        rule = "-+-".join("-" * width for width in widths)
        return "\n".join([line(self.columns), rule, *map(line, cells), told])


def _text(value: object) -> str:
    return "NULL" if value is None else str(value)
