from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.log import framing
from penstock.log.framing import FixedRows, Framing, Position
from tests.log.frames import LengthPrefixed, frame


class Bytes:
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def read(self, offset: int, length: int) -> memoryview:
        assert offset + length <= len(self.data)
        self.bytes_read += length
        return memoryview(self.data)[offset : offset + length]


def items_of(given: Framing, data: bytes, position: Position, size: int) -> list[tuple[int, bytes]]:
    found, stop = [], position
    for items in given.read(Bytes(data), position, size):
        assert items.start == stop
        assert len(items) > 0
        assert items.ends[-1] == len(items.data)
        stop = items.stop
        for index in range(items.start.index, stop.index):
            found.append((index, bytes(items.item(index))))
            after = items.after(index)
            assert after == (items.stop if index + 1 == stop.index else Position(index + 1, after.offset))
            assert b"".join(bytes(items.item(i)) for i in range(index, stop.index)) == items.items_from(index)
    assert given.skip(Bytes(data), position, size) == stop
    return found


@pytest.mark.parametrize(
    ("size", "rows"), [(0, 0), (9, 0), (10, 0), (11, 0), (13, 0), (14, 1), (17, 1), (18, 2)]
)
def test_rows_are_complete_as_the_floor_of_what_follows_the_header(size: int, rows: int) -> None:
    assert FixedRows(row_size=4, header=10).complete(size) == rows


def test_index_0_is_the_first_row_after_the_header() -> None:
    data = b"header" + b"aabbc"
    assert items_of(FixedRows(2, header=6), data, FixedRows(2, 6).start, len(data)) == [
        (0, b"aa"),
        (1, b"bb"),
    ]


@pytest.mark.parametrize(
    "wrong", [{"row_size": 0}, {"row_size": -1}, {"row_size": 4, "header": -1}, {"row_size": 2.5}]
)
def test_sizes_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="FixedRows"):
        FixedRows(**wrong)


def test_rows_are_views_of_what_was_read() -> None:
    data = bytes(range(12))
    (items,) = FixedRows(4).read(Bytes(data), Position(0, 0), 12)
    assert items.item(1).obj is data


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(0, 9), st.binary(max_size=120), st.integers(1, 40), st.data())
def test_fixed_rows_are_the_slices_of_the_file(
    row_size: int, header: int, data: bytes, at_once: int, draw: st.DataObject
) -> None:
    size = draw.draw(st.integers(0, len(data)), "size")
    body = data[header:size]
    expected = [(i, body[i * row_size : (i + 1) * row_size]) for i in range(len(body) // row_size)]
    begin = draw.draw(st.integers(0, len(expected)), "begin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "READ_BYTES", at_once)
        rows = FixedRows(row_size, header)
        position = Position(begin, header + begin * row_size)
        assert items_of(rows, data, position, size) == expected[begin:]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=9), max_size=12), st.data())
def test_the_protocol_fits_frames_that_tell_their_own_length(
    frames: list[bytes], draw: st.DataObject
) -> None:
    data = b"".join(map(frame, frames))
    size = draw.draw(st.integers(0, len(data)), "size")
    ends = [sum(map(len, map(frame, frames[: i + 1]))) for i in range(len(frames))]
    complete = sum(end <= size for end in ends)
    begin = draw.draw(st.integers(0, complete), "begin")
    position = Position(begin, ends[begin - 1] if begin else 0)
    found = items_of(LengthPrefixed(), data, position, size)
    assert found == [(i, frame(frames[i])) for i in range(begin, complete)]
