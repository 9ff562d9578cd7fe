"""Executing statements: each kind is one function, and says what it does to the workspace."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changes import Op
from penstock.changes.names import OP
from penstock.changes.rows import same_rows
from penstock.errors import InvalidArgument, NotFound, SchemaMismatch, Unsupported
from penstock.log import Collection
from penstock.spark import TypesBySpark, sql_type
from penstock.sql import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    ExplainIncremental,
    Insert,
    Query,
    Show,
    Statement,
    Update,
    explain,
    parse,
    references,
    to_duckdb,
    to_duckdb_expression,
)
from penstock.views import adhoc
from penstock.views.catalog import MAIN, Catalog, Table, View
from penstock.views.compiled import compiled, planned
from penstock.views.reading import frontier_of
from penstock.views.result import Result
from penstock.views.workspace import Workspace

__all__ = ["execute", "query"]


def execute(work: Workspace, text: str, parameters: Sequence[Any] | None = None) -> Result | None:
    """All statements of the text, one after another; the rows of the last."""
    result = None
    for statement in parse(text):
        if parameters and not isinstance(statement, Query):
            raise Unsupported(
                "only a SELECT takes parameters",
                subject=type(statement).__name__,
                hint="Write rows with db.table(name).insert(…), which takes values as they are.",
            )
        result = _executed(work, statement, parameters)
    return result


def _executed(work: Workspace, statement: Statement, parameters: Sequence[Any] | None) -> Result | None:
    match statement:
        case CreateTable():
            _create_table(work, statement)
        case CreateView():
            _create_view(work, statement)
        case Drop():
            _drop(work, statement)
        case Insert():
            _insert(work, statement)
        case Update():
            _update(work, statement)
        case Delete():
            _delete(work, statement)
        case Show():
            return _show(work, statement)
        case Describe():
            return _describe(work.catalog.read(), statement)
        case ExplainIncremental():
            return _explain(work, statement)
        case Query(text):
            return query(work, text, parameters)
    return None


# -- creating and dropping ----------------------------------------------------------------------------


def _create_table(work: Workspace, told: CreateTable) -> None:
    options = dict(told.options)
    log = str(options.pop("log", MAIN))
    _refuse_options(options, f"table {told.name!r}", "log")
    if told.if_not_exists and work.catalog.read().find(told.name) is not None:
        return
    work.catalog.read().check_free(told.name)
    written = work.logs.to_write(log)
    name, number = told.name, 1
    while any(it.name == name for it in written.collections):  # one of that name was dropped before
        number += 1
        name = f"{told.name}~{number}"
    columns = pa.schema([it.with_nullable(True) for it in told.schema])
    collection = written.add_collection(name, columns, told.key)
    table = Table(told.name, log, told.schema, collection)
    work.catalog.change(lambda catalog: catalog.including(table))


def _create_view(work: Workspace, told: CreateView) -> None:
    options = {name: str(value) for name, value in told.options.items()}
    rest = dict(options)
    pipeline = rest.pop("pipeline", MAIN)
    if rest.pop("incremental", "auto") not in ("auto", "strict"):
        raise InvalidArgument(
            f"incremental is {options['incremental']!r}",
            subject=f"view {told.name!r}",
            hint="Say 'auto' or 'strict'.",
        )
    _refuse_options(rest, f"view {told.name!r}", "incremental, pipeline")
    number = secrets.randbelow(2**32 - 1) + 1  # a view that is dropped and made anew is another one

    def including(catalog: Catalog) -> Catalog:
        # Planned anew where another process came first: it may have dropped what the query reads.
        if told.if_not_exists and catalog.find(told.name) is not None:
            return catalog
        catalog.check_free(told.name)
        _, schema, key = planned(catalog, pipeline, told.name, told.query, _types(work), told.columns)
        collection = replace(Collection.define(told.name, schema, key), id=number)
        return catalog.including(View(told.name, pipeline, told.query, collection, options, told.columns))

    work.catalog.change(including)


def _drop(work: Workspace, told: Drop) -> None:
    def without(catalog: Catalog) -> Catalog:
        if told.if_exists and catalog.find(told.name) is None:
            return catalog
        found = catalog.table(told.name) if told.kind == "table" else catalog.view(told.name)
        readers = [
            view.name
            for view in catalog.views.values()
            if view.name != found.name
            and found.name.casefold() in {it.casefold() for it in references(view.sql)}
        ]
        if readers:
            raise Unsupported(
                f"{', '.join(readers)} read{'s' if len(readers) == 1 else ''} it",
                subject=f"{told.kind} {found.name!r}",
                hint="Drop what reads it first.",
            )
        return catalog.without(told.name)

    work.catalog.change(without)


def _refuse_options(options: dict[str, Any], subject: str, known: str) -> None:
    for name in options:
        raise InvalidArgument(f"there is no option {name!r}", subject=subject, hint=f"There are {known}.")


def _types(work: Workspace) -> TypesBySpark:
    return TypesBySpark(work.executor().spark)


# -- changing tables ----------------------------------------------------------------------------------


def _insert(work: Workspace, told: Insert) -> None:
    table = work.table(told.table)
    rows = query(work, told.query).arrow()
    schema = table.table.schema
    names = list(told.columns) or schema.names
    by_fold = {name.casefold(): name for name in schema.names}
    unknown = [name for name in names if name.casefold() not in by_fold]
    if unknown:
        raise SchemaMismatch(
            f"there is no column {unknown[0]!r}",
            subject=f"table {table.table.name!r}",
            hint=f"The columns are {', '.join(schema.names)}.",
        )
    if len(rows.column_names) != len(names):
        raise SchemaMismatch(
            f"{len(rows.column_names)} values are given for {len(names)} columns",
            subject=f"INSERT INTO {table.table.name}",
            hint="Give one value for each column.",
        )
    table.insert(rows.rename_columns([by_fold[name.casefold()] for name in names]))


def _update(work: Workspace, told: Update) -> None:
    table = work.catalog.read().table(told.table)
    work.check_settled(table)
    by_fold = {name.casefold(): name for name in table.schema.names}
    made = {}
    for column, sql in told.assignments:
        if column.casefold() not in by_fold:
            raise SchemaMismatch(
                f"there is no column {column!r}",
                subject=f"table {table.name!r}",
                hint=f"The columns are {', '.join(table.schema.names)}.",
            )
        name = by_fold[column.casefold()]
        made[name] = to_duckdb_expression(_stored_as(sql, table.schema.field(name).type), table.schema)
    content = _numbered(work, table)
    where = "TRUE" if told.where is None else to_duckdb_expression(told.where, table.schema)
    wanted = ", ".join(f"{made.get(name, quoted(name))} AS {quoted(name)}" for name in table.schema.names)
    after = adhoc.query(
        f"SELECT {quoted(_ROW)}, {wanted} FROM {quoted(table.name)} WHERE {where} ORDER BY {quoted(_ROW)}",  # noqa: S608
        {table.name: content},
    )
    rows = after.column(_ROW).combine_chunks()
    old = _batch(content.drop_columns([_ROW]).take(rows))
    new = work.table(told.table).checked(after.drop_columns([_ROW]))
    changed = np.flatnonzero(~same_rows(old.columns, new.columns, len(new)))
    _append_updates(work, table, old.take(pa.array(changed)), new.take(pa.array(changed)))


def _stored_as(sql: str, kind: pa.DataType) -> str:
    """An assignment takes on its column's type: numbers are rounded to its digits, or refused."""
    is_number = pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return f"CAST(({sql}) AS {sql_type(kind)})" if is_number else sql


def _delete(work: Workspace, told: Delete) -> None:
    table = work.catalog.read().table(told.table)
    work.check_settled(table)
    content = _numbered(work, table)
    where = "TRUE" if told.where is None else to_duckdb_expression(told.where, table.schema)
    found = adhoc.query(
        f"SELECT {quoted(_ROW)} FROM {quoted(table.name)} WHERE {where} ORDER BY {quoted(_ROW)}",  # noqa: S608
        {table.name: content},
    )
    gone = _batch(content.drop_columns([_ROW]).take(found.column(_ROW).combine_chunks()))
    if gone.num_rows:
        ops = pa.array(np.full(gone.num_rows, Op.DELETE, np.int8))
        work.append(table, gone.append_column(OP, ops))


def _append_updates(work: Workspace, table: Table, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
    """−old +new side by side: each pair is one event."""
    if not new.num_rows:
        return
    pairs = np.arange(2 * len(new)).reshape(2, -1).T.ravel()
    both = pa.concat_batches([old, new]).take(pa.array(pairs))
    ops = np.tile(np.array([Op.UPDATE_BEFORE, Op.UPDATE_AFTER], np.int8), len(new))
    work.append(table, both.append_column(OP, pa.array(ops)))


_ROW = "_row"


def _numbered(work: Workspace, table: Table) -> pa.Table:
    """The table's content now, and the number of each row."""
    content = work.reader(table).table_at()
    return content.append_column(_ROW, pa.array(np.arange(content.num_rows)))


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def quoted(name: str) -> str:
    """A name that stays a name in DuckDB, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


# -- asking -------------------------------------------------------------------------------------------


def query(work: Workspace, sql: str, parameters: Sequence[Any] | None = None) -> Result:
    """Rows as they are now. Where a view is read, the tables beside it are read at its frontier."""
    catalog = work.catalog.read()
    found = [catalog[name] for name in sorted(references(sql))]
    read = {it.name: work.view(it.name).now() for it in found if isinstance(it, View)}
    manifests = {name: manifest for name, (manifest, _) in read.items()}
    tables: dict[str, pa.Table] = {name: rows for name, (_, rows) in read.items()}
    for it in found:
        if isinstance(it, Table):
            at = frontier_of(manifests, it.log) if manifests else None
            tables[it.name] = work.reader(it).table_at(at)
    schemas = {name: rows.schema for name, rows in tables.items()}
    return Result(adhoc.query(to_duckdb(sql, schemas), tables, parameters))


def _show(work: Workspace, told: Show) -> Result:
    catalog = work.catalog.read()
    if told.what == "columns":
        assert told.name is not None
        return _columns_of(catalog[told.name])
    if told.what == "tables":
        rows = [{"table": it.name, "key": ", ".join(it.key), "log": it.log} for it in catalog.tables.values()]
        return _shown(rows, ["table", "key", "log"], told.like)
    if told.what == "views":
        rows = [{"view": it.name, "pipeline": it.pipeline, "query": it.sql} for it in catalog.views.values()]
        return _shown(rows, ["view", "pipeline", "query"], told.like)
    rows = [
        {"pipeline": name, "views": ", ".join(view.name for view in catalog.of_pipeline(name))}
        for name in catalog.pipelines()
    ]
    return _shown(rows, ["pipeline", "views"], told.like)


def _shown(rows: list[dict[str, str]], names: list[str], like: str | None) -> Result:
    kept = [row for row in rows if like is None or _is_like(row[names[0]], like)]
    return Result(pa.Table.from_pylist(kept, schema=pa.schema([(name, pa.string()) for name in names])))


def _is_like(name: str, pattern: str) -> bool:
    """Spark's pattern of SHOW: `*` is any text, `|` parts alternatives, case does not count."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name.casefold(), part.strip().casefold()) for part in pattern.split("|"))


def _describe(catalog: Catalog, told: Describe) -> Result:
    return _columns_of(catalog[told.name])


def _columns_of(found: Table | View) -> Result:
    key = found.collection.key
    rows = [
        {
            "column": it.name,
            "type": str(it.type),
            "nullable": "yes" if it.nullable and it.name not in key else "no",
            "key": "yes" if it.name in key else "",
        }
        for it in found.schema
    ]
    return _shown(rows, ["column", "type", "nullable", "key"], None)


def _explain(work: Workspace, told: ExplainIncremental) -> Result:
    catalog = work.catalog.read()
    if told.name is not None:
        view = catalog.view(told.name)
        node = compiled(catalog, view.pipeline, _types(work)).plans[view.name]
    else:
        if told.query is None:
            raise NotFound("nothing is named", subject="EXPLAIN", hint="Give a query or a view.")
        node, _, _ = planned(catalog, MAIN, "the query", told.query, _types(work), ())
    return Result(pa.Table.from_pylist([asdict(it) for it in explain(node)]))
