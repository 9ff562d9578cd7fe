from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import rows
from penstock.changes.pickable import pickable_type
from penstock.errors import SchemaMismatch, Unsupported
from tests.arrow_strategies import any_types, arrays, batches, schemas
from tests.row_model import identity


@settings(deadline=None, max_examples=400)
@given(schemas(kinds=any_types()).flatmap(batches))
def test_rows_group_as_the_plain_model_says(batch: pa.RecordBatch) -> None:
    grouping = rows.group(batch.columns, batch.num_rows)
    told = [
        tuple(identity(v, f.type) for v, f in zip(row.values(), batch.schema, strict=True))
        for row in batch.to_pylist()
    ]
    first: dict[object, int] = {}
    for i, row in enumerate(told):
        first.setdefault(row, i)
    number = {row: g for g, row in enumerate(first)}
    assert grouping.ids.tolist() == [number[row] for row in told]
    assert grouping.first.tolist() == list(first.values())


@settings(deadline=None, max_examples=300)
@given(st.data(), any_types().map(pickable_type))
def test_the_canonical_form_is_the_same_value_and_one_form_per_value(
    data: st.DataObject, kind: pa.DataType
) -> None:
    array = data.draw(arrays(kind, 6))
    canonical = rows.canonical(array)
    canonical.validate(full=True)
    assert canonical.type == kind
    told = [identity(value, kind) for value in array.to_pylist()]
    again = canonical.to_pylist()
    assert [identity(value, kind) for value in again] == told
    by_identity: dict[object, str] = {}
    for key, value in zip(told, again, strict=True):
        assert by_identity.setdefault(key, repr(value)) == repr(value)


@settings(deadline=None, max_examples=300)
@given(st.data(), any_types())
def test_two_columns_compare_as_the_plain_model_says(data: st.DataObject, kind: pa.DataType) -> None:
    left, right = data.draw(arrays(kind, 5)), data.draw(arrays(kind, 5))
    expected = [
        identity(a, kind) == identity(b, kind)
        for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
    ]
    assert rows.same_rows([left], [right], 5).tolist() == expected


def test_a_row_without_columns_is_one_group() -> None:
    assert rows.group([], 3).ids.tolist() == [0, 0, 0]


def test_no_rows_are_no_groups() -> None:
    grouping = rows.group([pa.array([], pa.string())], 0)
    assert (grouping.count, grouping.ids.tolist()) == (0, [])


@pytest.mark.parametrize("bits", [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001])
def test_every_nan_is_one_value_whatever_its_bits(bits: int) -> None:
    odd = np.array([bits, 0x7FF8000000000000], np.uint64).view(np.float64)
    assert rows.group([pa.array(odd)], 2).count == 1
    clean = rows.canonical(pa.array(odd)).to_numpy().view(np.uint64)
    assert len(set(clean.tolist())) == 1


def test_a_struct_of_nulls_is_not_a_null_struct() -> None:
    kind = pa.struct([("a", pa.int64())])
    assert rows.group([pa.array([{"a": None}, None, {"a": None}], kind)], 3).ids.tolist() == [0, 1, 0]


def test_an_empty_list_is_not_a_null_list() -> None:
    assert rows.group([pa.array([[], None, []], pa.list_(pa.int64()))], 3).ids.tolist() == [0, 1, 0]


def test_a_map_has_no_order() -> None:
    maps = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int64()))
    assert rows.group([maps], 2).count == 1
    assert rows.canonical(maps)[0] == rows.canonical(maps)[1]


def test_a_dictionary_column_groups_as_its_values_do() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array([0.0, -0.0, 1.0]))
    assert rows.group([encoded], 4).ids.tolist() == [0, 0, 1, 2]
    assert rows.canonical(encoded).type == encoded.type


def test_strings_compare_by_bytes_as_sparks_default_collation_does() -> None:
    assert rows.group([pa.array(["é", "e\u0301", "E", "e"])], 4).count == 4


def test_canonical_shares_the_buffers_of_what_is_canonical_already() -> None:
    array = pa.array([1.0, 2.0])
    assert rows.canonical(array) is array


def test_schemas_that_differ_are_refused_with_both_sides_named() -> None:
    with pytest.raises(SchemaMismatch, match=r"a int64.*a string"):
        rows.check_same_schema(pa.schema([("a", pa.int64())]), pa.schema([("a", pa.string())]), "ZSet")


def test_a_type_that_cannot_be_compared_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    with pytest.raises(Unsupported, match="union"):
        rows.group([union], 2)
