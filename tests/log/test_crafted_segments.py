"""Frames whose checksums are right and that no writer would write so: told with their place, never read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import DamagedBytes
from penstock.log import Log, LogOptions
from penstock.log.format import FRAME_BYTES, HEAD_BYTES, Flag, Frame, Head, Kind
from tests.log.growing_memory import GrowingMemory
from tests.log.log_model import ManualClock
from tests.log.logs import FAST

SCHEMA = pa.schema([("id", pa.int64())])
NAME = f"segments/{1:020d}.segment"
BOTH = Flag.BEGIN | Flag.END
Change = Callable[[list[Frame]], list[Frame]]


@pytest.fixture
def blobs() -> dict[str, bytes]:
    """A log of four transactions of one event each, and the mark at its end."""
    store = GrowingMemory()
    with Log.create(store, FAST, clock=ManualClock()) as log:
        log.add_collection("t", SCHEMA)
        log.promote(3)
        for i in range(4):
            log.append("t", pa.record_batch({"id": [i]}, schema=SCHEMA))
    return store.blobs


def crafted(blobs: dict[str, bytes], change: Change) -> dict[str, bytes]:
    """The log with other headers: each with the right checksum, and with the body that it had."""
    data = blobs[NAME]
    seed = Head.decode(data, NAME).seed
    frames, bodies, at = [], [], HEAD_BYTES
    while at < len(data):
        frame = Frame.decode(data[at : at + FRAME_BYTES], NAME, at, seed)
        frames.append(frame)
        bodies.append(data[at + FRAME_BYTES : at + frame.frame_bytes])
        at += frame.frame_bytes
    by_crc = dict(zip((it.body_crc for it in frames), bodies, strict=True))
    changed = b"".join(it.encode(seed) + by_crc[it.body_crc] for it in change(frames))
    return blobs | {NAME: data[:HEAD_BYTES] + changed}


def with_frame(number: int, **fields: Any) -> Change:
    def change(frames: list[Frame]) -> list[Frame]:
        return [it._replace(**fields) if i == number else it for i, it in enumerate(frames)]

    return change


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (with_frame(2, first_lsn=4), "a frame begins at LSN 4 and not at 3"),
        (with_frame(2, first_lsn=2), "a frame begins at LSN 2 and not at 3"),
        (lambda frames: [*frames[:1], *frames[2:]], "a frame begins at LSN 3 and not at 2"),
        (lambda frames: [*frames[:2], *frames[1:]], "a frame begins at LSN 2 and not at 3"),
        (with_frame(2, commit_time=5), "a frame was committed before the one before it"),
        (with_frame(2, term=2), "a frame was committed before the one before it"),
        (with_frame(2, flags=Flag.END), "a transaction begins within another, or in its middle"),
        (with_frame(1, flags=Flag.BEGIN), "a transaction begins within another, or in its middle"),
        (
            lambda frames: [*frames[:2], frames[-1]._replace(kind=Kind.SEAL, first_lsn=3), *frames[2:]],
            "a frame follows the seal",
        ),
    ],
)
def test_frames_that_do_not_follow_one_another_are_damage(
    change: Change, what: str, mode: Any, blobs: dict[str, bytes]
) -> None:
    store = GrowingMemory(crafted(blobs, change))
    with pytest.raises(DamagedBytes, match=what) as raised:
        Log.open(store, mode)
    assert raised.value.subject == NAME
    assert "at byte " in raised.value.what


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_transaction_without_its_end_is_torn(mode: Any, blobs: dict[str, bytes]) -> None:
    def cut(frames: list[Frame]) -> list[Frame]:
        return [*frames[:3], frames[3]._replace(flags=Flag.BEGIN)]

    with Log.open(GrowingMemory(crafted(blobs, cut)), mode) as log:
        assert log.current_lsn == 3
        assert [it.data.column(0).to_pylist() for it in log.read()] == [[0], [1], [2]]
        assert (log.recovered is not None) == (mode == "write")


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_frame_missing_in_a_sealed_segment_is_told_and_not_jumped(mode: Any) -> None:
    store = GrowingMemory()
    with Log.create(store, LogOptions(fsync="never", segment_bytes=4096), clock=ManualClock()) as log:
        log.add_collection("t", SCHEMA)
        while log.stats().segments == 1:
            log.append("t", pa.record_batch({"id": [log.current_lsn]}, schema=SCHEMA))
    blobs = {name: data for name, data in store.blobs.items() if not name.startswith("index/")}
    changed = crafted(blobs, lambda frames: [*frames[:2], *frames[3:]])
    with Log.open(GrowingMemory(changed), mode, FAST) as log:
        reading = log.read()
        assert [next(reading).first_lsn, next(reading).first_lsn] == [1, 2]
        with pytest.raises(DamagedBytes, match="LSN 3 is missing before it") as raised:
            next(reading)
        assert raised.value.subject == NAME
        assert next(it.first_lsn for it in log.read(since=3)) == 4


def test_the_same_frames_crafted_again_are_the_log(blobs: dict[str, bytes]) -> None:
    assert crafted(blobs, lambda frames: frames) == blobs
