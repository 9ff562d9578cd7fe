"""From a catalog to the plans of a pipeline: which nodes there are, what they read, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.plan import Keyed, Node, Scan, SelectTypes, in_order, key_of, schemas_of
from penstock.sql import Relation, plan_of
from penstock.views.catalog import Catalog, Table, View

__all__ = ["Compiled", "Relations", "compiled", "planned", "views_log"]


def views_log(pipeline: str) -> str:
    """The name under which plans know the log that a pipeline writes."""
    return f"views/{pipeline}"


@dataclass(frozen=True)
class Compiled:
    """The plans of all views of a pipeline."""

    version: int
    """Of the catalog."""
    plans: Mapping[str, Node]
    """By view."""
    schemas: Mapping[Node, pa.Schema]

    @property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(node for node in in_order(self.plans.values()) if isinstance(node, Scan))

    @property
    def logs(self) -> frozenset[str]:
        return frozenset(scan.log for scan in self.scans)


class Relations:
    """The catalog as the SQL room looks names up: from within one pipeline."""

    def __init__(self, catalog: Catalog, pipeline: str, plans: Mapping[str, Node]) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._plans = plans

    def relation(self, name: str) -> Relation | None:
        found = self._catalog.find(name)
        if found is None:
            return None
        if isinstance(found, Table):
            scan = Scan(found.log, found.collection.name)
            return Relation(Keyed(scan, found.key) if found.key else scan, found.schema)
        if found.pipeline == self._pipeline:
            plan = self._plans.get(found.name)
            return None if plan is None else Relation(plan, found.schema)
        return Relation(Scan(views_log(found.pipeline), found.name), found.schema)

    def names(self) -> Iterable[str]:
        tables = (it.name for it in self._catalog.tables.values())
        return [*tables, *(it.name for it in self._catalog.views.values())]


def compiled(catalog: Catalog, pipeline: str, types: SelectTypes) -> Compiled:
    """The plans of a pipeline's views, in the order they were created: each may read those before it."""
    plans: dict[str, Node] = {}
    for view in catalog.of_pipeline(pipeline):
        relations = Relations(catalog, pipeline, plans)
        plans[view.name] = plan_of(view.sql, relations, types, columns=view.columns).node
    return Compiled(catalog.version, plans, schemas_of(plans.values(), collections_of(catalog), types))


def planned(
    catalog: Catalog,
    pipeline: str,
    name: str,
    sql: str,
    types: SelectTypes,
    columns: tuple[str, ...] = (),
) -> tuple[Node, pa.Schema, tuple[str, ...]]:
    """A view that is to be: its plan, its columns, and those that tell its rows apart."""
    before = compiled(catalog, pipeline, types)
    plan = plan_of(sql, Relations(catalog, pipeline, before.plans), types, view=name, columns=columns).node
    schema = schemas_of([plan], collections_of(catalog), types)[plan]
    if not schema.names:
        raise InvalidArgument("it has no column", subject=f"view {name!r}", hint="Select at least one.")
    return plan, schema, key_of(plan) or ()


def collections_of(catalog: Catalog) -> dict[tuple[str, str], pa.Schema]:
    """What scans may read, by log and collection."""
    # NOT NULL is a promise of whoever writes the table; to the engine any column may be NULL.
    found = {(it.log, it.collection.name): it.collection.schema for it in catalog.tables.values()}
    views: Iterable[View] = catalog.views.values()
    found.update({(views_log(it.pipeline), it.name): it.schema for it in views})
    return found
