from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import Op
from penstock.errors import ArithmeticOverflow, CursorExpired, InvalidArgument
from penstock.log import Log, LogOptions, content_index, content_rows, content_state
from penstock.log.content import Content, content
from tests.arrow_strategies import arrays, types
from tests.log.growing_memory import GrowingMemory
from tests.log.logs import changes_of, make_log
from tests.row_model import identity

USERS = pa.schema([("id", pa.int64()), ("name", pa.string())])
ITEMS = pa.schema([("item", pa.string()), ("price", pa.float64())])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with make_log(tmp_path / "log") as log:
        log.add_collection("users", USERS, key=["id"])
        log.add_collection("items", ITEMS)
        yield log


def users(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": name} for i, name in rows], schema=USERS)


def items(*rows: tuple[str, float]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"item": it, "price": price} for it, price in rows], schema=ITEMS)


def weighed(batch: pa.RecordBatch, *weights: int) -> pa.RecordBatch:
    return batch.append_column("_weight", pa.array(weights, pa.int64()))


def told(batch: pa.RecordBatch, *ops: Op) -> pa.RecordBatch:
    return batch.append_column("_op", pa.array([int(op) for op in ops], pa.int8()))


def names(table: pa.Table) -> dict[int, str | None]:
    return {row["id"]: row["name"] for row in table.to_pylist()}


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(identity(row[field.name], field.type) for field in table.schema) for row in table.to_pylist()
    )


def test_the_last_event_of_a_key_says_what_its_row_is(log: Log) -> None:
    log.append("users", users((1, "ada"), (2, "bob")))
    log.append("users", users((1, "Ada")))
    log.append("users", told(users((2, None), (3, "eve")), Op.DELETE, Op.UPDATE_AFTER))
    assert names(content(log, "users")) == {1: "Ada", 3: "eve"}


def test_within_one_batch_too(log: Log) -> None:
    log.append(
        "users",
        told(users((1, "a"), (1, "b"), (1, None), (1, "c"), (2, "x"), (2, None)), *_OPS),
    )
    assert names(content(log, "users")) == {1: "c"}


_OPS = (Op.INSERT, Op.UPDATE_AFTER, Op.DELETE, Op.INSERT, Op.INSERT, Op.DELETE)


def test_an_old_side_says_nothing_unless_the_key_changed(log: Log) -> None:
    log.append("users", users((1, "ada"), (2, "bob")))
    both = (Op.UPDATE_BEFORE, Op.UPDATE_AFTER)
    log.append(
        "users", told(users((1, "not what is there"), (1, "Ada"), (2, "bob"), (7, "bob")), *both, *both)
    )
    assert names(content(log, "users")) == {1: "Ada", 7: "bob"}


def test_deleting_what_is_not_there_is_nothing(log: Log) -> None:
    log.append("users", told(users((1, None)), Op.DELETE))
    log.append("users", users((1, "ada")))
    found = Content(log, "users").advance()
    assert (names(found.table()), found.owed) == ({1: "ada"}, 0)


def test_a_null_is_a_key_like_any_other(log: Log) -> None:
    log.add_collection("loose", ITEMS, key=["item", "price"])
    log.append("loose", items(("a", float("nan")), ("a", 0.0)))
    log.append("loose", items(("a", float("nan")), ("a", -0.0)))
    both = pa.RecordBatch.from_pylist([{"item": None, "price": 1.0}] * 2, schema=ITEMS)
    log.append("loose", both)
    assert content(log, "loose").num_rows == 3


def test_a_row_is_there_as_often_as_its_weights_add_up_to(log: Log) -> None:
    log.append("items", items(("pen", 1.0), ("pen", 1.0), ("ink", 2.0)))
    log.append("items", weighed(items(("pen", 1.0), ("ink", 2.0), ("nib", 3.0)), -1, -1, 3))
    assert bag(content(log, "items")) == {("pen", 1.0): 1, ("nib", 3.0): 3}


def test_rows_are_equal_as_spark_groups_them(log: Log) -> None:
    nan = np.frombuffer(np.uint64(0xFFF8000000000123).tobytes(), np.float64)[0]
    log.append("items", items(("a", -0.0), ("b", nan)))
    log.append("items", weighed(items(("a", 0.0), ("b", float("nan"))), -1, -1))
    assert content(log, "items").num_rows == 0


def test_what_is_taken_away_and_was_not_there_is_owed(log: Log) -> None:
    log.append("items", weighed(items(("pen", 1.0), ("pen", 1.0)), 1, -3))
    found = Content(log, "items").advance()
    assert (len(found), found.owed) == (0, 2)
    log.append("items", items(("pen", 1.0), ("ink", 2.0)))
    found.advance()
    assert (bag(found.table()), found.owed) == ({("ink", 2.0): 1}, 1)
    log.append("items", weighed(items(("pen", 1.0)), 2))
    found.advance()
    assert (bag(found.table()), found.owed) == ({("ink", 2.0): 1, ("pen", 1.0): 1}, 0)


def test_more_copies_than_64_bits_count_are_an_error_of_ours(log: Log) -> None:
    many = 2**62
    log.append("items", weighed(items(("pen", 1.0), ("pen", 1.0)), many, many))
    found = Content(log, "items").advance()
    with pytest.raises(InvalidArgument, match=r"there are 9223372036854775808 rows"):
        found.table()
    log.append("items", weighed(items(("pen", 1.0)), -1))
    with pytest.raises(ArithmeticOverflow):
        found.advance()
    assert found.lsn == 2


def test_copies_of_few_different_rows_are_put_together_when_one_is_taken(log: Log) -> None:
    log.append("items", items(*[("pen", 1.0), ("ink", 2.0)] * 500))
    found = Content(log, "items").advance()
    for _ in range(5):
        log.append("items", weighed(items(("pen", 1.0)), -1))
        found.advance()
    assert bag(found.table()) == {("pen", 1.0): 495, ("ink", 2.0): 500}


def test_a_refresh_replaces_all(log: Log) -> None:
    log.append("users", users((1, "ada"), (2, "bob")))
    log.refresh("users", users((2, "Bob"), (3, "eve")))
    log.append("users", users((4, "kim")))
    log.append("items", weighed(items(("pen", 1.0)), -1))
    log.refresh("items", items(("ink", 2.0), ("ink", 2.0)))
    assert names(content(log, "users")) == {2: "Bob", 3: "eve", 4: "kim"}
    assert names(content(log, "users", 2)) == {1: "ada", 2: "bob"}
    found = Content(log, "items").advance()
    assert (bag(found.table()), found.owed) == ({("ink", 2.0): 2}, 0)


def test_it_moves_forward_and_not_back_and_no_further_than_the_log(log: Log) -> None:
    log.append("users", users((1, "ada"), (2, "bob")))
    found = Content(log, "users")
    assert found.table().num_rows == 0
    assert found.table().schema == USERS
    assert found.advance(1).lsn == 1
    assert names(found.table()) == {1: "ada"}
    assert found.advance(99).lsn == 2
    with pytest.raises(InvalidArgument, match="as of LSN 2 already"):
        found.advance(1)
    with pytest.raises(InvalidArgument):
        found.advance(-1)
    assert repr(found) == "Content('users', 2 rows, LSN 2)"


def test_other_collections_play_no_part(log: Log) -> None:
    log.append("users", users((1, "ada")))
    log.append("items", items(("pen", 1.0)))
    found = Content(log, "users").advance()
    assert (found.lsn, len(found)) == (2, 1)
    with pytest.raises(InvalidArgument, match="there is no collection 'nothing'"):
        content(log, "nothing")


def test_a_table_once_given_stays_as_it_is(log: Log) -> None:
    log.append("users", users((1, "ada"), (2, "bob")))
    found = Content(log, "users").advance()
    before = found.table()
    assert found.table() is before
    log.append("users", told(users((1, None)), Op.DELETE))
    found.advance()
    assert names(before) == {1: "ada", 2: "bob"}
    assert names(found.table()) == {2: "bob"}


def test_readers_see_some_whole_moment_while_it_moves(tmp_path: Path) -> None:
    with make_log(tmp_path / "log") as log:
        log.add_collection("users", USERS, key=["id"])
        for name in range(30):
            log.append("users", users(*((i, str(name)) for i in range(50))))
        found, seen, wrong = Content(log, "users").advance(50), [0], []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                there = Counter(found.table().column("name").to_pylist())
                if len(there) != 1 or there.total() != 50:
                    wrong.append(there)
                seen[0] += 1

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for lsn in range(100, 1501, 50):
            found.advance(lsn)
        done.set()
        for reader in readers:
            reader.join()
        assert not wrong
        assert set(found.table().column("name").to_pylist()) == {"29"}


def trimmed(log: Log) -> int:
    """Make the log forget its oldest events; return the oldest that is left."""
    for _ in range(20):
        log.append("items", items(*[("filler", 1.0)] * 200))
    return log.trim(log.current_lsn)


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Log]:
    with Log.create(GrowingMemory(), LogOptions(fsync="never", segment_bytes=1 << 16)) as log:
        log.add_collection("users", USERS, key=["id"])
        log.add_collection("items", ITEMS)
        yield log


def test_without_its_beginning_a_content_cannot_be_told(short: Log) -> None:
    short.append("users", users((1, "ada")))
    oldest = trimmed(short)
    assert oldest > 1
    short.append("users", users((2, "bob")))
    with pytest.raises(CursorExpired) as caught:
        content(short, "users")
    assert caught.value.earliest == oldest


def test_with_a_refresh_that_is_kept_it_can(short: Log) -> None:
    short.append("users", users((1, "ada")))
    trimmed(short)
    short.append("users", users((5, "who knows what else")))
    before = short.current_lsn
    short.refresh("users", users((2, "bob")))
    short.append("users", users((3, "eve")))
    assert names(content(short, "users")) == {2: "bob", 3: "eve"}
    with pytest.raises(CursorExpired):
        content(short, "users", before)


def test_a_content_that_fell_behind_says_so_and_stays(short: Log) -> None:
    short.append("users", users((1, "ada")))
    found = Content(short, "users").advance()
    trimmed(short)
    with pytest.raises(CursorExpired):
        found.advance()
    assert (found.lsn, names(found.table())) == (1, {1: "ada"})


KEYED = ("insert", "upsert", "delete", "move", "refresh")


@pytest.fixture(params=["as it is", "small pieces", "colliding hashes"])
def internals(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sizes and hashes at which everything happens with few rows."""
    if request.param != "as it is":
        monkeypatch.setattr(content_rows, "_CHUNK_ROWS", 4)
        monkeypatch.setattr("penstock.log.content._STEP_ROWS", 3)
    if request.param == "colliding hashes":
        real = content_state.row_hashes
        monkeypatch.setattr(content_state, "row_hashes", lambda columns, n: real(columns, n) % 3)
    return str(request.param)


class Stage:
    """A log with one collection, its model, and a content that follows it."""

    def __init__(self, schema: pa.Schema, key: tuple[str, ...]) -> None:
        self.log = Log.create(GrowingMemory(), LogOptions(fsync="never"))
        self.log.add_collection("c", schema, key=key)
        self.content = Content(self.log, "c")
        self.schema = schema
        self.key = key
        self.model: Counter[tuple[Any, ...]] = Counter()

    def rows(self, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        return [tuple(identity(row[it.name], it.type) for it in self.schema) for row in batch.to_pylist()]

    def set_by_key(self, row: tuple[Any, ...], there: bool) -> None:
        width = len(self.key)
        for old in [it for it in self.model if it[:width] == row[:width]]:
            del self.model[old]
        if there:
            self.model[row] = 1

    def check(self, upto: int | None = None) -> None:
        expected = Counter({row: n for row, n in self.model.items() if n > 0})
        self.content.advance(upto)
        assert bag(self.content.table()) == expected
        assert len(self.content) == expected.total()


@settings(max_examples=35, deadline=None)
@given(data=st.data())
@pytest.mark.usefixtures("internals")
def test_by_key_it_is_what_a_dictionary_holds(data: st.DataObject) -> None:
    kind = data.draw(types(2))
    schema = pa.schema([("k", data.draw(st.sampled_from([pa.int64(), pa.string(), kind]))), ("v", kind)])
    stage = Stage(schema, ("k",))
    for _ in range(data.draw(st.integers(1, 6))):
        what = data.draw(st.sampled_from(KEYED))
        size = data.draw(st.integers(0, 6))
        batch = pa.RecordBatch.from_arrays([data.draw(arrays(it.type, size)) for it in schema], schema=schema)
        rows = stage.rows(batch)
        if what == "refresh":
            stage.log.refresh("c", batch)
            stage.model.clear()
            ops = [Op.INSERT] * size
        elif what == "move":
            size -= size % 2
            ops = [Op.UPDATE_BEFORE, Op.UPDATE_AFTER] * (size // 2)
            batch = batch.slice(0, size)
            stage.log.append("c", told(batch, *ops))
            moved = [rows[i][0] != rows[i + 1][0] for i in range(0, size, 2)]
            ops = [
                (Op.DELETE if moved[i // 2] else Op.UPDATE_BEFORE) if op is Op.UPDATE_BEFORE else op
                for i, op in enumerate(ops)
            ]
        else:
            one = {"insert": Op.INSERT, "upsert": Op.UPDATE_AFTER, "delete": Op.DELETE}[what]
            ops = [one] * size
            stage.log.append("c", told(batch, *ops))
        for row, op in zip(rows, ops, strict=False):
            if op is not Op.UPDATE_BEFORE:
                stage.set_by_key(row, op is not Op.DELETE)
        if data.draw(st.booleans()):
            stage.check()
    stage.check()
    assert bag(content(stage.log, "c")) == bag(stage.content.table())
    stage.log.close()


@settings(max_examples=35, deadline=None)
@given(data=st.data())
@pytest.mark.usefixtures("internals")
def test_without_a_key_it_is_what_a_counter_holds(data: st.DataObject) -> None:
    kind = data.draw(types(3))
    schema = pa.schema([("a", kind), ("b", pa.bool_())])
    stage = Stage(schema, ())
    pool = pa.RecordBatch.from_arrays([data.draw(arrays(it.type, 5)) for it in schema], schema=schema)
    for _ in range(data.draw(st.integers(1, 7))):
        picks = data.draw(st.lists(st.integers(0, 4), max_size=7))
        batch = pool.take(pa.array(picks, pa.int64()))
        if data.draw(st.integers(0, 6)) == 0:
            stage.log.refresh("c", batch)
            stage.model.clear()
            weights = [1] * len(picks)
        else:
            low = data.draw(st.sampled_from([1, -3]))
            some = st.lists(st.integers(low, 3), min_size=len(picks), max_size=len(picks))
            weights = data.draw(some)
            stage.log.append("c", weighed(batch, *weights))
        for row, weight in zip(stage.rows(batch), weights, strict=True):
            stage.model[row] += weight
        if data.draw(st.booleans()):
            stage.check()
    stage.check()
    assert stage.content.owed == -sum(n for n in stage.model.values() if n < 0)
    assert bag(content(stage.log, "c")) == bag(stage.content.table())
    stage.log.close()


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_however_it_is_cut_the_content_is_the_same(data: st.DataObject) -> None:
    with Log.create(GrowingMemory(), LogOptions(fsync="never")) as log:
        log.add_collection("users", USERS, key=["id"])
        rows = st.tuples(st.sampled_from(list(Op)), st.integers(0, 5), st.sampled_from(["a", "b"]))
        for op, i, name in data.draw(st.lists(rows, max_size=30)):
            if op is Op.UPDATE_BEFORE:
                log.emit("update", "users", before={"id": i, "name": "x"}, after={"id": i + 1, "name": name})
            else:
                log.append("users", changes_of(USERS, [(op, {"id": i, "name": name})]))
        found = Content(log, "users")
        for lsn in sorted(data.draw(st.sets(st.integers(0, log.current_lsn)))):
            found.advance(lsn)
            assert names(found.table()) == names(content(log, "users", lsn))


def test_a_row_that_is_replaced_again_and_again_does_not_make_itself_hard_to_find(log: Log) -> None:
    found = Content(log, "users")
    for i in range(300):
        log.append("users", users((1, str(i)), (2, str(i))))
        found.advance()
    state = found._now[1]
    assert isinstance(state, content_state.ByKey)
    entered = sum(len(run.hashes) for run in state._index._runs)
    assert entered <= 2 * len(state._index._runs)
    assert names(found.table()) == {1: "299", 2: "299"}


def test_rows_that_are_gone_are_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_rows, "_CHUNK_ROWS", 16)
    found = Content(log, "users")
    for i in range(100):
        log.append("users", users(*((k, str(i)) for k in range(10))))
        found.advance()
        state = found._now[1]
        assert state.rows.end <= 10 + 16 + 10
    assert set(names(found.table()).values()) == {"99"}


def test_groups_tell_rows_of_one_hash_apart() -> None:
    columns = [pa.array(["a", "b", "a", "c", "b", "a"])]
    found = content_index.groups(columns, np.zeros(6, np.uint64))
    by_group = np.split(found.order, found.starts[1:])
    assert sorted(sorted(it.tolist()) for it in by_group) == [[0, 2, 5], [1, 4], [3]]
    assert sorted(found.last().tolist()) == [3, 4, 5]
    assert sorted(found.first().tolist()) == [0, 1, 3]


def test_times_and_decimals_are_keys(log: Log) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(30, 3)), ("n", pa.int64())])
    log.add_collection("measured", schema, key=["at", "d"])
    when = dt.datetime(2024, 1, 31, tzinfo=dt.UTC)
    for n in range(3):
        log.append("measured", pa.RecordBatch.from_pylist([{"at": when, "d": 5, "n": n}], schema=schema))
    assert [row["n"] for row in content(log, "measured").to_pylist()] == [2]
