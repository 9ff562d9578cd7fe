"""Watching keys: every matching change once, in order, with its rows; what is dropped is counted."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.op import Op
from penstock.changes.record import ChangeOperation
from penstock.errors import Closed, CursorAhead, CursorExpired, InvalidArgument
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.log.watch import KeyEvent, KeyWatch
from tests.log.logs import changes_of, make_log

SCHEMA = pa.schema([("name", pa.string()), ("v", pa.int64())])
INSERT, BEFORE, AFTER, DELETE = Op


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with make_log(tmp_path / "log") as it:
        it.add_collection("users", SCHEMA, key=["name"])
        it.add_collection("other", SCHEMA, key=["name"])
        yield it


def row(name: str | None, v: int | None = 1) -> dict[str, Any]:
    return {"name": name, "v": v}


def all_there(watch: KeyWatch) -> list[KeyEvent]:
    """What can be had without waiting."""
    return list(iter(lambda: watch.next(timeout=0), None))


def told(event: KeyEvent) -> tuple[Any, ...]:
    return event.lsn, event.key, event.op.value, event.before, event.after


def test_each_change_of_a_key_comes_with_both_rows_its_lsn_and_its_time(log: Log) -> None:
    log.emit("insert", "users", after=row("ada"))
    log.emit("insert", "users", after=row("bob"))
    log.emit("update", "users", before=row("ada"), after=row("ada", 2))
    log.emit("delete", "users", before=row("ada", 2))
    events = all_there(log.watch("users", "ada", since=0))
    assert [told(it) for it in events] == [
        (1, "ada", "insert", None, row("ada")),
        (3, "ada", "update", row("ada"), row("ada", 2)),
        (4, "ada", "delete", row("ada", 2), None),
    ]
    committed = [it.committed for it in log.read("users")]
    assert [it.committed_at for it in events] == [committed[0], committed[2], committed[3]]
    assert {it.dropped for it in events} == {0}


def test_a_watch_begins_now_unless_it_is_told_otherwise(log: Log) -> None:
    log.emit("insert", "users", after=row("ada", 1))
    watch = log.watch("users", "ada")
    log.emit("insert", "users", after=row("ada", 2))
    assert [it.lsn for it in all_there(watch)] == [2]
    assert [it.lsn for it in all_there(log.watch("users", "ada", since=1))] == [2]
    assert [it.lsn for it in all_there(log.watch("users", "ada", since=0))] == [1, 2]


def test_a_prefix_finds_all_keys_that_begin_with_it(log: Log) -> None:
    names = ["a", "ab", "abc", "b", "", None, "a%c", "Ab"]
    log.append("users", pa.table({"name": names, "v": range(8)}, SCHEMA))

    def found(prefix: str) -> list[Any]:
        return [it.key for it in all_there(log.watch("users", prefix=prefix, since=0))]

    assert found("ab") == ["ab", "abc"]
    assert found("a%") == ["a%c"]
    assert found("") == ["a", "ab", "abc", "b", "", "a%c", "Ab"]
    assert [it.key for it in all_there(log.watch("users", since=0))] == names


def test_an_update_whose_old_row_is_unknown_has_none(log: Log) -> None:
    log.emit("update", "users", after=row("ada"))
    (event,) = all_there(log.watch("users", "ada", since=0))
    assert told(event) == (1, "ada", "update", None, row("ada"))


def test_a_row_that_gets_another_key_is_deleted_there_and_inserted_here(log: Log) -> None:
    log.append("users", changes_of(SCHEMA, [(BEFORE, row("ada")), (AFTER, row("bob", 2))]))
    gone, came = (1, "ada", "delete", row("ada"), None), (1, "bob", "insert", None, row("bob", 2))
    assert [told(it) for it in all_there(log.watch("users", "ada", since=0))] == [gone]
    assert [told(it) for it in all_there(log.watch("users", "bob", since=0))] == [came]
    assert [told(it) for it in all_there(log.watch("users", since=0))] == [gone, came]


def test_a_refresh_forgets_all_keys_and_then_inserts(log: Log) -> None:
    log.refresh("users", pa.table({"name": ["ada", "bob", "adam"], "v": [1, 2, 3]}, SCHEMA))
    log.refresh("users", pa.table({"name": [], "v": []}, SCHEMA))
    events = [told(it) for it in all_there(log.watch("users", prefix="ada", since=0))]
    assert events == [
        (1, None, "refresh", None, None),
        (1, "ada", "insert", None, row("ada", 1)),
        (1, "adam", "insert", None, row("adam", 3)),
        (2, None, "refresh", None, None),
    ]


def _fail_in_a_transaction(log: Log) -> None:
    with log.transaction() as t:
        t.emit("insert", "users", after=row("ada"))
        _ = 1 // 0


def test_what_a_transaction_did_appears_at_its_commit_and_nothing_of_one_rolled_back(log: Log) -> None:
    watch = log.watch("users", "ada")
    with log.transaction() as t:
        t.emit("insert", "users", after=row("ada"))
        t.emit("insert", "other", after=row("ada"))
        assert watch.next(timeout=0) is None
    event = watch.next(timeout=0)
    assert event is not None
    assert event.lsn == 1
    with pytest.raises(ZeroDivisionError):
        _fail_in_a_transaction(log)
    log.emit("insert", "users", after=row("bob"))
    assert watch.next(timeout=0) is None
    assert watch.cursor == 3


@pytest.mark.parametrize(
    ("kind", "value", "other", "alike"),
    [
        (pa.int64(), 7, 8, 7),
        (pa.int64(), 2**60, 2**60 + 1, 2**60),
        (pa.float64(), 0.0, 1.0, -0.0),
        (pa.float64(), float("nan"), 1.0, float("nan")),
        (pa.binary(), b"\xff", b"", b"\xff"),
        (pa.decimal128(9, 2), decimal.Decimal("1.50"), decimal.Decimal(1), decimal.Decimal("1.5")),
        (pa.date32(), dt.date(2026, 1, 2), dt.date(1970, 1, 1), dt.date(2026, 1, 2)),
        (pa.list_(pa.int8()), [1, None], [1], [1, None]),
    ],
    ids=str,
)
def test_a_key_of_any_type_is_compared_as_rows_are(
    tmp_path: Path, kind: pa.DataType, value: Any, other: Any, alike: Any
) -> None:
    with make_log(tmp_path) as log:
        schema = pa.schema([("k", kind)])
        log.add_collection("t", schema, key=["k"])
        log.append("t", pa.table({"k": pa.array([value, other, None], kind)}, schema))
        assert [it.lsn for it in all_there(log.watch("t", alike, since=0))] == [1]


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int64())])
    with make_log(tmp_path) as log:
        log.add_collection("t", schema, key=["a", "b"])
        log.append("t", pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "v": [1, 2, 3]}, schema))
        (event,) = all_there(log.watch("t", (1, "y"), since=0))
        assert (event.key, event.lsn) == ((1, "y"), 2)
        with pytest.raises(InvalidArgument, match="not a tuple of 2"):
            log.watch("t", 1)
        with pytest.raises(InvalidArgument, match="does not go with the key"):
            log.watch("t", prefix="x")


def test_a_watch_that_lags_drops_the_oldest_and_tells_how_many(log: Log) -> None:
    watch = log.watch("users", prefix="a", max_lag=3)
    for i in range(10):
        log.append("users", pa.table({"name": ["ada", "bob"], "v": [i, i]}, SCHEMA))
    first = watch.next(timeout=0)
    assert first is not None
    assert (first.after, first.dropped) == (row("ada", 7), 7), "only matching events count"
    log.append("users", pa.table({"name": ["ada"] * 2, "v": [10, 11]}, SCHEMA))
    rest = all_there(watch)
    assert [(it.after["v"], it.dropped) for it in rest if it.after] == [(9, 8), (10, 8), (11, 8)]
    assert watch.dropped == 8


def test_without_a_limit_nothing_is_dropped_however_far_the_reader_lags(log: Log) -> None:
    watch = log.watch("users", "ada", since=0)
    for i in range(50):
        log.append("users", pa.table({"name": ["ada"] * 1000, "v": [i] * 1000}, SCHEMA))
    events = all_there(watch)
    assert [it.lsn for it in events] == list(range(1, 50_001))
    assert watch.dropped == 0


def test_a_watch_goes_on_from_the_cursor_of_another(log: Log) -> None:
    moves = [(BEFORE, row("a1")), (AFTER, row("a2", 2))]
    log.append("users", changes_of(SCHEMA, [*moves, (INSERT, row("b")), (INSERT, row("a3")), *moves]))
    log.append("other", pa.table({"name": ["a"] * 3, "v": [1] * 3}, SCHEMA))
    whole = [told(it) for it in all_there(log.watch("users", prefix="a", since=0))]
    for taken in range(len(whole) + 1):
        first = log.watch("users", prefix="a", since=0)
        begun = [told(it) for it in itertools.islice(first, taken)]
        rest = [told(it) for it in all_there(log.watch("users", prefix="a", since=first.cursor))]
        assert [it for it in begun if it[0] <= first.cursor] + rest == whole
    assert first.next(timeout=0) is None
    assert first.cursor == log.current_lsn


def test_an_expired_cursor_is_told_when_the_watch_begins_and_when_retention_overtakes_it(
    tmp_path: Path,
) -> None:
    with make_log(tmp_path, LogOptions(fsync="never", segment_bytes=4096)) as log:
        log.add_collection("users", SCHEMA, key=["name"])
        watch = log.watch("users", "ada", since=0)
        for i in range(40):
            log.append("users", pa.table({"name": ["ada"] * 50, "v": [i] * 50}, SCHEMA))
        oldest = log.trim(1000)
        assert oldest > 1
        with pytest.raises(CursorExpired) as expired:
            watch.next(timeout=0)
        assert expired.value.earliest == oldest
        with pytest.raises(CursorExpired):
            log.watch("users", "ada", since=oldest - 2)
        event = log.watch("users", "ada", since=oldest - 1).next(timeout=0)
        assert event is not None
        assert event.lsn == oldest


def test_what_cannot_be_watched_is_refused(log: Log) -> None:
    log.add_collection("bag", SCHEMA)
    log.add_collection("numbers", pa.schema([("n", pa.int64())]), key=["n"])
    for watch, what in (
        (lambda: log.watch("users", "a", prefix="a"), "both the key"),
        (lambda: log.watch("users", 7), "cannot be one"),
        (lambda: log.watch("users", "a", max_lag=0), "max_lag is 0"),
        (lambda: log.watch("bag", "a"), "has no key"),
        (lambda: log.watch("numbers", prefix="1"), "does not go with the key"),
        (lambda: log.watch("users", prefix=7), "does not go with the key"),  # type: ignore[arg-type]
        (lambda: log.watch("nothing", "a"), "no collection"),
        (lambda: log.watch("users", "a", since=-1), "not a cursor"),
    ):
        with pytest.raises(InvalidArgument, match=what):
            watch()
    with pytest.raises(CursorAhead):
        log.watch("users", "a", since=1)


def test_an_event_as_json_has_integers_as_integers(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("big", pa.int64()),
            ("price", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", tz="UTC")),
            ("raw", pa.binary()),
            ("f", pa.list_(pa.float64())),
            ("s", pa.struct([("d", pa.date32())])),
        ]
    )
    with make_log(tmp_path) as log:
        log.add_collection("t", schema, key=["k"])
        after = {
            "k": "x",
            "big": 2**53 + 1,
            "price": decimal.Decimal("1.50"),
            "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC),
            "raw": b"\x00\xff",
            "f": [1.5, float("nan"), float("-inf")],
            "s": {"d": dt.date(2026, 1, 2)},
        }
        log.emit("insert", "t", after=after)
        (event,) = all_there(log.watch("t", since=0))
        frame = next(log.read("t"))
        assert json.loads(json.dumps(event.to_json(), allow_nan=False)) == {
            "key": "x",
            "op": "insert",
            "before": None,
            "after": {
                "k": "x",
                "big": 9007199254740993,
                "price": "1.50",
                "at": "2026-01-02T03:04:05.000006+00:00",
                "raw": "00ff",
                "f": [1.5, "NaN", "-Infinity"],
                "s": {"d": "2026-01-02"},
            },
            "lsn": 1,
            "committed_at": int(frame.committed.timestamp() * 1000),
            "dropped_event_count": 0,
        }


def in_thread(act: Callable[[], Any]) -> Callable[[], Any]:
    """Begin to do it in another thread; what is returned waits for the outcome."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(act()))
    thread.start()

    def result() -> Any:
        thread.join(30)
        assert not thread.is_alive(), "it waits for ever"
        return outcome[0]

    return result


@pytest.fixture(params=["writer", "reader"])
def watched(request: pytest.FixtureRequest, log: Log, tmp_path: Path) -> Any:
    """The log of the one who writes, or another's view of its files."""
    if request.param == "writer":
        yield log
    else:
        with Log.open(tmp_path / "log", "read") as it:
            yield it


def test_an_event_ends_the_wait_for_it(log: Log, watched: Log) -> None:
    watch = watched.watch("users", "ada")
    event = in_thread(watch.next)
    log.emit("insert", "other", after=row("ada"))
    log.emit("insert", "users", after=row("bob"))
    log.emit("insert", "users", after=row("ada"))
    assert event().lsn == 3


def test_a_wait_ends_when_its_time_is_over(watched: Log) -> None:
    watch = watched.watch("users", "ada")
    assert watch.next(timeout=0) is None
    assert watch.next(timeout=0.01) is None


def test_closing_from_another_thread_ends_a_waiting_watch(watched: Log) -> None:
    watches = [watched.watch("users", name) for name in ("ada", "bob", "eve")]
    waiting = [in_thread(lambda watch=watch: list(watch)) for watch in watches]
    for watch, ended in reversed(list(zip(watches, waiting, strict=True))):
        watch.close()
        assert ended() == []
        assert watch.closed
        watch.close()
        assert watch.next() is None


def test_a_closed_watch_gives_nothing_more(log: Log) -> None:
    log.emit("insert", "users", after=row("ada"))
    with log.watch("users", "ada", since=0) as watch:
        pass
    assert list(watch) == []


def test_closing_the_log_ends_a_waiting_watch_with_an_error(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.add_collection("users", SCHEMA, key=["name"])
    watch = log.watch("users", "ada")

    def wait() -> str:
        with pytest.raises(Closed):
            watch.next()
        return "told"

    ended = in_thread(wait)
    log.close()
    assert ended() == "told"


NAMES = st.sampled_from(["a", "aa", "ab", "b", None])


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Appends, refreshes, and how many events are taken in between."""
    event = st.tuples(st.sampled_from(["insert", "update", "upsert", "delete"]), NAMES, NAMES)
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("append"), st.lists(event, min_size=1, max_size=5)),
                st.tuples(st.just("refresh"), st.lists(NAMES, max_size=3)),
                st.tuples(st.just("other"), st.integers(1, 3)),
                st.tuples(st.just("take"), st.integers(1, 6)),
            ),
            max_size=25,
        )
    )


class Model:
    """All events of all keys as they are to be told, in a list."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.events: list[tuple[Any, ...]] = []
        self.number = 0

    def row(self, name: str | None) -> dict[str, Any]:
        self.number += 1
        return row(name, self.number)

    def append(self, events: list[tuple[str, str | None, str | None]]) -> None:
        batch = []
        for lsn, (kind, name, other) in enumerate(events, self.log.current_lsn + 1):
            old, new = self.row(name), self.row(other if kind == "update" else name)
            if kind == "update" and name == other:
                self.events.append((lsn, name, "update", old, new))
            elif kind == "update":
                self.events += [(lsn, name, "delete", old, None), (lsn, other, "insert", None, new)]
            else:
                sides = (old, None) if kind == "delete" else (None, new)
                self.events.append((lsn, name, {"upsert": "update"}.get(kind, kind), *sides))
            batch += {
                "insert": [(INSERT, new)],
                "update": [(BEFORE, old), (AFTER, new)],
                "upsert": [(AFTER, new)],
                "delete": [(DELETE, old)],
            }[kind]
        self.log.append("users", changes_of(SCHEMA, batch))

    def refresh(self, names: list[str | None]) -> None:
        rows = [self.row(name) for name in names]
        lsn = self.log.refresh("users", pa.Table.from_pylist(rows, SCHEMA)).last
        self.events.append((lsn, None, "refresh", None, None))
        self.events += [(lsn, it["name"], "insert", None, it) for it in rows]

    def matching(self, key: str | None, prefix: str | None) -> list[tuple[Any, ...]]:
        def matches(event: tuple[Any, ...]) -> bool:
            if event[2] == ChangeOperation.REFRESH or (key is None and prefix is None):
                return True
            if prefix is None:
                return event[1] == key
            return event[1] is not None and event[1].startswith(prefix)  # NULL begins with nothing, not ""

        return [event for event in self.events if matches(event)]


@settings(deadline=None, max_examples=150)
@given(
    steps(),
    st.one_of(
        st.tuples(st.just("a"), st.none()),
        st.tuples(st.none(), st.sampled_from(["a", "ab", ""])),
        st.tuples(st.none(), st.none()),
    ),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_a_watch_gives_what_a_list_of_all_events_gives(
    script: list[tuple[str, Any]], meant: tuple[str | None, str | None], max_lag: int | None
) -> None:
    key, prefix = meant
    with tempfile.TemporaryDirectory() as folder, make_log(Path(folder)) as log:
        log.add_collection("users", SCHEMA, key=["name"])
        log.add_collection("other", SCHEMA, key=["name"])
        watch, model = log.watch("users", key, prefix=prefix, max_lag=max_lag), Model(log)
        seen = dropped = 0
        for act, argument in [*script, ("take", 1000)]:
            match act:
                case "append":
                    model.append(argument)
                case "refresh":
                    model.refresh(argument)
                case "other":
                    log.append("other", pa.table({"name": ["a"] * argument, "v": [0] * argument}, SCHEMA))
                case "take":
                    for _ in range(argument):
                        expected = model.matching(key, prefix)
                        if max_lag is not None:
                            too_many = max(len(expected) - seen - max_lag, 0)
                            seen, dropped = seen + too_many, dropped + too_many
                        event = watch.next(timeout=0)
                        if event is None:
                            assert seen == len(expected)
                            break
                        assert (told(event), event.dropped) == (expected[seen], dropped)
                        seen += 1
        assert watch.dropped == dropped
        assert watch.cursor == log.current_lsn
