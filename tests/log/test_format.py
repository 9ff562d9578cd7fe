"""The format stands: logs of this version stay readable, by Penstock and by whoever reads docs/FORMAT.md."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import DamagedBytes, Unsupported
from penstock.log import Log, LogFrames, Shipment, WatchedFile
from penstock.log.format import crc32c
from penstock.log.segment import Segment
from penstock.store.local import LocalStore
from tests.log import format_reader as page
from tests.log.golden import FOLDER, LOGS, files_of, line_of, lines_of, users, write_shipment
from tests.log.growing_memory import GrowingMemory
from tests.log.logs import open_log

LAST = "segments/00000000000000000043.segment"
named = pytest.mark.parametrize("name", sorted(LOGS))


def expected(name: str) -> list[str]:
    return (FOLDER / f"{name}.events").read_text().splitlines()


def lines_by_the_page(folder: Path) -> list[str]:
    _, transactions = page.read_log(folder)
    return [
        line_of(it.lsn, it.collection, it.refresh, it.committed, it is transaction[-1], touched(it), it.rows)
        for transaction in transactions
        for it in transaction
    ]


def touched(event: page.Event) -> list[str] | None:
    """The columns an update touched: as told, else as its rows differ."""
    if event.changed is None and len(event.rows) == 2 and not event.refresh:
        (_, old, _, _), (_, new, _, _) = event.rows
        return [name for name in old if old[name] != new[name]]
    return event.changed


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(FOLDER / name, tmp_path / "copy"))


@named
def test_a_log_of_this_format_reads_as_when_it_was_written(name: str) -> None:
    with Log.open(LocalStore(FOLDER / name, fsync=False), "read") as log:
        assert lines_of(log) == expected(name)


@named
def test_a_reader_written_from_the_page_reads_the_same(name: str) -> None:
    assert lines_by_the_page(FOLDER / name) == expected(name)


@named
def test_the_same_steps_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    LOGS[name](tmp_path)
    assert files_of(tmp_path) == files_of(FOLDER / name)


@named
def test_a_log_of_this_format_is_written_on(name: str, copy: Callable[[str], Path]) -> None:
    folder = copy(name)
    with open_log(folder) as log:
        log.append("users", users((9, "ida", 9.0)))
        assert (log.recovered is not None) == (name == "torn")
        lines = lines_of(log)
    assert lines[:-1] == expected(name)
    assert "'ida'" in lines[-1]
    assert len(lines_by_the_page(folder)) == len(lines)


def test_what_a_log_is_is_in_its_meta() -> None:
    meta = page.read_meta((FOLDER / "everything" / "meta.json").read_bytes())
    with Log.open(FOLDER / "everything", "read") as log:
        assert (log.id, log.term, log.oldest_lsn) == (meta["log_id"], meta["term"], meta["oldest_lsn"])
        for it, (number, told) in zip(log.collections, page.collections_of(meta).items(), strict=True):
            assert (it.id, it.name, list(it.key)) == (number, told.name, told.key)
            assert it.schema.equals(told.schema, check_metadata=True)
        users = log.collection("users").id
        kept = [
            [it.low, it.high - 1, list(it.parents), it.from_lsn, it.until_lsn]
            for it in (log.ranges("users", at=0) + log.ranges("users", at=13) + log.ranges("users"))
        ]
    assert kept == meta["extra"]["ranges"][str(users)]


def test_an_index_holds_what_the_page_says() -> None:
    store = LocalStore(FOLDER / "everything")
    log_id = bytes(range(16))
    for path in sorted((FOLDER / "everything" / "index").iterdir()):
        first = int(path.stem)
        data = (FOLDER / "everything" / "segments" / f"{first:020d}.segment").read_bytes()
        by_the_page = page.read_index(FOLDER / "everything", first)
        walked = [it for it in page.frames_of(data, crc32c(data[12:64])) if it.events]
        assert [it for it, _ in by_the_page] == [it.offset for it in walked]
        assert all(data[at : at + 64] == header for at, header in by_the_page)
        segment = Segment.sealed_one(store, first, log_id)
        assert segment.offsets.tolist() == [it for it, _ in by_the_page]


def test_a_shipment_holds_what_the_page_says() -> None:
    data = (FOLDER / "everything.shipment").read_bytes()
    assert write_shipment(FOLDER / "everything") == data
    by_the_page, shipment = page.read_shipment(data), Shipment.decode(data)
    assert (by_the_page.since, by_the_page.current_lsn) == (shipment.since, shipment.current_lsn)
    assert by_the_page.meta["term"] == shipment.term
    assert shipment.before is not None
    assert shipment.before.digest is not None
    before = (shipment.before.first_lsn, shipment.before.last_lsn, shipment.before.digest())
    assert by_the_page.before == before
    for record, transaction in zip(shipment.records, by_the_page.transactions, strict=True):
        assert record.place.digest is not None
        assert page.digest_of(transaction) == record.place.digest()
        assert [it.to_pybytes() for it in record.bodies] == [it.body for it in transaction]


def test_the_row_emitter_sees_the_frames_that_the_page_tells_of() -> None:
    with WatchedFile(FOLDER / "everything" / LAST) as file:
        frames = LogFrames.of(file)
        rows = [it.item(i) for it in frames.read(file, frames.start, file.size) for i in range(len(it))]
        data = bytes(file.read(0, file.size))
    whole = list(page.frames_of(data, crc32c(data[12:64])))
    assert [bytes(row) for row in rows] == [data[it.offset : it.end] for it in whole]
    assert [it.kind for it in whole][-1] == 3  # a mark, as it was closed


@pytest.mark.parametrize("name", ["everything", "torn"])
def test_torn_and_damaged_are_told_apart_as_the_page_says(name: str, tmp_path: Path) -> None:
    """Both readers, on the last segment with each of many bytes flipped, and cut at each of many places."""
    blobs = files_of(FOLDER / name)
    last = max(it for it in blobs if it.startswith("segments/"))
    data = blobs[last]
    changed = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(64, len(data), 7)]
    changed += [data[:size] for size in range(64, len(data), 29)]
    folder = Path(shutil.copytree(FOLDER / name, tmp_path / name))
    outcomes = set()
    for content in changed:
        (folder / last).write_bytes(content)
        by_the_page: object
        try:
            by_the_page = len([it for transaction in page.read_log(folder)[1] for it in transaction])
        except page.Damaged:
            by_the_page = "damaged"
        found: object
        try:
            with Log.open(GrowingMemory(blobs | {last: content}), "read") as log:
                found = sum(len(it) for it in log.read())
        except DamagedBytes:
            found = "damaged"
        assert found == by_the_page
        outcomes.add(found)
    assert len(outcomes) > 2
    assert ("damaged" in outcomes) == (name == "everything")


def with_crc(data: bytes, place: int, start: int, stop: int, before: bytes = b"") -> bytes:
    crc = crc32c(before + data[start:stop])
    return data[:place] + crc.to_bytes(4, "little") + data[place + 4 :]


def later_head(blobs: dict[str, bytes]) -> None:
    data = blobs[LAST]
    blobs[LAST] = with_crc(data[:12] + (2).to_bytes(4, "little") + data[16:], 8, 12, 64)


def later_meta(blobs: dict[str, bytes]) -> None:
    text = blobs["meta.json"][31:-2].replace(b'"format": 1', b'"format": 2')
    blobs["meta.json"] = b'{"crc32c": "%08x", "meta": ' % crc32c(text) + text + b"}\n"


def later_frame(place: int, value: int) -> Callable[[dict[str, bytes]], None]:
    def change(blobs: dict[str, bytes]) -> None:
        data = blobs[LAST]
        changed = data[: 64 + place] + bytes([value]) + data[64 + place + 1 :]
        blobs[LAST] = with_crc(changed, 68, 72, 128, before=data[12:64])

    return change


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    "change",
    [later_head, later_meta, later_frame(60, 5), later_frame(61, 64 | 3)],
    ids=["head", "meta", "kind", "flag"],
)
def test_a_later_format_is_refused_and_left_as_it_is(
    change: Callable[[dict[str, bytes]], None], mode: str
) -> None:
    blobs = files_of(FOLDER / "everything")
    change(blobs)
    store = GrowingMemory(blobs)
    with pytest.raises(Unsupported, match=r"format 2|unknown to this Penstock") as raised:
        Log.open(store, mode)  # type: ignore[call-overload]
    assert "newer Penstock" in raised.value.hint
    assert store.blobs == blobs
