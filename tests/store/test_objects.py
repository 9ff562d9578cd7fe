"""What an object store makes of its service: refusals, pages, leftovers, credentials."""

from __future__ import annotations

import copy
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from lossy_proxy import LossyProxy

from penstock.errors import (
    AccessDenied,
    DidNotHappen,
    InvalidArgument,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
    Unsupported,
)
from penstock.store import Credentials, ObjectStore
from penstock.store.service import Service

ATTEMPTS = 5


@pytest.fixture
def store(proxied: ObjectStore) -> ObjectStore:
    return proxied


def test_only_a_large_body_waits_for_leave_to_be_sent(store: ObjectStore, proxy: LossyProxy) -> None:
    proxy.leave_asked.clear()
    assert store.create("small", b"x" * 100_000)
    assert store.create("large", [b"x" * 1_000_000, b"y" * 1_000_000])
    assert [address.rpartition("/")[2] for address in proxy.leave_asked] == ["large"]
    assert store.get("large") == b"x" * 1_000_000 + b"y" * 1_000_000


def test_leftovers_are_uploads_of_this_prefix_that_are_old_enough(
    store: ObjectStore, proxy: LossyProxy, s3_port: int, new_objects: Any
) -> None:
    neighbour = new_objects(s3_port, prefix=f"{store.prefix}-neighbour")
    writers = [place.writer(f"a{number}") for place in (store, neighbour) for number in range(2)]
    for writer in writers:
        writer.write(b"x" * (6 << 20))
    # The test service dates every upload like this.
    begun = datetime.now(UTC) - timedelta(minutes=30)
    proxy.rewrite = (b"2010-11-10T20:48:33.000Z", f"{begun:%Y-%m-%dT%H:%M:%S}.000Z".encode())
    assert store.collect_leftovers(timedelta(hours=1)) == 0
    assert store.collect_leftovers(timedelta(minutes=10)) == 2
    assert store.collect_leftovers(timedelta(0)) == 0
    with pytest.raises(DidNotHappen):
        writers[0].commit()
    assert not store.exists("a0")
    assert writers[2].commit() is True


def test_a_service_that_ignores_the_condition_is_found_out(proxy: LossyProxy, new_objects: Any) -> None:
    proxy.next("drop If-None-Match", "PUT", times=99)
    proxy.next("drop If-None-Match", "POST", times=99)
    store = new_objects(proxy.port)
    for _ in range(2):
        with pytest.raises(Unsupported, match="put_object"):
            store.create("a", b"1")
    writer = store.writer("b")
    writer.write(b"x" * (6 << 20))
    with pytest.raises(Unsupported, match="complete_multipart_upload"):
        writer.commit()
    assert not store.exists("a")
    proxy.rules.clear()
    listed = store._bucket.service.ask("list_objects_v2", Bucket="lake", Prefix=store.prefix)
    assert listed["KeyCount"] == 0  # not even what the trial made
    assert store.create("a", b"1") is True


def test_a_trial_of_the_condition_that_fails_did_not_happen(proxy: LossyProxy, new_objects: Any) -> None:
    store = new_objects(proxy.port)
    proxy.next("lose answer", "PUT", times=ATTEMPTS)
    with pytest.raises(StoreUnavailable):
        store.create("a", b"1")
    assert store.create("a", b"1") is True


def test_an_upload_that_ended_by_itself_is_no_leftover(store: ObjectStore, proxy: LossyProxy) -> None:
    writer = store.writer("a")
    writer.write(b"x" * (6 << 20))
    proxy.next("answer 404 NoSuchUpload", "DELETE", "/a?uploadId")
    assert store.collect_leftovers(timedelta(0)) == 0
    proxy.next("answer 403 AccessDenied", "DELETE", "/a?uploadId")
    with pytest.raises(AccessDenied):
        store.collect_leftovers(timedelta(0))
    proxy.next("answer 404 NoSuchUpload", "POST", "/a?uploadId")
    with pytest.raises(StoreUnavailable, match="collected"):
        writer.commit()
    assert not store.exists("a")


def test_the_condition_is_tried_once_in_a_process(proxy: LossyProxy, new_objects: Any) -> None:
    for number in range(3):
        assert new_objects(proxy.port).create(f"a{number}", b"")
    assert proxy.asked("PUT", "penstock-trial") == 2
    assert proxy.asked("DELETE", "penstock-trial") == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("403 AccessDenied", AccessDenied),
        ("403 SignatureDoesNotMatch", AccessDenied),
        ("400 ExpiredToken", AccessDenied),
        ("507 InsufficientStorage", NoSpace),
        ("403 QuotaExceeded", NoSpace),
        ("400 EntityTooLarge", NoSpace),
        ("404 NoSuchBucket", NotFound),
        ("501 NotImplemented", Unsupported),
        ("400 SomethingNew", StoreUnavailable),
    ],
)
def test_a_refusal_says_that_nothing_happened_and_what_to_do(
    answer: str, error: type[PenstockError], store: ObjectStore, proxy: LossyProxy
) -> None:
    proxy.next(f"answer {answer}", "PUT", times=2)
    for write in (store.put, store.create):
        with pytest.raises(error) as caught:
            write("a", b"1")
        assert type(caught.value) is error
        assert answer in str(caught.value)
        assert f"s3://lake/{store.prefix}/a" in str(caught.value)
    assert proxy.asked("PUT") == 2
    assert not store.exists("a")


def test_a_bucket_that_is_not_there_is_not_found(s3_port: int, new_objects: Any) -> None:
    store = new_objects(s3_port, bucket="no-such-bucket")
    for act in (lambda: store.put("a", b""), lambda: store.create("a", b""), lambda: list(store.list())):
        with pytest.raises(NotFound, match="no such bucket"):
            act()


def test_a_service_without_ranges_costs_more_and_gives_the_same(
    store: ObjectStore, proxy: LossyProxy
) -> None:
    store.put("a", b"0123456789")
    proxy.next("drop Range", "GET")
    assert store.read("a", 3, 4) == b"3456"


def test_a_listing_is_read_page_by_page(store: ObjectStore, proxy: LossyProxy) -> None:
    names = [f"many/{number:02}" for number in range(60)]
    for name in names:
        store.put(name, b"")
    listing = store.list("many/")
    assert proxy.asked("GET", "list-type=2") == 0
    assert next(listing).name == names[0]
    assert proxy.asked("GET", "list-type=2") == 1
    assert [blob.name for blob in listing] == names[1:]
    assert proxy.asked("GET", "list-type=2") == 3


def test_objects_that_are_no_blobs_are_not_listed(store: ObjectStore) -> None:
    ask = store._bucket.service.ask
    for key in ("folder/", ".hidden", "a//b", "../x"):
        ask("put_object", Bucket="lake", Key=f"{store.prefix}/{key}", Body=b"")
    assert [blob.name for blob in store.list()] == ["trial"]


def test_a_service_that_lists_in_no_order_is_refused() -> None:
    class Disorderly(Service):
        def ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
            now = datetime.now(UTC)
            return {"Contents": [{"Key": key, "Size": 1, "LastModified": now} for key in ("b", "a")]}

    store = ObjectStore("lake")
    store._bucket.service = Disorderly(
        endpoint=None, region=None, addressing=None, credentials=None, timeout=1
    )
    with pytest.raises(Unsupported, match="in order"):
        list(store.list())


def test_a_delete_that_was_refused_in_part_says_so() -> None:
    class Reluctant(Service):
        def ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
            return {"Errors": [{"Key": "b", "Code": "AccessDenied", "Message": "no"}]}

    store = ObjectStore("lake")
    store._bucket.service = Reluctant(
        endpoint=None, region=None, addressing=None, credentials=None, timeout=1
    )
    with pytest.raises(OutcomeUnknown, match="1 of 2 deletes were refused"):
        store.delete("a", "b")


def test_secrets_are_in_no_text(proxy: LossyProxy, new_objects: Any) -> None:
    store = new_objects(proxy.port)
    texts = [repr(store), str(store), store.url, repr(store._bucket.service.credentials)]
    texts.append(repr(Credentials("tester", "a-secret-nobody-may-see")))
    for mishap in ("answer 403 SignatureDoesNotMatch", "lose answer", "answer 500 InternalError"):
        proxy.next(mishap, "GET", times=ATTEMPTS)
        with pytest.raises(PenstockError) as caught:
            store.get("a")
        texts.append("".join(traceback.format_exception(caught.value)))
    for text in texts:
        assert "nobody-may-see" not in text


def test_without_credentials_the_error_says_where_to_put_them(
    s3_port: int, new_objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(variable, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(AccessDenied, match="AWS_ACCESS_KEY_ID"):
        new_objects(s3_port, credentials=None).get("a")


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": ""},
        {"bucket": "key:secret@lake"},
        {"bucket": "lake/prefix"},
        {"endpoint": "127.0.0.1:9000"},
        {"endpoint": "http://key:secret@127.0.0.1"},
        {"endpoint": "ftp://127.0.0.1"},
        {"attempts": 0},
        {"part_size": 1000},
        {"prefix": "../up"},
    ],
)
def test_options_that_can_never_be_right_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ObjectStore(**({"bucket": "lake"} | options))
    assert "secret" not in str(caught.value)


def test_an_addressing_that_the_client_refuses_is_an_invalid_argument() -> None:
    with pytest.raises(InvalidArgument, match="addressing"):
        ObjectStore("lake", addressing="sideways").get("a")


def test_a_key_has_room_for_the_prefix(s3_port: int, new_objects: Any) -> None:
    store = new_objects(s3_port, prefix="/".join(["p" * 200] * 4))
    with pytest.raises(InvalidArgument, match="shorter prefix"):
        store.put("/".join(["x" * 200] * 4), b"")


def test_a_copy_is_the_same_store(store: ObjectStore) -> None:
    twin = copy.copy(store)
    assert twin.url == store.url
    assert repr(twin) == repr(store)
    store.put("a", b"1")
    assert twin.get("a") == b"1"


def test_the_client_is_imported_when_something_is_asked() -> None:
    script = """
import sys
import penstock, penstock.store, penstock.store.conformance
from penstock.store import open_store
open_store("s3://lake/prefix")
print([name for name in ("botocore", "boto3", "hypothesis", "pytest") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
