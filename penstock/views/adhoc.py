"""`query`: SQL over contents, asked once and answered by DuckDB over Arrow tables. No Spark, file or network.

Each query has a database of its own, in memory, which holds nothing but views of the tables it names. It runs
on one thread: then the same rows in the same order give the same answer, to the last digit of a sum of
doubles. What DuckDB does otherwise than Spark is told in docs/design/intake.md; where a setting makes them
agree, it is set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from penstock.changes.intake.convert import convert
from penstock.changes.intake.refused import Refused, closest, listed, show
from penstock.errors import ArithmeticOverflow, BadSql, NotFound, PenstockError, QueryFailed, Unsupported

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

__all__ = ["Source", "query"]

Source: TypeAlias = pa.Table | Callable[[], pa.Table]
"""A table, or what gives it when it is asked for."""

_SUBJECT = "query"

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # or a query could read the caller's variables by name
    "temp_directory": "",  # which would be open to queries; so what does not fit into memory fails
}

_MEMORY_SHARE = 0.625
"""Of DuckDB's own limit, which is 80 % of what this machine or container has: half of it, then."""

_AS_SPARK = """
    SET default_null_order = 'NULLS_FIRST_ON_ASC_LAST_ON_DESC';
    SET integer_division = false;
    SET ieee_floating_point_ops = false;  -- dividing a double by zero is an error
    SET TimeZone = 'UTC';
    SET lock_configuration = true;
"""


def query(
    sql: str,
    tables: Mapping[str, Source],
    parameters: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    threads: int = 1,
) -> pa.Table:
    """The answer to one SELECT, in DuckDB's SQL, over these tables; only those that it names are asked for.

    ``parameters`` are bound to ``?`` in order, or to ``$name`` by name. With more than one of ``threads`` a
    large query is faster, and a sum of doubles may end in other digits each time.

    Columns come back in types that Spark has: sums of integers as BIGINT, which is an error where they do not
    fit; timestamps in UTC; what is unsigned in the next wider type.

    >>> orders = pa.table({"customer": ["ada", "bob", "ada"], "n": [1, 2, 3]})
    >>> sql = "SELECT customer, sum(n) AS n FROM orders GROUP BY customer HAVING sum(n) > ?"
    >>> query(sql, {"orders": orders}, [2])
    pyarrow.Table
    customer: string
    n: int64
    ----
    customer: [["ada"]]
    n: [[4]]
    """
    import duckdb

    try:
        with duckdb.connect(config={**_CONFIG, "threads": threads}) as connection:
            _limit_memory(connection)
            connection.execute(_AS_SPARK)
            _check_asks(connection, sql)
            _lay_out(connection, sql, tables)
            answer = connection.sql(sql, params=parameters)
            return _as_spark_has_it(answer)
    except (duckdb.Error, pa.ArrowException) as error:
        raise _translated(error, tables) from error


def _limit_memory(connection: DuckDBPyConnection) -> None:
    told = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    number, unit = str(told[0] if told else "").partition(" ")[::2]
    if unit in ("KiB", "MiB", "GiB", "TiB"):  # not so where DuckDB found no limit
        connection.execute(f"SET memory_limit = '{float(number) * _MEMORY_SHARE:.6f}{unit}'")


def _check_asks(connection: DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise BadSql(
            f"there are {len(statements)} statements and not one",
            subject=_SUBJECT,
            hint="Ask for one thing at a time.",
        )
    kind = statements[0].type.name
    if kind != "SELECT":
        raise Unsupported(
            f"a statement {kind} was to be run over contents",
            subject=_SUBJECT,
            hint="Only queries are: SELECT, or WITH … SELECT.",
        )


def _lay_out(connection: DuckDBPyConnection, sql: str, tables: Mapping[str, Source]) -> None:
    """Make the tables that the query names known under their names, which have no case."""
    for name, source in tables.items():
        if _stands_in(name, sql):
            connection.register(name, _level(source if isinstance(source, pa.Table) else source()))


def _level(table: pa.Table) -> pa.Table:
    """The same rows, with no struct that begins amid its buffers: DuckDB refuses to read such."""
    for i, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) and any(map(_begins_amid, table.column(i).chunks)):
            none = pa.nulls(0, field.type)
            chunks = [pa.concat_arrays([chunk, none]) for chunk in table.column(i).chunks]  # which copies
            table = table.set_column(i, field, pa.chunked_array(chunks, field.type))
    return table


def _begins_amid(array: pa.Array) -> bool:
    if array.offset:
        return True
    if pa.types.is_struct(array.type):
        return any(_begins_amid(array.field(i)) for i in range(array.type.num_fields))
    if pa.types.is_map(array.type):
        return _begins_amid(array.keys) or _begins_amid(array.items)
    return isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray) and _begins_amid(
        array.values
    )


def _stands_in(name: str, sql: str) -> bool:
    """Whether the query has the name in it, be it in a text or a comment: that only costs the asking."""
    for written in {name, name.replace('"', '""')}:
        before = r"(?<!\w)" if re.match(r"\w", written) else ""
        after = r"(?!\w)" if re.search(r"\w\Z", written) else ""
        if re.search(before + re.escape(written.casefold()) + after, sql.casefold()):
            return True
    return False


# -- errors -----------------------------------------------------------------------------------------


def _translated(error: Exception, tables: Mapping[str, Source]) -> PenstockError:
    """What DuckDB says, in our words and its own first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = lines[0].partition("Error: ")[2] or lines[0] if lines else type(error).__name__
    kind = type(error).__name__
    if kind == "CatalogException" and what.startswith("Table with name "):
        name = what.removeprefix("Table with name ").partition(" does not exist")[0]
        return NotFound(
            f"there is no table or view {name!r}",
            subject=_SUBJECT,
            hint=f"{closest(name, list(tables))}There are {listed(sorted(tables)) or 'none'}.",
        )
    if kind in ("ParserException", "BinderException", "CatalogException", "SyntaxException"):
        told = [line for line in lines[1:] if not line.startswith(("LINE", "^"))]
        return BadSql(what, subject=_SUBJECT, hint=" ".join(told) or "Correct the query.")
    return QueryFailed(what.partition(". Use ")[0], subject=_SUBJECT, hint=_HINTS.get(kind, _CHECK))


_CHECK = "Check the values that the query reads."
_HINTS = {
    "PermissionException": "A query reads tables and views only, no files and nothing on the network.",
    "OutOfMemoryException": "Ask for less at a time, or make it a view: Spark computes that in parts.",
    "OutOfRangeException": "Cast to a type with more room, for instance DECIMAL(38, 0).",
    "ConversionException": "Use TRY_CAST for what may not be a value of the type.",
    "NotImplementedException": "Cast the column to a type that both Spark and DuckDB have.",
}


# -- types ------------------------------------------------------------------------------------------


def _as_spark_has_it(answer: DuckDBPyRelation) -> pa.Table:
    table = answer.to_arrow_table()
    columns, fields = [], []
    for field, column, told in zip(table.schema, table.columns, answer.types, strict=True):
        kind = _spark_type(field.type, told, field.name)
        fields.append(pa.field(field.name, kind))
        columns.append(column if kind == field.type else _converted(column, fields[-1]))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([convert(chunk, field) for chunk in column.chunks], field.type)
    except Refused as refused:
        raise ArithmeticOverflow(
            f"the column {field.name!r} has the value {show(refused.value)}, which no {field.type} can hold",
            subject=_SUBJECT,
            hint="Cast what is summed up to DECIMAL(38, 0).",
        ) from None


_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def _spark_type(kind: pa.DataType, told: Any, name: str) -> pa.DataType:
    """The type for a column of this one, whose name in DuckDB is ``told``."""
    t, parts = pa.types, dict(told.children) if told.id in ("list", "array", "struct", "map") else {}
    if told.id in ("hugeint", "uhugeint"):
        return pa.int64()
    if t.is_dictionary(kind):
        return kind.value_type
    if t.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _spark_type(kind.value_type, parts["child"], name)))
    if t.is_map(kind):
        key, value = (_spark_type(getattr(kind, f"{it}_type"), parts[part], name) for it, part in _MAP)
        return pa.map_(key, value)
    if t.is_struct(kind):
        return pa.struct([pa.field(it.name, _spark_type(it.type, parts[it.name], name)) for it in kind])
    if isinstance(kind, pa.BaseExtensionType) or t.is_union(kind):
        raise Unsupported(
            f"the column {name!r} is of type {told}, which Spark does not have",
            subject=_SUBJECT,
            hint="Cast it, for instance to VARCHAR.",
        )
    return _WIDER.get(kind, kind)


_MAP = (("key", "key"), ("item", "value"))
