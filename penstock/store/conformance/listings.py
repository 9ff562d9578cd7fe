"""Claims about listings: order, prefixes, and what comes and goes meanwhile."""

from __future__ import annotations

from penstock.errors import InvalidArgument
from penstock.store.conformance.asserting import Claim, names, raising
from penstock.store.interface import Store

__all__ = ["CLAIMS"]

# Characters that sort before and after '/', at the places where a walk through folders would go wrong.
_AROUND_A_SLASH = (
    "a-b",
    "a.b",
    "a/b",
    "a/b/c/d",
    "a/b-",
    "a/b.c",
    "a0",
    "a_b",
    "b",
    "b0/x",
    "b/x",
    "A",
    "ä/ö",
    "大",
)
_CLASHING = {"a/b", "b"}  # names that others lie below, which a folder cannot have


def names_come_in_order_of_their_code_points(store: Store) -> None:
    there = [name for name in _AROUND_A_SLASH if name not in _CLASHING]
    for name in reversed(there):
        store.put(name, b"1")
    assert names(store) == sorted(there)


def a_prefix_is_the_beginning_of_a_name(store: Store) -> None:
    there = [name for name in _AROUND_A_SLASH if name not in _CLASHING]
    for name in there:
        store.put(name, b"1")
    for prefix in ("", "a", "a/", "a/b", "a/b/", "a/b/c/d", "a/b-", "b", "b/", "ä", "zzz", "a/zzz/", "a-b/"):
        assert names(store, prefix) == sorted(name for name in there if name.startswith(prefix)), prefix


def a_prefix_that_begins_no_name_is_refused(store: Store) -> None:
    for prefix in ("/", "/a", "../", "a//", ".hidden", "a/../b", "nul\0"):
        with raising(InvalidArgument):
            store.list(prefix)


def a_listing_can_begin_after_a_name(store: Store) -> None:
    there = sorted(name for name in _AROUND_A_SLASH if name not in _CLASHING)
    for name in there:
        store.put(name, b"1")
    for after in [*there, "a", "a/", "a/b", "a/b/c", "zzz", "0"]:
        assert names(store, after=after) == [name for name in there if name > after], after
        assert names(store, "a", after=after) == [
            name for name in there if name > after and name.startswith("a")
        ], after


def a_listing_of_nothing_is_empty(store: Store) -> None:
    assert names(store) == []
    assert names(store, "folder/") == []
    store.put("folder/a", b"1")
    store.delete("folder/a")
    assert names(store) == []


def a_listing_tells_sizes(store: Store) -> None:
    for size in (0, 1, 1000):
        store.put(f"a/{size:04}", b"x" * size)
    assert [(blob.name, blob.size) for blob in store.list("a/")] == [
        ("a/0000", 0),
        ("a/0001", 1),
        ("a/1000", 1000),
    ]


def a_listing_of_many_gives_each_once(store: Store) -> None:
    there = [f"many/{number:03}" for number in range(120)]
    for name in there:
        assert store.create(name, b"")
    assert names(store) == there
    assert names(store, "many/", after="many/077") == there[78:]


def a_change_is_in_the_next_listing(store: Store) -> None:
    for number in range(10):
        name = f"folder/{number}"
        assert store.create(name, b"1")
        assert names(store, "folder/") == [name]
        store.delete(name)
        assert names(store, "folder/") == []


def a_listing_bears_changes_while_it_is_read(store: Store) -> None:
    steady = [f"a/{number:02}/x" for number in range(0, 70, 2)]
    fleeting = [f"a/{number:02}/x" for number in range(1, 70, 2)]
    for name in (*steady, *fleeting):
        store.put(name, b"1")
    seen = []
    for blob in store.list():
        seen.append(blob.name)
        if fleeting:
            store.delete(fleeting.pop())
            store.create(f"b/{len(fleeting)}", b"1")
    assert [name for name in seen if name in steady] == steady
    assert len(set(seen)) == len(seen)


CLAIMS: tuple[Claim, ...] = (
    names_come_in_order_of_their_code_points,
    a_prefix_is_the_beginning_of_a_name,
    a_prefix_that_begins_no_name_is_refused,
    a_listing_can_begin_after_a_name,
    a_listing_of_nothing_is_empty,
    a_listing_tells_sizes,
    a_listing_of_many_gives_each_once,
    a_change_is_in_the_next_listing,
    a_listing_bears_changes_while_it_is_read,
)
