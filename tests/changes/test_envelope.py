"""One change message at a time says what a batch of them says."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import Envelope, Source, debezium
from penstock.errors import InvalidArgument

SOURCE = Source("shop", "default", "orders", 42)
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: not name.startswith("_"))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=12)


@settings(deadline=None, max_examples=300)
@given(row=st.dictionaries(NAMES, PLAIN, min_size=1, max_size=5))
def test_an_envelope_writes_a_row_as_encode_writes_it(row: dict[str, Any]) -> None:
    batch = pa.RecordBatch.from_pylist([row]).append_column("_op", pa.array([0], pa.int8()))
    in_bulk = debezium.encode(batch, SOURCE).values[0].as_py()
    alone = Envelope.insert(row, SOURCE, 0).to_json()
    after = alone[alone.index(',"after":') + 1 : -1]
    assert after in in_bulk
    assert orjson.loads(alone)["after"] == row


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, -(2**63) - 1])
def test_an_integer_that_no_column_could_hold_is_refused_alone_too(number: int) -> None:
    with pytest.raises(InvalidArgument, match="'n' has no form in Arrow"):
        Envelope.insert({"n": number}, SOURCE, 0).to_json()
