"""What is appended, what it becomes, and what is refused without a trace."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import ChangeEvent, ChangeOperation, Op, ZSet
from penstock.errors import Closed, InvalidArgument, NoSpace, SchemaMismatch
from penstock.log import Log
from penstock.log import transaction as transaction_module
from penstock.lsn import LsnRange
from penstock.store.faulty import Fault
from tests.log.log_model import ManualClock
from tests.log.logs import FAST, changes_of, make_log
from tests.log.mortal_store import MortalStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("n", pa.int32())])
INSERT, BEFORE, AFTER, DELETE = Op
OPS = pa.int8()
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with make_log(tmp_path) as made:
        made.add_collection("users", SCHEMA, ["id"])
        yield made


def users(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=False)) for row in rows], schema=SCHEMA
    )


def row(*values: Any) -> dict[str, Any]:
    return dict(zip(SCHEMA.names, values, strict=False))


def with_ops(batch: pa.RecordBatch, *ops: Op) -> pa.RecordBatch:
    return batch.append_column("_op", pa.array([int(it) for it in ops], OPS))


def only(log: Log) -> Any:
    """The newest append."""
    *_, last = log.read()
    return last


def test_rows_without_an_operation_are_inserts(log: Log) -> None:
    assert log.append("users", users((1, "ada", 5), (2, None))) == LsnRange(1, 2)
    found = only(log).rows
    assert found.schema.names == ["id", "name", "n", "_op", "_weight", "_lsn", "_ts"]
    assert found.select(["_op", "_weight", "_lsn"]).to_pylist() == [
        {"_op": 0, "_weight": 1, "_lsn": 1},
        {"_op": 0, "_weight": 1, "_lsn": 2},
    ]
    assert only(log).data.to_pylist() == [row(1, "ada", 5), row(2, None, None)]


def test_the_two_sides_of_an_update_are_one_event(log: Log) -> None:
    batch = users((1, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e"), (4, "f"))
    assert log.append("users", with_ops(batch, BEFORE, AFTER, DELETE, AFTER, BEFORE, AFTER)) == LsnRange(1, 4)
    changes = only(log)
    assert changes.rows.column("_lsn").to_pylist() == [1, 1, 2, 3, 4, 4]
    assert changes.weights.tolist() == [-1, 1, -1, 1, -1, 1]
    assert changes.changed_columns() == [["name"], None, None, ["name"]]
    assert [it.data.num_rows for it in log.poll(0, 1)] == [2], "an event is never split"
    assert log.poll(0, 3).changes[0].rows.num_rows == 4


def test_a_batch_and_a_table_in_pieces_and_a_slice_are_the_same(log: Log) -> None:
    whole = users(*((i, f"name {i}", i) for i in range(10)))
    table = pa.Table.from_batches([whole.slice(0, 3), whole.slice(3, 0), whole.slice(3)])
    padded = pa.concat_batches([users((99, "x")), whole, users((98, "y"))]).slice(1, 10)
    for it in (whole, table, padded):
        log.append("users", it)
        assert only(log).data.equals(whole)


def test_columns_may_come_in_any_order(log: Log) -> None:
    batch = with_ops(users((1, "ada", 5)), DELETE)
    log.append("users", batch.select(["_op", "n", "id", "name"]))
    assert only(log).data.to_pylist() == [row(1, "ada", 5)]
    assert only(log).ops.tolist() == [DELETE]


def test_weights_stand_for_copies_and_a_weight_of_nothing_is_no_event(log: Log) -> None:
    batch = users((1, "a"), (2, "b"), (3, "c"), (4, "d"))
    assert log.append("users", batch.append_column("_weight", pa.array([2, 0, -3, 1]))) == LsnRange(1, 3)
    changes = only(log)
    assert (changes.ops.tolist(), changes.weights.tolist()) == ([0, 3, 0], [2, -3, 1])
    assert changes.zset() == ZSet(users((1, "a"), (3, "c"), (4, "d")), np.array([2, -3, 1]))
    both = with_ops(users((5, "e"), (5, "f")), BEFORE, AFTER).append_column("_weight", pa.array([-2, 2]))
    assert log.append("users", both) == LsnRange(4, 4)
    assert log.append("users", batch.append_column("_weight", pa.array([0] * 4))) == LsnRange(5, 4)


def test_nothing_appended_is_nothing(log: Log) -> None:
    assert log.append("users", users()) == LsnRange(1, 0)
    assert log.append("users", SCHEMA.empty_table()) == LsnRange(1, 0)
    with log.transaction() as transaction:
        transaction.append("users", users())
    assert transaction.lsns == LsnRange(1, 0)
    assert log.current_lsn == 0


def test_times_are_the_commits_unless_they_are_given(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    with Log.create(tmp_path, FAST, clock=clock) as log:
        log.add_collection("users", SCHEMA)
        log.append("users", users((1, "a")))
        clock.time = 500  # it went back
        stamps = pa.array([NOON, NOON + timedelta(seconds=1)], pa.timestamp("us", tz="UTC"))
        log.append("users", users((2, "b"), (3, "c")).append_column("_ts", stamps))
        first, second = log.read()
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        assert first.committed == second.committed == epoch + timedelta(microseconds=1_000)
        assert first.rows.column("_ts").to_pylist() == [epoch + timedelta(microseconds=1_000)]
        assert second.rows.column("_ts").to_pylist() == [NOON, NOON + timedelta(seconds=1)]


def test_the_columns_that_changed_are_told_or_found_or_unknown(log: Log) -> None:
    batch = with_ops(users((1, "a", 1), (1, "b", 2), (2, "x", 1), (3, "y")), BEFORE, AFTER, AFTER, INSERT)
    told = pa.array([None, None, ["n"], None], pa.list_(pa.string()))
    log.append("users", batch.append_column("_changed", told))
    changes = only(log)
    assert changes.changed_columns() == [["name", "n"], ["n"], None]
    assert changes.touching({"n"}).column("_lsn").to_pylist() == [1, 1, 2, 3]
    assert changes.touching({"name"}).column("_lsn").to_pylist() == [1, 1, 3], "unknown may be any"
    assert changes.touching({"id"}).column("_lsn").to_pylist() == [3]
    log.append("users", with_ops(users((1, "a", 1), (1, "a", 1)), BEFORE, AFTER))
    assert only(log).changed_columns() == [[]]


def test_an_event_at_a_time(log: Log) -> None:
    assert log.emit("insert", "users", after=row(1, "ada")) == 1
    assert log.emit(ChangeOperation.UPDATE, "users", before=row(1, "ada"), after=row(1, "Ada")) == 2
    assert log.emit("update", "users", after=row(1, "ADA"), changed_columns=["name"]) == 3
    assert log.emit("delete", "users", before=row(1), timestamp=NOON) == 4
    events = [event for changes in log.read() for event in changes.events()]
    micros = int(NOON.timestamp()) * 1_000_000
    assert [it.sequence for it in events] == [1, 2, 3, 4]
    assert events[1] == ChangeEvent.update(users((1, "ada")), users((1, "Ada")), events[1].timestamp, 2)
    assert events[3] == ChangeEvent.delete(users((1,)), micros, 4)
    assert [it.changed_columns() for it in log.read()] == [[None], [["name"]], [["name"]], [None]]


def test_events_repeat_rows_of_a_weight_and_show_a_refresh_as_a_snapshot(log: Log) -> None:
    log.append("users", users((1, "a"), (2, "b")).append_column("_weight", pa.array([3, -2])))
    three, two = only(log).events()
    assert three.to_zset() == ZSet(users((1, "a")), np.array([3]))
    assert two.to_zset() == ZSet(users((2, "b")), np.array([-2]))
    log.refresh("users", users((7, "g"), (8, "h")))
    (snapshot,) = only(log).events()
    assert snapshot == ChangeEvent.snapshot(users((7, "g"), (8, "h")), snapshot.timestamp)


def test_a_refresh_is_one_event_that_takes_back_what_it_replaced(log: Log) -> None:
    log.append("users", users((1, "a"), (2, "b")))
    old = only(log).zset()
    assert log.refresh("users", users((2, "b"), (3, "c"))) == LsnRange(3, 3)
    changes = only(log)
    assert (changes.is_refresh, len(changes), changes.lsns) == (True, 1, LsnRange(3, 3))
    assert changes.zset() == ZSet(users((2, "b"), (3, "c")), np.array([1, 1]))
    assert changes.zset(replaced=old) == ZSet(users((3, "c"), (1, "a")), np.array([1, -1]))
    assert repr(changes) == "Changes('users', refresh, LSN [3, 3])"
    assert changes.changed_columns() == [None]
    assert changes.touching({"name"}).equals(changes.rows)
    assert log.refresh("users", SCHEMA.empty_table()) == LsnRange(4, 4)
    assert only(log).rows.num_rows == 0


def test_a_transaction_is_one_whole_over_several_collections(log: Log) -> None:
    log.add_collection("more", SCHEMA)
    with log.transaction() as transaction:
        transaction.append("users", users((1, "a"), (2, "b")))
        transaction.emit("insert", "more", after=row(3, "c"))
        transaction.refresh("more", users((4, "d")))
        assert log.current_lsn == 0
        assert transaction.lsns is None
    assert transaction.lsns == LsnRange(1, 4)
    assert [(it.collection.name, it.ends_transaction) for it in log.read()] == [
        ("users", False),
        ("more", False),
        ("more", True),
    ]
    assert [log.boundary(lsn) for lsn in range(5)] == [0, 4, 4, 4, 4]
    with pytest.raises(Closed):
        transaction.append("users", users((9, "z")))
    with pytest.raises(Closed):
        transaction.commit()
    transaction.rollback()


def test_an_error_in_its_block_rolls_a_transaction_back(log: Log) -> None:
    def fail() -> None:
        with log.transaction() as transaction:
            transaction.append("users", users((1, "a")))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with log.transaction() as transaction:
        transaction.append("users", users((1, "a")))
        transaction.rollback()
    assert log.current_lsn == 0


def test_a_commit_that_did_not_happen_may_be_repeated(tmp_path: Path) -> None:
    full = NoSpace("there is no room", subject="the disk", hint="Make room.")
    store = MortalStore(tmp_path, [Fault(1, verb="append", error=full)])
    log = Log.create(store, FAST)
    log.add_collection("users", SCHEMA)
    transaction = log.transaction()
    transaction.append("users", users((1, "a")))
    with pytest.raises(NoSpace):
        transaction.commit()
    assert (log.current_lsn, transaction.lsns) == (0, None)
    assert transaction.commit() == LsnRange(1, 1)
    log.close()
    store.bury()


def test_a_batch_too_large_for_one_frame_is_cut_between_events(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one transaction: whoever reads sees all of it or nothing."""
    monkeypatch.setattr(transaction_module, "_FRAME_TARGET", 1000)
    old, new = row(1, "a" * 50, 1), row(1, "b" * 50, 1)
    updates = changes_of(SCHEMA, [(op, it) for _ in range(40) for op, it in ((BEFORE, old), (AFTER, new))])
    log.append("users", updates)
    parts = list(log.read())
    assert len(parts) > 3
    assert [it.ends_transaction for it in parts] == [False] * (len(parts) - 1) + [True]
    assert all(it.ops.tolist() == [BEFORE, AFTER] * len(it) for it in parts)
    assert [lsn for it in parts for lsn in it.lsns] == list(range(1, 41))
    inserts = users(*((i, "x" * 30, i) for i in range(100)))
    log.append("users", inserts)
    assert pa.Table.from_batches([it.data for it in log.read(since=40)]).combine_chunks().to_batches() == [
        inserts
    ]
    huge = users((1, "y" * 5000))
    assert log.append("users", huge) == LsnRange(141, 141)
    assert only(log).data.equals(huge)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), target=st.integers(1, 400))
def test_pieces_are_the_batch_without_a_split_event(data: st.DataObject, target: int) -> None:
    kinds = data.draw(
        st.lists(st.sampled_from([(INSERT,), (DELETE,), (AFTER,), (BEFORE, AFTER)]), max_size=20)
    )
    ops = [op for kind in kinds for op in kind]
    batch = with_ops(users(*((i, "t" * (i % 9), i) for i in range(len(ops)))), *ops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_module, "_FRAME_TARGET", target)
        pieces = transaction_module._pieces(None, batch)  # type: ignore[arg-type]
    joined = list(itertools.chain.from_iterable(it.to_pylist() for it in pieces))
    assert joined == batch.to_pylist()
    for it in pieces[1:]:
        first = it.column("_op")[0].as_py()
        before = joined[joined.index(it.to_pylist()[0]) - 1]["_op"]
        assert (before, first) != (BEFORE, AFTER)


BAD_BATCHES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: users((1, "a")).drop_columns(["name"]), SchemaMismatch, "the column 'name' is missing"),
    (
        lambda: pa.record_batch({"id": [1], "name": ["a"], "n": pa.array([1], pa.int64())}),
        SchemaMismatch,
        "the column 'n' is of type int64 and not int32",
    ),
    (lambda: users((1, "a"), (None, "b")), SchemaMismatch, "the column 'id' is NULL in row 1"),
    (
        lambda: users((1, "a")).append_column("_lsn", pa.array([7])),
        InvalidArgument,
        "the batch has a column '_lsn'",
    ),
    (
        lambda: users((1, "a")).append_column("email", pa.array([7])),
        SchemaMismatch,
        "the column 'email' is not in the collection",
    ),
    (
        lambda: users((1, "a")).append_column("_shard", pa.array([7])),
        SchemaMismatch,
        "'_shard' is Penstock's own and has no meaning here",
    ),
    (
        lambda: users((1, "a")).append_column("_op", pa.array([4], OPS)),
        InvalidArgument,
        "the column '_op' holds 4 to 4",
    ),
    (
        lambda: users((1, "a")).append_column("_op", pa.array([0])),
        SchemaMismatch,
        "the column '_op' is of type int64 and not int8",
    ),
    (
        lambda: users((1, "a")).append_column("_op", pa.array([None], OPS)),
        SchemaMismatch,
        "the column '_op' is NULL in row 0",
    ),
    (
        lambda: with_ops(users((1, "a")), DELETE).append_column("_weight", pa.array([1])),
        InvalidArgument,
        "the sign of a weight is not that of its operation",
    ),
    (
        lambda: with_ops(users((1, "a"), (2, "b")), BEFORE, INSERT),
        InvalidArgument,
        "row 0 is UPDATE_BEFORE and no UPDATE_AFTER follows it",
    ),
    (lambda: with_ops(users((1, "a")), BEFORE), InvalidArgument, "row 0 is UPDATE_BEFORE"),
    (
        lambda: with_ops(users((1, "a"), (1, "b")), BEFORE, AFTER).append_column(
            "_weight", pa.array([-2, 1])
        ),
        InvalidArgument,
        "the update in rows 0 and 1 takes and gives different numbers of copies",
    ),
    (
        lambda: users((1, "a")).append_column("_ts", pa.array([NOON.replace(tzinfo=None)])),
        SchemaMismatch,
        "the column '_ts' is of type timestamp",
    ),
]


@pytest.mark.parametrize(("batch", "error", "what"), BAD_BATCHES, ids=[it[2] for it in BAD_BATCHES])
def test_a_batch_that_does_not_fit_is_refused_whole(
    batch: Callable[[], Any], error: type[Exception], what: str, log: Log
) -> None:
    good = users((1, "a"))
    with pytest.raises(error, match=what):
        log.append("users", batch())

    def transact() -> None:
        with log.transaction() as transaction:
            transaction.append("users", good)
            transaction.append("users", batch())

    with pytest.raises(error):
        transact()
    assert log.current_lsn == 0
    assert log.append("users", good) == LsnRange(1, 1), "and no LSN is used up"


@pytest.mark.parametrize(
    ("event", "error", "what"),
    [
        ({"operation": "upsert", "after": row(1)}, InvalidArgument, "'upsert' is not an event of one row"),
        ({"operation": "refresh", "after": row(1)}, InvalidArgument, "'refresh' is not an event of one row"),
        ({"operation": "insert"}, InvalidArgument, "the event has no row 'after'"),
        ({"operation": "update", "before": row(1)}, InvalidArgument, "the event has no row 'after'"),
        ({"operation": "delete", "after": row(1)}, InvalidArgument, "the event has no row 'before'"),
        (
            {"operation": "insert", "before": row(1), "after": row(1)},
            InvalidArgument,
            "has a row 'before' and a row 'after'",
        ),
        ({"operation": "insert", "after": {"id": 1, "x": 2}}, SchemaMismatch, "the column 'x' is not in"),
        (
            {"operation": "insert", "after": row("one")},
            SchemaMismatch,
            "the value of column 'id' does not fit int64",
        ),
        ({"operation": "insert", "after": row(1, "a", 2**40)}, SchemaMismatch, "'n' does not fit int32"),
        ({"operation": "insert", "after": {"name": "a"}}, SchemaMismatch, "the column 'id' is NULL in row 0"),
        (
            {"operation": "insert", "after": row(1), "changed_columns": ["x"]},
            InvalidArgument,
            "the changed column 'x' is not a column",
        ),
        (
            {"operation": "insert", "after": row(1), "timestamp": NOON.replace(tzinfo=None)},
            InvalidArgument,
            "has no time zone",
        ),
    ],
)
def test_an_event_that_cannot_be_is_refused(
    event: dict[str, Any], error: type[Exception], what: str, log: Log
) -> None:
    operation = event.pop("operation")
    with pytest.raises(error, match=what):
        log.emit(operation, "users", **event)
    assert log.current_lsn == 0


@pytest.mark.parametrize("name", ["_op", "_weight"])
def test_new_content_has_no_operations(name: str, log: Log) -> None:
    kind = OPS if name == "_op" else pa.int64()
    with pytest.raises(InvalidArgument, match=f"the new content has a column '{name}'"):
        log.refresh("users", users((1, "a")).append_column(name, pa.array([0], kind)))


def test_there_is_no_appending_to_what_is_not_there(log: Log) -> None:
    with pytest.raises(InvalidArgument, match="there is no collection 'orders'"):
        log.append("orders", users((1, "a")))
