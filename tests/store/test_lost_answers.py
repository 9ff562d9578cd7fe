"""What an object store says when requests and answers are lost between it and its service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from lossy_proxy import LossyProxy

from penstock.errors import (
    MayHaveHappened,
    OutcomeUnknown,
    StoreUnavailable,
)
from penstock.store import ObjectStore

ATTEMPTS = 5


@pytest.fixture
def store(proxied: ObjectStore) -> ObjectStore:
    return proxied


@pytest.fixture
def other(store: ObjectStore, s3_port: int, new_objects: Any) -> ObjectStore:
    """The same place, by a way on which nothing is lost."""
    other: ObjectStore = new_objects(s3_port, prefix=store.prefix)
    assert other.create("trial-of-other", b"")
    return other


def test_a_create_whose_answer_is_lost_still_wins(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose answer", "PUT")
    assert store.create("a", b"mine") is True
    assert store.get("a") == b"mine"
    assert proxy.asked("PUT") == 2


def test_a_create_whose_answers_are_all_lost_looks_who_won(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose answer", "PUT", times=ATTEMPTS)
    assert store.create("a", b"mine") is True
    assert proxy.asked("PUT") == ATTEMPTS


def test_a_create_whose_request_is_lost_is_repeated(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose request", "PUT", times=ATTEMPTS - 1)
    assert store.create("a", b"mine") is True


def test_a_racer_that_comes_between_two_attempts_wins(
    store: ObjectStore, proxy: LossyProxy, other: ObjectStore
) -> None:
    proxy.next("lose request", "PUT", first=lambda: other.create("a", b"theirs"))
    assert store.create("a", b"mine") is False
    assert store.get("a") == b"theirs"


def test_equal_content_does_not_make_a_racers_blob_ours(
    store: ObjectStore, proxy: LossyProxy, other: ObjectStore
) -> None:
    proxy.next("lose request", "PUT", first=lambda: other.create("a", b"same"))
    assert store.create("a", b"same") is False


def test_a_create_that_cannot_look_says_that_it_does_not_know(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose answer", "PUT", times=ATTEMPTS)
    proxy.next("lose answer", "HEAD", times=ATTEMPTS)
    with pytest.raises(OutcomeUnknown) as caught:
        store.create("a", b"mine")
    assert caught.value.may_have_happened
    assert store.get("a") == b"mine"


def test_a_create_that_finds_nothing_after_lost_answers_does_not_know(
    store: ObjectStore, proxy: LossyProxy
) -> None:
    proxy.next("lose request", "PUT", times=ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        store.create("a", b"mine")
    assert not store.exists("a")


def test_a_create_whose_blob_was_deleted_meanwhile_does_not_know(
    store: ObjectStore, proxy: LossyProxy, other: ObjectStore
) -> None:
    proxy.next("lose answer", "PUT")
    proxy.next("lose request", "PUT", times=ATTEMPTS - 1, first=lambda: other.delete("a"))
    with pytest.raises(OutcomeUnknown):
        store.create("a", b"mine")


def test_a_refusal_after_a_lost_answer_is_not_taken_for_the_answer(
    store: ObjectStore, proxy: LossyProxy
) -> None:
    proxy.next("lose answer", "PUT")
    proxy.next("answer 403 AccessDenied", "PUT")
    assert store.create("a", b"mine") is True
    proxy.next("lose answer", "PUT")
    proxy.next("answer 403 AccessDenied", "PUT")
    with pytest.raises(OutcomeUnknown):
        store.put("b", b"mine")
    assert store.get("b") == b"mine"


@pytest.mark.parametrize("answer", ["503 SlowDown", "409 ConditionalRequestConflict", "429 TooManyRequests"])
def test_a_busy_service_is_asked_again_and_is_known_to_have_done_nothing(
    answer: str, store: ObjectStore, proxy: LossyProxy
) -> None:
    proxy.next(f"answer {answer}", "PUT", times=ATTEMPTS - 1)
    assert store.create("a", b"mine") is True
    proxy.next(f"answer {answer}", "PUT", times=ATTEMPTS)
    with pytest.raises(StoreUnavailable) as caught:
        store.create("b", b"mine")
    assert not caught.value.may_have_happened
    proxy.next(f"answer {answer}", "PUT", times=ATTEMPTS)
    with pytest.raises(StoreUnavailable):
        store.put("b", b"mine")


def test_a_service_that_breaks_may_have_done_it(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("answer 500 InternalError", "PUT")
    assert store.create("a", b"mine") is True
    proxy.next("answer 500 InternalError", "PUT", times=ATTEMPTS)
    with pytest.raises(MayHaveHappened):
        store.put("b", b"mine")


def test_a_service_that_is_not_there_has_done_nothing(new_objects: Any, proxy: LossyProxy) -> None:
    store = new_objects(proxy.port)
    store.create("a", b"1")
    proxy.__exit__(None, None, None)
    for act in (
        lambda: store.create("b", b""),
        lambda: store.put("b", b""),
        lambda: store.delete("a"),
        lambda: store.get("a"),
        lambda: list(store.list()),
    ):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            act()


def test_a_put_or_delete_whose_answer_is_lost_is_repeated(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose answer", "PUT")
    store.put("a", b"1")
    assert store.get("a") == b"1"
    proxy.next("lose answer", "DELETE")
    store.delete("a")
    assert not store.exists("a")


def test_a_put_or_delete_without_any_answer_may_have_happened(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.next("lose answer", "PUT", times=ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        store.put("a", b"1")
    proxy.next("lose answer", "DELETE", times=ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        store.delete("a")
    proxy.next("lose answer", "POST", "delete", times=ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        store.delete("a", "b")


def test_a_lost_answer_is_not_forgotten_over_a_clear_one(store: ObjectStore, proxy: LossyProxy) -> None:
    for write in (lambda: store.put("a", b"1"), lambda: store.delete("a", "b")):
        for method in ("PUT", "POST"):
            proxy.next("lose answer", method)
            proxy.next("answer 503 SlowDown", method, times=ATTEMPTS - 1)
        with pytest.raises(OutcomeUnknown):
            write()
        proxy.rules.clear()


@pytest.mark.parametrize("mishap", ["lose answer", "cut answer", "answer 500 InternalError"])
def test_a_read_is_repeated_until_it_is_whole(mishap: str, store: ObjectStore, proxy: LossyProxy) -> None:
    store.put("a", b"0123456789" * 100)
    for read in (
        lambda: store.get("a") == b"0123456789" * 100,
        lambda: store.read("a", 5, 10) == b"5678901234",
        lambda: store.map("a").size == 1000,
        lambda: [blob.name for blob in store.list("a")] == ["a"],
    ):
        proxy.next(mishap, "GET", times=ATTEMPTS - 1)
        assert read()
    proxy.next(mishap, "GET", times=ATTEMPTS)
    with pytest.raises(StoreUnavailable) as caught:
        store.get("a")
    assert not caught.value.may_have_happened


def test_an_answer_that_does_not_come_in_time_is_lost(
    proxy: LossyProxy, s3_port: int, new_objects: Any
) -> None:
    new_objects(proxy.port).create("trial", b"")
    store = new_objects(proxy.port, timeout=0.3)
    proxy.next("hold", "PUT")
    assert store.create("a", b"mine") is True
    assert proxy.asked("PUT", "/a") == 2


def test_a_large_commit_whose_answer_is_lost_still_wins(store: ObjectStore, proxy: LossyProxy) -> None:
    writer = store.writer("a")
    writer.write(b"x" * (6 << 20))
    proxy.next("lose answer", "PUT", "partNumber=2")
    proxy.next("lose answer", "POST", "/a?uploadId")
    assert writer.commit() is True
    assert store.stat("a").size == 6 << 20


def test_a_large_commit_without_any_answer_looks_who_won(store: ObjectStore, proxy: LossyProxy) -> None:
    for name, mishap in (("a", "lose answer"), ("b", "lose request")):
        writer = store.writer(name)
        writer.write(b"x" * (6 << 20))
        proxy.next(mishap, "POST", f"/{name}?uploadId", times=ATTEMPTS)
        if mishap == "lose answer":
            assert writer.commit() is True
        else:
            with pytest.raises(OutcomeUnknown):
                writer.commit()
    assert store.collect_leftovers(timedelta(0)) == 0


def test_a_part_that_cannot_be_sent_abandons_the_blob(store: ObjectStore, proxy: LossyProxy) -> None:
    writer = store.writer("a")
    proxy.next("lose answer", "PUT", "partNumber=1", times=ATTEMPTS)
    with pytest.raises(StoreUnavailable):
        writer.write(b"x" * (6 << 20))
    assert writer.closed
    assert not store.exists("a")
    assert store.collect_leftovers(timedelta(0)) == 0
