"""After every tick, the sum of all changes of every node is what it says of the tables as they are then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.changes import xxhash64
from penstock.errors import ArithmeticOverflow
from penstock.operators import distinct_counts
from penstock.plan import Aggregate, Distinct, Keyed, Scan
from tests.operators.local import DuckSelect, Hashing, LocalPipeline, content_of
from tests.operators.model import TooLarge, answers
from tests.operators.plans import Query, queries
from tests.operators.tables import COLLECTIONS, Tables, histories

DUCK = DuckSelect()
MOST_ROWS = 3_000
SHARDS = (1, 2, 4, 8)
FEW = np.array([5, -1, 1 << 62])


def random_cases(many: int) -> settings:
    return settings(
        max_examples=many,
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )


def check(query: Query, history: list[list[int]], turns: int, hashing: Hashing = xxhash64) -> None:
    """Run it, and look at every node after every tick. ``turns`` says how each tick is run."""
    tables = Tables()
    pipeline = LocalPipeline([query.node], COLLECTIONS, DUCK, hashing)
    for deeds in history:
        events = tables.tick(deeds)
        turns, shards = divmod(turns, 4)
        turns, partial = divmod(turns, 2)
        try:
            right = answers([query.node], tables.contents(), pipeline.schemas, query.meaning)
        except TooLarge:
            with pytest.raises(ArithmeticOverflow):
                pipeline.tick(events, SHARDS[shards], bool(partial))
            return
        assume(all(len(it) <= MOST_ROWS for it in right.values()))
        said = pipeline.tick(events, SHARDS[shards], bool(partial))
        for node in pipeline.order:
            if not isinstance(node, Scan):
                assert pipeline.contents[node] == right[node], node
            if isinstance(node, Keyed | Aggregate | Distinct):
                net = content_of(said[node])
                assert len(said[node]) == sum(map(abs, net.values())), f"{node} says more than what changed"


@pytest.mark.parametrize("part", range(8))
@random_cases(250)
@given(query=queries(), history=histories(), turns=st.integers(0, 8**10))
def test_every_node_is_right_after_every_tick(
    part: int, query: Query, history: list[list[int]], turns: int
) -> None:
    check(query, history, turns)


@pytest.mark.parametrize("part", range(2))
@random_cases(75)
@given(query=queries(), history=histories(), turns=st.integers(0, 8**10))
def test_they_are_right_where_different_keys_have_one_hash(
    part: int, query: Query, history: list[list[int]], turns: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct_counts, "xxhash64", few_hashes)
        check(query, history, turns, few_hashes)


def few_hashes(columns: Sequence[pa.Array], rows: int | None = None) -> np.ndarray:
    """Three hashes for all keys there are."""
    return FEW[xxhash64(columns, rows) % 3]
