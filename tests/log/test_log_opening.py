"""Making a log, opening it, closing it, and what is refused on the way."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import (
    AlreadyExists,
    Closed,
    CursorExpired,
    DamagedBytes,
    Fenced,
    FileChanged,
    InvalidArgument,
    NotFound,
    ReservedName,
    Unsupported,
)
from penstock.log import Log, LogOptions
from penstock.store import LocalStore, MemoryStore
from tests.log.growing_memory import GrowingMemory
from tests.log.log_model import ManualClock
from tests.log.logs import FAST, make_log, open_log

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ONE = pa.record_batch({"id": [1], "name": ["ada"]}, schema=SCHEMA)


def fill(log: Log, segments: int = 0, batch: pa.RecordBatch = ONE) -> None:
    """So many full segments, and one begun that has an event."""
    log.add_collection("users", SCHEMA)
    while log.stats().segments <= segments:
        log.append("users", batch)
    log.append("users", batch)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The folder of a log with three full segments and one begun."""
    with make_log(tmp_path / "log", LogOptions(fsync="never", segment_bytes=4096)) as log:
        fill(log, 3)
    return tmp_path / "log"


def segments_of(folder: Path) -> list[Path]:
    return sorted((folder / "segments").iterdir())


def test_a_log_is_made_once(tmp_path: Path) -> None:
    make_log(tmp_path).close()
    with pytest.raises(AlreadyExists, match="there is a log already"):
        make_log(tmp_path)
    with open_log(tmp_path) as log:
        assert (log.current_lsn, log.oldest_lsn, log.term, log.collections) == (0, 1, 1, ())


def test_opening_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    for mode in ("read", "write"):
        with pytest.raises(NotFound, match="there is no log") as raised:
            Log.open(tmp_path / "log", mode)  # type: ignore[call-overload]
        assert "Log.create" in raised.value.hint
    assert not (tmp_path / "log").exists()


def test_a_log_that_lost_its_meta_is_not_overwritten(small: Path) -> None:
    (small / "meta.json").unlink()
    with pytest.raises(AlreadyExists, match=r"no meta\.json: a log that lost it"):
        Log.create(small)
    assert len(segments_of(small)) == 4


def test_what_somebody_left_who_died_while_making_a_log_is_in_nobodys_way(tmp_path: Path) -> None:
    make_log(tmp_path).close()
    (tmp_path / "meta.json").unlink()
    with make_log(tmp_path) as log:
        fill(log)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"log_id": b"short"}, "log_id is not of 16 bytes"),
        ({"first_lsn": 0}, "first_lsn is 0"),
        ({"first_lsn": 2**63}, "first_lsn is 9223372036854775808"),
    ],
)
def test_what_no_log_can_be_is_refused(options: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=what):
        Log.create(tmp_path, **options)
    make_log(tmp_path).close()  # and the place is free


def test_a_log_may_begin_at_any_lsn(tmp_path: Path) -> None:
    with Log.create(tmp_path, FAST, first_lsn=1000, log_id=bytes(16)) as log:
        assert (log.id, log.current_lsn, log.oldest_lsn) == ("00" * 16, 999, 1000)
        log.add_collection("users", SCHEMA)
        assert log.append("users", ONE).first == 1000
        with pytest.raises(CursorExpired) as expired:
            log.poll(0)
        assert expired.value.earliest == 1000
        assert log.trim(1000) == 1000
    with open_log(tmp_path) as log:
        assert log.poll(999).cursor == 1000


def test_only_a_folder_holds_a_log_that_grows_but_any_store_one_that_is_read(small: Path) -> None:
    with pytest.raises(Unsupported, match="blobs there cannot grow"):
        Log.create("memory://")
    copy = MemoryStore()
    source = LocalStore(small)
    for blob in source.list():
        copy.put(blob.name, source.get(blob.name))
    with Log.open(copy, "read") as log, Log.open(source, "read") as other:
        assert [it.rows for it in log.read()] == [it.rows for it in other.read()]
        assert log.wait(log.current_lsn, 0.001) == log.current_lsn
    with pytest.raises(Unsupported, match="blobs there cannot grow"):
        Log.open(copy)


def test_there_are_two_ways_to_open(small: Path) -> None:
    with pytest.raises(InvalidArgument, match="mode is 'append'"):
        Log.open(small, "append")  # type: ignore[call-overload]
    with Log.open(small, "read") as log:
        assert repr(log).endswith("log', reading)")
        for act in (
            lambda: log.append("users", ONE),
            lambda: log.add_collection("more", SCHEMA),
            lambda: log.transaction(),
            log.sync,
            log.retain,
            lambda: log.trim(1),
            lambda: log.promote(7),
        ):
            with pytest.raises(Unsupported, match="opened to read"):
                act()
    with open_log(small) as log:
        assert repr(log).endswith("writing)")
    assert repr(log).endswith("closed)")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"fsync": "sometimes"}, "fsync is 'sometimes'"),
        ({"interval": timedelta(0)}, "interval is 0:00:00"),
        ({"segment_bytes": 4095}, "segment_bytes is 4095"),
        ({"ring_bytes": -1}, "ring_bytes is -1"),
        ({"retain_bytes": -1}, "retain_bytes is -1"),
        ({"retain_age": timedelta(seconds=-1)}, "retain_age is -1 day"),
        ({"retain_events": -1}, "retain_events is -1"),
    ],
)
def test_options_that_can_never_be_right_are_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        LogOptions(**options)


def test_a_closed_log_does_nothing_more_but_what_it_gave_stays(small: Path) -> None:
    for mode in ("read", "write"):
        log = Log.open(small, mode, FAST)  # type: ignore[call-overload]
        (polled,) = log.poll(1, 1)
        transaction = log.transaction() if mode == "write" else None
        log.close()
        log.close()
        assert polled.data.to_pylist() == [{"id": 1, "name": "ada"}]
        for act in (lambda: log.poll(0), lambda: list(log.read()), lambda: log.wait(99_999)):  # noqa: B023
            with pytest.raises(Closed):
                act()
        if transaction is not None:
            transaction.append("users", ONE)
            with pytest.raises(Closed):
                transaction.commit()
            for act in (lambda: log.append("users", ONE), log.sync, log.transaction):  # noqa: B023
                with pytest.raises(Closed):
                    act()


def test_closing_leaves_nothing_to_recover(small: Path) -> None:
    before = {it: it.read_bytes() for it in segments_of(small)}
    for _ in range(2):
        with open_log(small) as log:
            assert log.recovered is None
    assert {it: it.read_bytes() for it in segments_of(small)} == before, "opening and closing writes nothing"


def test_a_collection_is_added_once_and_stays_what_it_is(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        users = log.add_collection("users", SCHEMA, ["id"])
        assert log.add_collection("users", SCHEMA, ("id",)) == users
        for schema, key in ((SCHEMA, []), (SCHEMA, ["name"]), (SCHEMA.remove(1), ["id"])):
            with pytest.raises(AlreadyExists, match="another schema or key"):
                log.add_collection("users", schema, key)
    with open_log(tmp_path) as log:
        assert log.collections == (users,)
        assert log.collection("users").schema.equals(SCHEMA)
        with pytest.raises(InvalidArgument, match="there is no collection 'orders'") as raised:
            log.collection("orders")
        assert "'users'" in raised.value.hint


def test_a_reader_learns_of_collections_that_are_added_while_it_reads(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, Log.open(tmp_path, "read") as reader:
        with pytest.raises(InvalidArgument, match=r"there is no collection 'users'.*\(none yet\)"):
            reader.collection("users")
        fill(log)
        assert [it.name for it in reader.collections] == ["users"]
        assert {it.collection.name for it in reader.read()} == {"users"}


@pytest.mark.parametrize(
    ("name", "schema", "key", "what"),
    [
        ("", SCHEMA, [], "'' is not a name"),
        (" users", SCHEMA, [], "' users' is not a name"),
        ("u" * 201, SCHEMA, [], "is not a name"),
        ("users", pa.schema([]), [], "it has no column"),
        ("users", SCHEMA, ["email"], "the key column 'email' is not a column"),
        ("users", SCHEMA, ["id", "id"], "a key column is named twice"),
        ("users", pa.schema([("a", pa.int8()), ("a", pa.int8())]), [], "more than once"),
    ],
)
def test_what_no_collection_can_be_is_refused(
    name: str, schema: pa.Schema, key: list[str], what: str, tmp_path: Path
) -> None:
    with make_log(tmp_path) as log:
        with pytest.raises(InvalidArgument, match=what):
            log.add_collection(name, schema, key)
        assert log.collections == ()


def test_a_column_of_penstocks_own_is_refused(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, pytest.raises(ReservedName, match="'_lsn'"):
        log.add_collection("users", SCHEMA.append(pa.field("_lsn", pa.int64())))


def test_a_dictionary_column_is_kept_as_its_values_and_not_taken_inside_another(tmp_path: Path) -> None:
    encoded = pa.array(["a", "b", None, "a"]).dictionary_encode()
    with make_log(tmp_path) as log:
        made = log.add_collection("d", pa.schema([("x", encoded.type)]))
        assert made.schema.field("x").type == pa.string()
        log.append("d", pa.record_batch({"x": encoded}))
        log.append(
            "d", pa.table({"x": pa.chunked_array([encoded, encoded.dictionary_decode().dictionary_encode()])})
        )
        assert [it for some in log.read() for it in some.data.column(0).to_pylist()] == [
            "a",
            "b",
            None,
            "a",
        ] * 3
        with pytest.raises(Unsupported, match="holds a dictionary inside"):
            log.add_collection("e", pa.schema([("x", pa.list_(encoded.type))]))


def test_two_definitions_with_one_checksum_get_numbers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.log.meta._number", lambda *_: 2**32 - 1)
    with make_log(tmp_path) as log:
        numbers = [log.add_collection(name, SCHEMA).id for name in ("a", "b", "c")]
        for name in ("c", "a", "b"):
            log.append(name, ONE)
        assert [it.collection.name for it in log.read()] == ["c", "a", "b"]
    assert numbers == [2**32 - 1, 1, 2]


def test_a_term_only_grows_and_lasts(tmp_path: Path) -> None:
    with make_log(tmp_path) as log:
        fill(log)
        log.promote(3)
        for term in (3, 2, 1):
            with pytest.raises(Fenced, match=f"the term {term} is not above 3"):
                log.promote(term)
        for term in (0, -1, 2**32, True, 1.5):
            with pytest.raises(InvalidArgument, match="is not a term"):
                log.promote(term)  # type: ignore[arg-type]
        log.append("users", ONE)
        assert [it.frame.term for it in log.frames(0, log.current_lsn)][-2:] == [1, 3]
    with Log.open(tmp_path, "read") as log:
        assert log.term == log.stats().term == 3


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_log_without_segments_says_so(mode: Any, small: Path) -> None:
    shutil.rmtree(small / "segments")
    with pytest.raises(NotFound, match="the log has no segment"):
        Log.open(small, mode)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_missing_segment_is_told_and_never_jumped(mode: Any, small: Path) -> None:
    first, second, *_, last = segments_of(small)
    kept = first.read_bytes()
    first.unlink()
    with pytest.raises(DamagedBytes, match="the segment with LSN 1 is missing"):
        Log.open(small, mode)
    first.write_bytes(kept)
    second.unlink()
    if mode == "write":
        what = f"the segment from LSN 1 leads to {int(second.stem)}, but the next begins at"
        with pytest.raises(DamagedBytes, match=what):
            Log.open(small, mode)
        return
    with (
        Log.open(small, mode) as log,
        pytest.raises(DamagedBytes, match=f"LSN {int(second.stem)} is missing"),
    ):
        list(log.read())
    last.unlink()  # nobody can tell that it was there: its seal says where the next one is to begin
    with Log.open(small, mode) as log:
        assert log.current_lsn == int(last.stem) - 1


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_file_that_is_no_segment_is_told(mode: Any, small: Path) -> None:
    (small / "segments" / "notes.txt").write_text("mine")
    with pytest.raises(DamagedBytes, match="this is not the name of a segment"):
        Log.open(small, mode)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_segment_of_another_place_or_log_is_told(mode: Any, small: Path, tmp_path: Path) -> None:
    segments = segments_of(small)
    last = segments[-1]
    kept = last.read_bytes()
    last.write_bytes(segments[0].read_bytes())
    with pytest.raises(DamagedBytes, match="the head says that it begins at LSN 1"):
        Log.open(small, mode)
    last.write_bytes(kept)
    with make_log(tmp_path / "other") as other:
        other_first = segments_of(tmp_path / "other")[0]
        fill(other)
    segments[0].write_bytes(other_first.read_bytes())
    with pytest.raises(DamagedBytes, match="belongs to another log"), Log.open(small, mode) as log:
        log.poll(0)


def test_a_segment_that_is_not_sealed_and_has_another_after_it_is_told(small: Path) -> None:
    middle = segments_of(small)[1]
    kept = middle.read_bytes()
    for end in (-64, -128, -1, 64 - len(kept), 0 - len(kept)):
        middle.write_bytes(kept[:end] if end else b"")
        with pytest.raises(DamagedBytes):
            open_log(small)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_meta_from_an_older_copy_never_gives_rows_another_meaning(mode: Any, tmp_path: Path) -> None:
    """Frames name their collection by a checksum of its definition."""
    with make_log(tmp_path) as log:
        fill(log)
        older = (tmp_path / "meta.json").read_bytes()
        log.add_collection("other", SCHEMA.append(pa.field("more", pa.int8())))
        log.append("other", pa.record_batch({"id": [1], "name": ["x"], "more": pa.array([1], pa.int8())}))
    (tmp_path / "meta.json").write_bytes(older)
    with (
        pytest.raises(DamagedBytes, match=r"numbered \d+, of which meta\.json knows nothing") as raised,
        Log.open(tmp_path, mode) as log,
    ):
        list(log.read())
    assert raised.value.subject == f"segments/{1:020d}.segment"


def test_a_reader_is_told_when_another_log_takes_the_place_of_its_own(tmp_path: Path) -> None:
    with make_log(tmp_path / "a") as log:
        fill(log)
    reader = Log.open(tmp_path / "a", "read")
    shutil.rmtree(tmp_path / "a")
    with make_log(tmp_path / "a") as log:
        fill(log)
    with pytest.raises(FileChanged, match=r"another log .* has taken the place"):
        reader.reload_meta()
    reader.close()


def test_a_damaged_index_is_told_and_made_anew(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = sorted((small / "index").iterdir())[0]
    kept = index.read_bytes()
    index.write_bytes(kept[:-1] + b"?")
    with caplog.at_level(logging.WARNING), open_log(small) as log:
        log.poll(0, 1)
    assert "is not that of its segment, and is not used" in caplog.text
    assert index.read_bytes() == kept


def test_the_index_of_another_logs_segment_is_not_used(small: Path, tmp_path: Path) -> None:
    """Of the same LSNs and the same size, but with other rows in it."""
    with make_log(tmp_path / "other", LogOptions(fsync="never", segment_bytes=4096)) as other:
        fill(other, 3, pa.record_batch({"id": [2], "name": ["bob"]}, schema=SCHEMA))
    index = sorted((small / "index").iterdir())[0]
    index.write_bytes((tmp_path / "other" / "index" / index.name).read_bytes())
    with Log.open(small, "read") as log:
        assert sum(len(it) for it in log.read()) == log.current_lsn


def test_a_sealed_segment_whose_follower_was_never_begun_is_gone_on_from(small: Path) -> None:
    """As a crash between the seal and the next segment leaves it."""
    segments_of(small)[-1].unlink()
    with Log.open(LocalStore(small), "read") as reader:
        end = reader.current_lsn
        with open_log(small) as log:
            assert log.recovered is None
            assert log.current_lsn == end
            assert log.append("users", ONE).first == end + 1
            assert reader.current_lsn == end + 1


def test_opening_tells_of_a_torn_end_and_keeps_it_aside(small: Path) -> None:
    last = segments_of(small)[-1]
    with last.open("ab") as file:
        file.write(b"what was not finished")
    clock = ManualClock(123_456)
    with Log.open(LocalStore(small), options=FAST, clock=clock) as log:
        assert log.recovered is not None
        assert log.recovered.torn_bytes == 21
        assert (small / log.recovered.kept_as).read_bytes() == b"what was not finished"
        assert log.recovered.kept_as == f"torn/{last.stem}.{last.stat().st_size}.123456"
    with open_log(small) as log:
        assert log.recovered is None


def test_stats_tell_how_much_there_is(small: Path) -> None:
    with open_log(small) as log:
        stats = log.stats()
        assert (stats.segments, stats.collections, stats.term, stats.oldest_lsn) == (4, 1, 1, 1)
        assert stats.current_lsn == log.current_lsn
        assert stats.bytes == sum(it.stat().st_size for it in segments_of(small))


def test_what_is_not_known_in_the_meta_stays_in_it(tmp_path: Path) -> None:
    """A later version may keep more there; writing by this one does not lose it."""
    store = GrowingMemory()
    with Log.create(store, FAST) as log:
        fill(log)
        log._appending.change_meta(lambda meta, _: replace(meta, extra={"later": [1, {"x": None}]}))
        log.promote(2)
    with Log.open(store, "read") as log:
        assert log.meta.extra == {"later": [1, {"x": None}]}
