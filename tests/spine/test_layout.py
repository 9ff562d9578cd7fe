from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import InvalidArgument, MalformedMessage, Unsupported
from penstock.spine import Layout
from tests.spine.spine_model import layouts

K, N = pa.field("k", pa.string()), pa.field("n", pa.int64())


@given(layouts())
@settings(deadline=None)
def test_a_layout_survives_json(layout: Layout) -> None:
    assert Layout.from_json(orjson.loads(orjson.dumps(layout.to_json()))) == layout


@pytest.mark.parametrize(
    ("schema", "key", "kind", "order", "told"),
    [
        ([K, N], ("k",), "heap", None, "no kind"),
        ([K, K, N], ("k",), "sums", None, "twice"),
        ([K, pa.field("_hash", pa.int64())], ("k",), "sums", None, "reserved"),
        ([K, pa.field("_weight", pa.int64())], ("k",), "bag", None, "reserved"),
        ([K, N], ("x",), "sums", None, "no column 'x'"),
        ([K, N], ("k",), "bag", "x", "no column 'x'"),
        ([K, N], ("k",), "sums", "n", "no order"),
        ([K, pa.field("n", pa.int32())], ("k",), "sums", None, "no int64"),
        ([K], ("k",), "sums", None, "no column to add up"),
    ],
)
def test_a_layout_that_means_nothing_is_refused(
    schema: list[pa.Field], key: tuple[str, ...], kind: Any, order: str | None, told: str
) -> None:
    with pytest.raises(InvalidArgument, match=told):
        Layout(pa.schema(schema), key, kind, order)


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.map_(pa.string(), pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.list_view(pa.int8()),
        pa.string_view(),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
)
def test_encoded_columns_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="Decode or cast"):
        Layout(pa.schema([pa.field("k", kind), N]), ("k",), "sums")


def test_a_bag_is_ordered_by_what_has_an_order() -> None:
    with pytest.raises(Unsupported, match="cannot be put in order"):
        Layout(pa.schema([K, pa.field("v", pa.list_(pa.int8()))]), ("k",), "bag", "v")


@pytest.mark.parametrize(
    "told", [{}, {"schema": "?"}, [], None, {"schema": "", "key": [], "kind": "bag", "order": None}]
)
def test_what_is_no_layout_is_malformed(told: Any) -> None:
    with pytest.raises(MalformedMessage):
        Layout.from_json(told)
