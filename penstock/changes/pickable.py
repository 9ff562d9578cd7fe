"""Types out of which rows can be picked, and types without any encoding.

Arrow cannot take or filter rows of string views, binary views, list views and run-end encoded columns. Such
columns come from other tools (never from Spark), so they are made into ordinary ones at the door: texts
become large strings, views of lists lists, and runs their values (`pickable`). To compare values,
dictionaries and extension types are resolved too (`decoded`). All other columns stay as they are, and cost
nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.nested import entries, is_list, list_like, map_like

__all__ = ["decoded", "decoded_type", "pickable", "pickable_rows", "pickable_type"]


def pickable_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with columns that can be picked from. O(columns) when there is nothing to do."""
    columns = batch.columns
    easy = [pickable(column) for column in columns]
    if all(mine is theirs for mine, theirs in zip(easy, columns, strict=True)):
        return batch
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, easy, strict=True)]
    return pa.RecordBatch.from_arrays(easy, schema=pa.schema(fields, batch.schema.metadata))


def pickable(array: pa.Array) -> pa.Array:
    """The same values in `pickable_type`: the array itself when that is its own type.

    >>> pickable(pa.array(["ada", None], pa.string_view())).type
    DataType(large_string)
    """
    kind = array.type
    return array if _is_plain(kind) else _as(array, pickable_type(kind))


def decoded(array: pa.Array) -> pa.Array:
    """The same values without views, runs, dictionaries and extension types, at any depth.

    >>> decoded(pa.array([["ada"], None], pa.list_(pa.dictionary(pa.int8(), pa.string())))).type
    ListType(list<item: string>)
    """
    kind = array.type
    return array if _is_plain(kind) else _as(array, decoded_type(kind))


def pickable_type(kind: pa.DataType) -> pa.DataType:
    """The type itself where rows can be picked out of it, else one that holds the same values.

    >>> pickable_type(pa.list_view(pa.string_view())), pickable_type(pa.int64())
    (ListType(list<item: large_string>), DataType(int64))
    """
    return _type(kind, decode=False)


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type that `decoded` gives for one of this type.

    >>> decoded_type(pa.dictionary(pa.int8(), pa.string()))
    DataType(string)
    """
    return _type(kind, decode=True)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether the type is neither nested nor encoded in any way; quick."""
    return not (pa.types.is_nested(kind) or kind.id in _ENCODED or isinstance(kind, pa.BaseExtensionType))


_ENCODED = frozenset(
    kind.id
    for kind in (
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
    )
)


def _type(kind: pa.DataType, decode: bool) -> pa.DataType:
    t = pa.types
    if t.is_string_view(kind):
        return pa.large_string()
    if t.is_binary_view(kind):
        return pa.large_binary()
    if t.is_run_end_encoded(kind):
        return _type(kind.value_type, decode)
    if isinstance(kind, pa.BaseExtensionType):
        storage = _type(kind.storage_type, decode)
        return storage if decode or storage != kind.storage_type else kind
    if t.is_dictionary(kind):
        value = _type(kind.value_type, decode)
        return value if decode else pa.dictionary(kind.index_type, value, kind.ordered)
    if t.is_map(kind):
        key, item = (part.with_type(_type(part.type, decode)) for part in (kind.key_field, kind.item_field))
        return pa.map_(key, item, kind.keys_sorted)
    if not t.is_nested(kind):
        return kind
    parts = [kind.field(i) for i in range(kind.num_fields)]
    parts = [part.with_type(_type(part.type, decode)) for part in parts]
    if t.is_struct(kind):
        return pa.struct(parts)
    if t.is_fixed_size_list(kind):
        return pa.list_(parts[0], kind.list_size)
    if t.is_large_list(kind) or t.is_large_list_view(kind):
        return pa.large_list(parts[0])
    return pa.list_(parts[0]) if t.is_list(kind) or t.is_list_view(kind) else kind


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    kind, t = array.type, pa.types
    if target == kind:
        return array
    if t.is_run_end_encoded(kind):
        return _as(pc.run_end_decode(array), target)
    if isinstance(kind, pa.BaseExtensionType):
        return _as(array.storage, target)
    if t.is_dictionary(kind):
        if not t.is_dictionary(target):
            return _as(array.dictionary, target).take(array.indices)
        values = _as(array.dictionary, target.value_type)
        return pa.DictionaryArray.from_arrays(array.indices, values, ordered=kind.ordered)
    if t.is_struct(kind):
        parts = [_as(part, field.type) for part, field in zip(array.flatten(), target, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=pc.is_null(array))
    if t.is_map(kind):
        whole = _as(array.keys, target.key_type), _as(array.items, target.item_type)
        return map_like(target, array, *entries(array, *whole))
    if is_list(target):
        return list_like(target, array, _as(array.flatten(), target.value_type))
    return array.cast(target)
