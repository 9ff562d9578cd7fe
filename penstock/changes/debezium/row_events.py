"""The row events of one collection, from JSON objects to `RowEvents`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.events import RowEvents
from penstock.changes.debezium.identity import ReplicaIdentity, key_only
from penstock.changes.debezium.images import (
    Column,
    Images,
    OnNewColumn,
    check_nulls,
    declared,
    picked,
    read_images,
)
from penstock.changes.debezium.keys import read_keys
from penstock.changes.debezium.misfit import Misfit, shown
from penstock.changes.debezium.positions import Collection, positions
from penstock.changes.debezium.types import ConnectType, Decimals, check_readable
from penstock.changes.nested import is_list
from penstock.errors import InvalidArgument

__all__ = ["Options", "RowMessages", "row_events"]

Json = dict[str, Any]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_HINT = "Check what wrote the message: the images do not go with its op."


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller of `decode` chose."""

    schema: pa.Schema | Mapping[str, pa.Schema] | None
    decimals: Decimals
    on_new_column: OnNewColumn
    replica_identity: ReplicaIdentity
    placeholder: str

    def __post_init__(self) -> None:
        for name, allowed in (
            ("on_new_column", ("error", "ignore", "add")),
            ("replica_identity", ("unknown", "full", "default")),
        ):
            if getattr(self, name) not in allowed:
                raise InvalidArgument(
                    f"{name}={getattr(self, name)!r} is not one of the choices",
                    subject="decode",
                    hint=f"Use one of {', '.join(allowed)}.",
                )
        schemas = self.schema.values() if isinstance(self.schema, Mapping) else [self.schema]
        for schema in schemas:
            if schema is not None:
                check_readable(schema)

    def schema_of(self, collection: Collection) -> pa.Schema | None:
        """The schema given for a collection, if any."""
        if isinstance(self.schema, Mapping):
            return self.schema.get(collection.id)
        return self.schema


@dataclass(frozen=True, slots=True)
class RowMessages:
    """The row messages of one collection: their numbers, payloads, schemas and keys, side by side."""

    collection: Collection
    index: Int64s
    raws: list[bytes]
    payloads: list[Json]
    schemas: list[ConnectType | None]
    keys: list[Any] | None
    key_schemas: list[ConnectType | None]


def row_events(messages: RowMessages, options: Options) -> RowEvents:
    """Decode them. A `Misfit` tells the place of the message among these."""
    ops: list[str] = [payload["op"] for payload in messages.payloads]
    befores = [payload.get("before") for payload in messages.payloads]
    afters = [payload.get("after") for payload in messages.payloads]
    _check_shapes(ops, befores, afters)
    given = options.schema_of(messages.collection)
    columns = declared(given, _row_types(messages), options.decimals, messages.collection.id)
    policy = options.on_new_column if given is not None else "error" if columns else None

    has_before = np.array([before is not None for before in befores], np.bool_)
    has_after = np.array([after is not None for after in afters], np.bool_)
    rows = [before for before in befores if before is not None] + [
        after for after in afters if after is not None
    ]
    owner = np.concatenate([np.flatnonzero(has_before), np.flatnonzero(has_after)])
    count = int(has_before.sum())
    before_rows, after_rows = _numbered(has_before, 0), _numbered(has_after, count)
    with _of_images(owner, count):
        images = read_images(rows, columns, policy, options.placeholder)
        check_nulls(images, after_rows[has_after])
    _check_wide(images, columns, messages.raws)
    told_keys = declared(None, _key_types(messages), options.decimals, messages.collection.id)
    return RowEvents(
        collection=messages.collection,
        schema=images.schema,
        index=messages.index,
        op=pa.array(ops, pa.string()),
        before=picked(images, before_rows),
        after=picked(images, after_rows),
        has_before=has_before,
        has_after=has_after,
        key_only=key_only(
            befores, ops, messages.keys, columns, messages.collection.connector, options.replica_identity
        ),
        key=None
        if messages.keys is None
        else read_keys(messages.keys, {name: it.kind for name, it in told_keys.items()}, images.columns),
        unavailable=_by_event(images.unavailable, after_rows),
        before_unavailable=_by_event(images.unavailable, before_rows),
        position=positions(messages.payloads),
    )


_NONE = type(None)
_SHAPES = frozenset(
    [
        ("c", _NONE, dict),
        ("r", _NONE, dict),
        ("u", _NONE, dict),
        ("u", dict, dict),
        ("d", _NONE, _NONE),
        ("d", dict, _NONE),
    ]
)


def _check_shapes(ops: list[str], befores: list[Any], afters: list[Any]) -> None:
    """Refuse events whose images do not go with their op: an insert of nothing, a delete with a new row."""
    shapes = list(zip(ops, map(type, befores), map(type, afters), strict=True))
    odd = {shape for shape in set(shapes) if shape not in _SHAPES}
    if odd:
        at = next(at for at, shape in enumerate(shapes) if shape in odd)
        images = f"before {shown(befores[at])} and after {shown(afters[at])}"
        what = f"an op of {ops[at]!r} with {images} makes no sense"
        raise Misfit(at, what, _HINT)


def _row_types(messages: RowMessages) -> list[tuple[ConnectType, int]]:
    """The distinct types of rows that the messages' own schemas tell, and the first message of each."""
    seen: dict[int, tuple[ConnectType, int]] = {}
    for at, schema in enumerate(messages.schemas):
        if schema is None or id(schema) in seen:
            continue
        fields = dict(schema.fields)
        row = fields.get("after") or fields.get("before")
        if row is None or row.kind != "struct":
            hint = "The schema of a change event is a struct with before and after."
            raise Misfit(at, "the message's schema does not tell the type of its rows", hint, ".schema")
        seen[id(schema)] = (row, int(messages.index[at]))
    return list(seen.values())


def _key_types(messages: RowMessages) -> list[tuple[ConnectType, int]]:
    """The distinct types that the keys' own schemas tell, and the first message of each."""
    seen: dict[int, tuple[ConnectType, int]] = {}
    for schema, index in zip(messages.key_schemas, messages.index.tolist(), strict=False):
        if schema is not None:
            seen.setdefault(id(schema), (schema, index))
    return list(seen.values())


def _numbered(present: Bools, start: int) -> Int64s:
    numbers: Int64s = np.where(present, start + np.cumsum(present) - 1, -1)
    return numbers


@contextmanager
def _of_images(owner: Int64s, befores: int) -> Iterator[None]:
    """Lift a misfit among the images to the event that has it."""
    try:
        yield
    except Misfit as misfit:
        side = "before" if misfit.at < befores else "after"
        raise Misfit(int(owner[misfit.at]), misfit.what, misfit.hint, f".{side}{misfit.path}") from None


def _by_event(masks: Mapping[str, Bools], rows: Int64s) -> dict[str, Bools]:
    """Masks over images as masks over events; columns that have none are left out."""
    by_event = {name: mask[rows] & (rows >= 0) for name, mask in masks.items()}
    return {name: mask for name, mask in by_event.items() if mask.any()}


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LONG_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?[0-9]{19,}(?![0-9.eE])")


def _check_wide(images: Images, declared_columns: Mapping[str, Column], raws: list[bytes]) -> None:
    """Refuse integers that the JSON parser has turned into floats because they are longer than 64 bits.

    Only columns of which nobody told the type can hide one, and only where they hold a float of that size.
    """
    inferred = [
        array
        for name, array in zip(images.columns, images.arrays, strict=True)
        if name not in declared_columns
    ]
    if not any(_has_wide_float(array) for array in inferred):
        return
    for at, raw in enumerate(raws):
        for found in _LONG_INTEGER.finditer(_STRING.sub(b'""', raw)):
            if not -(2**63) <= int(found[0][:40]) < 2**64:
                hint = "Give schema=, with a decimal or float column for it."
                raise Misfit(at, f"the integer {shown(found[0].decode())} does not fit 64 bits", hint)


def _has_wide_float(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_struct(kind):
        return any(_has_wide_float(part) for part in array.flatten())
    if is_list(kind):
        return _has_wide_float(array.flatten())
    return bool(pa.types.is_floating(kind) and pc.any(pc.greater_equal(pc.abs(array), 2.0**63)).as_py())
