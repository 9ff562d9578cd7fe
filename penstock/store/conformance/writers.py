"""Claims about writers of large blobs, and about what dead ones leave."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from penstock.errors import Closed, DidNotHappen, InvalidArgument, NotFound
from penstock.store.conformance.asserting import Claim, names, raising
from penstock.store.interface import Store

__all__ = ["CLAIMS"]

_NOW = timedelta(0)


def what_was_written_is_committed_whole(store: Store) -> None:
    with store.writer("runs/1") as writer:
        assert writer.write(b"one") == 3
        assert writer.write([b"two", pa.py_buffer(b"three")]) == 8
        writer.flush()
        assert writer.write(b"") == 0
        assert writer.tell() == 11
        assert writer.commit() is True
    assert store.get("runs/1") == b"onetwothree"
    assert names(store) == ["runs/1"]


def a_writer_without_a_write_commits_an_empty_blob(store: Store) -> None:
    assert store.writer("a").commit()
    assert store.get("a") == b""


def nobody_sees_a_blob_before_it_is_committed(store: Store) -> None:
    with store.writer("runs/1") as writer:
        for _ in range(3):
            writer.write(b"x" * 100_000)
            writer.flush()
            assert not store.exists("runs/1")
            assert names(store) == []
            with raising(NotFound):
                store.get("runs/1")
        assert writer.commit()
    assert names(store) == ["runs/1"]


def an_abandoned_writer_leaves_nothing(store: Store) -> None:
    writer = store.writer("runs/1")
    writer.write(b"x" * 100_000)
    writer.flush()
    writer.abandon()
    writer.abandon()
    with store.writer("runs/2") as other:
        other.write(b"1")
    assert writer.closed
    assert other.closed
    assert names(store) == []
    assert store.collect_leftovers(_NOW) == 0


def an_error_abandons_the_writer(store: Store) -> None:
    try:
        with store.writer("a") as writer:
            writer.write(b"1")
            raise LookupError
    except LookupError:
        assert writer.closed
    assert names(store) == []
    assert store.collect_leftovers(_NOW) == 0


def a_write_that_fails_can_not_be_committed_over(store: Store) -> None:
    writer = store.writer("a")
    writer.write(b"1")
    with raising(InvalidArgument):
        writer.write("text")
    with raising(Closed):
        writer.commit()
    assert not store.exists("a")


def a_writer_that_has_ended_takes_nothing_more(store: Store) -> None:
    for name, end in (("a", True), ("b", False)):
        writer = store.writer(name)
        writer.write(b"1")
        if end:
            assert writer.commit()
        else:
            writer.abandon()
        assert writer.closed
        with raising(Closed):
            writer.write(b"2")
        with raising(Closed):
            writer.commit()
        writer.abandon()
    assert store.get("a") == b"1"
    assert names(store) == ["a"]


def a_commit_loses_against_what_is_there(store: Store) -> None:
    store.put("before", b"first")
    early = store.writer("before")
    early.write(b"second")
    late = store.writer("meanwhile")
    late.write(b"second")
    assert store.create("meanwhile", b"first")
    assert early.commit() is False
    assert late.commit() is False
    assert store.get("before") == store.get("meanwhile") == b"first"
    assert store.collect_leftovers(_NOW) == 0


def of_two_writers_the_first_to_commit_wins(store: Store) -> None:
    one, two = store.writer("a"), store.writer("a")
    one.write(b"one")
    two.write(b"two")
    assert two.commit() is True
    assert one.commit() is False
    assert store.get("a") == b"two"


def memory_that_was_written_may_be_used_again(store: Store) -> None:
    with store.writer("a") as writer:
        for size in (3, 100_000):
            memory = bytearray(b"1" * size)
            writer.write(memory)
            memory[:] = b"2" * size
        writer.commit()
    assert store.get("a") == b"1" * 100_003


def a_writer_takes_more_than_one_request_would(store: Store) -> None:
    piece = bytes(range(256)) * 4096
    with store.writer("a") as writer:
        for number in range(12):
            writer.write([number.to_bytes(1, "big"), piece])
        assert writer.commit()
    assert store.stat("a").size == 12 * (len(piece) + 1)
    content = store.get("a")
    for number in range(12):
        start = number * (len(piece) + 1)
        assert content[start] == number
        assert content[start + 1 : start + 1 + len(piece)] == piece


def a_large_commit_loses_like_a_small_one(store: Store) -> None:
    with store.writer("a") as writer:
        writer.write(b"x" * (6 << 20))
        assert store.create("a", b"first")
        assert writer.commit() is False
    assert store.get("a") == b"first"
    assert store.collect_leftovers(_NOW) == 0


def a_writer_is_a_sink_for_arrow(store: Store) -> None:
    batch = pa.record_batch({"n": pa.array(range(50_000)), "s": pa.array(["s"] * 50_000)})
    with store.writer("runs/1.arrow") as writer:
        with pa.ipc.new_file(writer, batch.schema) as file:
            file.write_batch(batch)
            file.write_batch(batch)
        assert writer.commit()
    read = pa.ipc.open_file(store.map("runs/1.arrow"))
    assert [read.get_batch(i).equals(batch) for i in range(read.num_record_batches)] == [True, True]


def collecting_leftovers_spares_blobs_and_the_young(store: Store) -> None:
    store.put("a", b"1")
    writer = store.writer("b")
    writer.write(b"x" * 100_000)
    writer.flush()
    assert store.collect_leftovers(timedelta(hours=1)) == 0
    assert writer.commit()
    store.collect_leftovers(_NOW)
    assert store.get("a") == b"1"
    assert store.get("b") == b"x" * 100_000


def a_live_writer_that_was_collected_is_told_so(store: Store) -> None:
    writer = store.writer("a")
    writer.write(b"x" * (6 << 20))
    collected = store.collect_leftovers(_NOW)
    if collected:
        with raising(DidNotHappen):
            writer.commit()
        assert not store.exists("a")
    else:
        assert writer.commit()
        assert store.get("a") == b"x" * (6 << 20)


CLAIMS: tuple[Claim, ...] = (
    what_was_written_is_committed_whole,
    a_writer_without_a_write_commits_an_empty_blob,
    nobody_sees_a_blob_before_it_is_committed,
    an_abandoned_writer_leaves_nothing,
    an_error_abandons_the_writer,
    a_write_that_fails_can_not_be_committed_over,
    a_writer_that_has_ended_takes_nothing_more,
    a_commit_loses_against_what_is_there,
    of_two_writers_the_first_to_commit_wins,
    memory_that_was_written_may_be_used_again,
    a_writer_takes_more_than_one_request_would,
    a_large_commit_loses_like_a_small_one,
    a_writer_is_a_sink_for_arrow,
    collecting_leftovers_spares_blobs_and_the_young,
    a_live_writer_that_was_collected_is_told_so,
)
