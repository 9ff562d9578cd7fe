from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.collapse import additions, collapse
from penstock.changes.names import META_FIELDS
from penstock.changes.op import Op
from penstock.changes.zset import ZSet
from penstock.errors import AppendOnly, InvalidArgument, KeyConflict, ReservedName

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.string(), "v": pa.float64()})
ROWS = st.tuples(st.integers(0, 2), st.sampled_from([None, "a"]), st.sampled_from([0.0, -0.0, 1.5, None]))
CHANGES = st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=12)


def zset(changes: list[tuple[tuple[Any, ...], int]]) -> ZSet:
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row, _ in changes]
    return ZSet.from_rows(rows, SCHEMA, np.array([weight for _, weight in changes], np.int64))


def bag(changes: list[tuple[tuple[Any, ...], int]]) -> dict[tuple[Any, ...], int]:
    total: Counter[tuple[Any, ...]] = Counter()
    for row, weight in changes:
        total[row] += weight  # −0.0 and 0.0 are one key of a dictionary, too
    return {row: weight for row, weight in total.items() if weight}


def tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist()]


@settings(deadline=None, max_examples=300)
@given(CHANGES, st.sampled_from([["k"], ["k", "g"], ["g"], ["v"], ["k", "g", "v"], ["v", "k"]]))
def test_collapsing_is_what_a_dictionary_by_key_does(
    changes: list[tuple[tuple[Any, ...], int]], key: list[str]
) -> None:
    by_key: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], int]]] = {}
    for row, weight in bag(changes).items():
        by_key.setdefault(tuple(row[SCHEMA.names.index(name)] for name in key), []).append((row, weight))
    live = {k: [(row, w) for row, w in rows if w > 0] for k, rows in by_key.items()}
    if any(len(rows) > 1 or any(weight > 1 for _, weight in rows) for rows in live.values()):
        with pytest.raises(KeyConflict):
            collapse(zset(changes), key)
        return
    done = collapse(zset(changes), key)
    assert Counter(tuples(done.upserts)) == Counter([rows[0][0] for rows in live.values() if rows])
    assert Counter(tuples(done.deletes)) == Counter([k for k, rows in live.items() if not rows])
    assert done.upserts.schema == SCHEMA
    assert done.deletes.schema.names == key


TABLES = st.dictionaries(st.integers(0, 4), st.sampled_from([0.0, 1.5, None]), max_size=5)


@settings(deadline=None, max_examples=200)
@given(st.lists(TABLES, min_size=2, max_size=5), st.randoms())
def test_a_table_that_follows_the_upserts_and_deletes_is_the_table(
    history: list[dict[int, float | None]], chance: Any
) -> None:
    changes: list[tuple[tuple[Any, ...], int]] = []
    for old, new in pairwise(history):
        changes += [((k, None, v), -1) for k, v in old.items()] + [((k, None, v), 1) for k, v in new.items()]
    chance.shuffle(changes)
    done = collapse(zset(changes), ["k"])
    table = dict(history[0])
    table.update({k: v for k, _, v in tuples(done.upserts)})
    for (k,) in tuples(done.deletes):
        del table[k]
    assert table == history[-1]


def test_rows_that_cancel_out_are_nothing_to_do() -> None:
    done = collapse(zset([((1, "a", 1.5), 1), ((1, "a", 1.5), -1)]), ["k"])
    assert (done.upserts.num_rows, done.deletes.num_rows) == (0, 0)


def test_a_conflict_names_the_key_and_how_many_rows_it_has() -> None:
    changes = [((7, "a", 0.0), 1), ((8, "a", 1.5), 1), ((8, "b", 1.5), 2), ((8, "c", 0.0), -1)]
    with pytest.raises(KeyConflict, match=r"the key \(k=8\) has 3 live rows"):
        collapse(zset(changes), ["k"])


def test_a_weight_of_two_is_a_conflict_whatever_the_key() -> None:
    with pytest.raises(KeyConflict, match="2 live rows"):
        collapse(zset([((7, "a", 0.0), 2)]), ["k", "g", "v"])


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ([], InvalidArgument),
        ("k", InvalidArgument),
        (["k", "k"], InvalidArgument),
        (["missing"], InvalidArgument),
        (["_op"], ReservedName),
        (["k", "_anything"], ReservedName),
    ],
    ids=str,
)
def test_what_cannot_be_a_key_is_refused(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        collapse(zset([((1, "a", 0.0), 1)]), key)


def test_data_that_is_not_changes_is_refused() -> None:
    for call in (lambda: collapse([{"k": 1}], ["k"]), lambda: additions({"k": [1]})):
        with pytest.raises(InvalidArgument, match="Arrow"):
            call()


def meta_batch(ops: list[Op], weights: list[int]) -> pa.RecordBatch:
    rows = pa.record_batch({"k": list(range(len(ops)))})
    columns = [ops, weights, list(range(len(ops))), list(range(len(ops)))]
    for field, column in zip(META_FIELDS, columns, strict=True):
        rows = rows.append_column(field, pa.array(column, field.type))
    return rows


def test_penstocks_own_columns_are_weights_and_no_data() -> None:
    ops, weights = [Op.INSERT, Op.DELETE, Op.UPDATE_BEFORE, Op.UPDATE_AFTER], [1, -1, -1, 1]
    batch = meta_batch(ops, weights)
    for changes in (
        batch,
        pa.table(batch),
        batch.drop_columns(["_weight"]),
        pa.table(batch).drop(["_weight"]),
    ):
        done = collapse(changes, ["k"])
        assert done.upserts.to_pylist() == [{"k": 0}, {"k": 3}]
        assert done.deletes.to_pylist() == [{"k": 1}, {"k": 2}]
    plain = pa.table({"k": [1, 2]})
    assert collapse(plain, ["k"]).upserts.to_pylist() == [{"k": 1}, {"k": 2}]


def test_the_same_row_at_two_times_is_one_row() -> None:
    batch = meta_batch([Op.DELETE, Op.INSERT], [-1, 1]).set_column(0, "k", pa.array([5, 5]))
    done = collapse(batch, ["k"])
    assert (done.upserts.num_rows, done.deletes.num_rows) == (0, 0)
    assert additions(batch).num_rows == 0


@pytest.mark.parametrize("ops", [[4], [-1], [None], ["insert"], [1.0]])
def test_operations_that_are_none_are_refused(ops: list[Any]) -> None:
    with pytest.raises(InvalidArgument, match="_op"):
        collapse(pa.table({"k": [1], "_op": ops}), ["k"])


@settings(deadline=None, max_examples=200)
@given(CHANGES)
def test_additions_are_the_bag_or_all_is_refused(changes: list[tuple[tuple[Any, ...], int]]) -> None:
    content = bag(changes)
    if min(content.values(), default=1) < 0:
        with pytest.raises(AppendOnly):
            additions(zset(changes))
    else:
        assert Counter(tuples(additions(zset(changes)))) == Counter(content)


def test_a_refusal_to_append_names_the_row() -> None:
    with pytest.raises(AppendOnly, match=r"\(k=2, g='a', v=1.5\) has the weight -1"):
        additions(zset([((1, "a", 0.0), 1), ((2, "a", 1.5), -1)]))


def test_more_copies_than_any_sink_takes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="add up"):
        additions(zset([((1, "a", 0.0), 2**40)]))
