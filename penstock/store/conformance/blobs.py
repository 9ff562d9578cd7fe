"""Claims about single blobs: put, create, get, read, map, stat, delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.errors import InvalidArgument, NotFound
from penstock.store.conformance.asserting import Claim, names, raising
from penstock.store.interface import Store

__all__ = ["CLAIMS"]

_NO_NAMES = (
    "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", ".hidden", "a/.tmp-1", "nul\0", "line\n",
    "back\\slash", "\ud800", "e\u0301", "x" * 256, "/".join(["x" * 200] * 5), "ü" * 130,
)  # fmt: skip
_NAMES = (
    "a",
    "a.b-c_d=e",
    "x" * 255,
    "deep/er/and/deep/er",
    "größe/наклад/大",
    "white space",
    "ü" * 127,
    "~+@,%41&?#",
)


def what_is_no_name_is_refused(store: Store) -> None:
    for name in _NO_NAMES:
        with raising(InvalidArgument):
            store.put(name, b"")
        with raising(InvalidArgument):
            store.create(name, b"")
        with raising(InvalidArgument):
            store.writer(name)
        with raising(InvalidArgument):
            store.get(name)
        with raising(InvalidArgument):
            store.read(name, 0, 1)
        with raising(InvalidArgument):
            store.map(name)
        with raising(InvalidArgument):
            store.stat(name)
        with raising(InvalidArgument):
            store.exists(name)
        with raising(InvalidArgument):
            store.delete(name)
    assert names(store) == []


def a_refused_name_refuses_the_whole_delete(store: Store) -> None:
    store.put("a", b"1")
    with raising(InvalidArgument):
        store.delete("a", "../b")
    assert store.get("a") == b"1"


def every_name_of_the_rules_is_taken(store: Store) -> None:
    for name in _NAMES:
        assert store.create(name, name.encode())
    for name in _NAMES:
        assert store.get(name) == name.encode()
    assert names(store) == sorted(_NAMES)


def what_was_put_is_read_back(store: Store) -> None:
    store.put("a", b"some bytes")
    assert store.get("a") == b"some bytes"
    assert store.exists("a")
    assert names(store) == ["a"]


def data_comes_in_any_form(store: Store) -> None:
    forms = [
        b"bytes",
        bytearray(b"bytes"),
        memoryview(b"[bytes]")[1:6],
        pa.py_buffer(b"bytes"),
        [b"by", memoryview(b""), pa.py_buffer(b"te"), bytearray(b"s")],
        (b"byt", b"es"),
    ]
    for number, data in enumerate(forms):
        store.put(f"put/{number}", data)
        assert store.create(f"create/{number}", data)
        assert store.get(f"put/{number}") == store.get(f"create/{number}") == b"bytes"


def what_is_not_bytes_is_refused_and_changes_nothing(store: Store) -> None:
    store.put("a", b"before")
    for data in ("text", 7, None, [b"ok", "text"], memoryview(b"gaps")[::2]):
        with raising(InvalidArgument):
            store.put("a", data)
        with raising(InvalidArgument):
            store.create("b", data)
    assert store.get("a") == b"before"
    assert not store.exists("b")


def memory_that_was_written_may_be_used_again(store: Store) -> None:
    memory = bytearray(b"first")
    store.put("a", memory)
    store.create("b", [memory])
    memory[:] = b"other"
    assert store.get("a") == store.get("b") == b"first"


def many_parts_make_one_blob(store: Store) -> None:
    parts = [b"%05d," % number for number in range(3000)]
    store.put("a", parts)
    assert store.create("b", parts)
    assert store.get("a") == store.get("b") == b"".join(parts)


def a_large_blob_is_whole(store: Store) -> None:
    parts = [bytes([number]) * 700_000 for number in range(6)]
    store.put("a", parts)
    assert store.create("b", parts)
    assert store.get("a") == store.get("b") == b"".join(parts)
    assert store.read("a", 699_999, 2) == b"\0\1"


def an_empty_blob_is_a_blob(store: Store) -> None:
    store.put("a", b"")
    assert store.create("b", [])
    assert not store.create("b", b"more")
    for name in ("a", "b"):
        assert store.get(name) == b""
        assert store.read(name, 0, 10) == b""
        assert store.map(name).to_pybytes() == b""
        assert store.stat(name).size == 0


def a_put_replaces_everything(store: Store) -> None:
    for content in (b"long content", b"short", b"", b"long content again"):
        store.put("a", content)
        assert store.get("a") == content
        assert store.stat("a").size == len(content)


def the_first_create_wins_and_its_blob_stays(store: Store) -> None:
    assert store.create("folder/a", b"first") is True
    assert store.create("folder/a", b"second") is False
    assert store.create("folder/a", b"first") is False
    assert store.get("folder/a") == b"first"


def what_was_put_cannot_be_created(store: Store) -> None:
    store.put("a", b"put")
    assert store.create("a", b"created") is False
    assert store.get("a") == b"put"


def a_name_is_free_again_after_its_blob_was_deleted(store: Store) -> None:
    assert store.create("folder/a", b"1")
    store.delete("folder/a")
    assert store.create("folder/a", b"2")
    assert store.get("folder/a") == b"2"


def what_is_not_there_is_not_found(store: Store) -> None:
    store.put("folder/a", b"1")
    for name in ("b", "folder", "folder/b", "other/folder/b", "folder/a/b"):
        with raising(NotFound):
            store.get(name)
        with raising(NotFound):
            store.read(name, 0, 1)
        with raising(NotFound):
            store.read(name, 0, 0)
        with raising(NotFound):
            store.map(name)
        with raising(NotFound):
            store.stat(name)
        assert not store.exists(name)
        store.delete(name)
    assert names(store) == ["folder/a"]


def a_range_is_cut_at_the_end(store: Store) -> None:
    content = bytes(range(200))
    store.put("a", content)
    for start, length in (
        (0, 0),
        (0, 1),
        (0, 200),
        (0, 201),
        (10, 50),
        (199, 1),
        (199, 9),
        (200, 1),
        (999, 9),
        (50, 0),
    ):
        assert store.read("a", start, length) == content[start : start + length], (start, length)
    assert store.read("a", 1, 1 << 40) == content[1:]


def a_range_that_is_none_is_refused(store: Store) -> None:
    store.put("a", b"1")
    for start, length in ((-1, 1), (0, -1)):
        with raising(InvalidArgument):
            store.read("a", start, length)


def a_map_is_the_whole_blob_in_one_buffer(store: Store) -> None:
    store.put("a", b"abc" * 5000)
    mapped = store.map("a")
    assert isinstance(mapped, pa.Buffer)
    assert mapped.size == 15000
    assert mapped.to_pybytes() == b"abc" * 5000


def a_map_keeps_its_bytes_whatever_becomes_of_the_blob(store: Store) -> None:
    store.put("a", b"1" * 10_000)
    store.put("b", b"2" * 10_000)
    first, second = store.map("a"), store.map("b")
    store.put("a", b"other")
    store.delete("b")
    assert first.to_pybytes() == b"1" * 10_000
    assert second.to_pybytes() == b"2" * 10_000


def stat_tells_size_and_age(store: Store) -> None:
    store.put("a", b"12345")
    blob = store.stat("a")
    assert (blob.name, blob.size) == ("a", 5)
    assert abs(datetime.now(UTC) - blob.modified) < timedelta(hours=1)
    assert list(store.list()) == [blob]


def a_delete_may_name_many_and_be_repeated(store: Store) -> None:
    for number in range(20):
        store.put(f"folder{number % 3}/{number}", b"1")
    gone = [f"folder{number % 3}/{number}" for number in range(0, 20, 2)]
    for _ in range(2):
        store.delete(*gone, "never/was")
        store.delete(gone[0])
        store.delete()
        assert names(store) == sorted(f"folder{number % 3}/{number}" for number in range(1, 20, 2))


CLAIMS: tuple[Claim, ...] = (
    what_is_no_name_is_refused,
    a_refused_name_refuses_the_whole_delete,
    every_name_of_the_rules_is_taken,
    what_was_put_is_read_back,
    data_comes_in_any_form,
    what_is_not_bytes_is_refused_and_changes_nothing,
    memory_that_was_written_may_be_used_again,
    many_parts_make_one_blob,
    a_large_blob_is_whole,
    an_empty_blob_is_a_blob,
    a_put_replaces_everything,
    the_first_create_wins_and_its_blob_stays,
    what_was_put_cannot_be_created,
    a_name_is_free_again_after_its_blob_was_deleted,
    what_is_not_there_is_not_found,
    a_range_is_cut_at_the_end,
    a_range_that_is_none_is_refused,
    a_map_is_the_whole_blob_in_one_buffer,
    a_map_keeps_its_bytes_whatever_becomes_of_the_blob,
    stat_tells_size_and_age,
    a_delete_may_name_many_and_be_repeated,
)
