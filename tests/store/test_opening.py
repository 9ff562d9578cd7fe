"""An address opens the store that it names, and one that names none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidArgument
from penstock.store import LocalStore, MemoryStore, ObjectStore, open_store


def test_a_path_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "shop", str(tmp_path / "shop"), "shop", "./shop"):
        store = open_store(place)
        assert isinstance(store, LocalStore)
        assert store.path == tmp_path / "shop"
        assert store.fsync


def test_a_file_address_is_a_folder_with_options() -> None:
    store = open_store("file:///data/my%20shop%3F?fsync=false")
    assert isinstance(store, LocalStore)
    assert (store.path, store.fsync) == (Path("/data/my shop?"), False)
    assert open_store("FILE://localhost/data").url == "file:///data"


def test_a_name_in_memory_is_one_store_for_the_process() -> None:
    store = open_store("memory://shop/main")
    assert isinstance(store, MemoryStore)
    assert open_store("memory://shop/main") is store
    assert open_store("memory://shop/other") is not store
    assert open_store("memory://") is not open_store("memory://")


def test_an_s3_address_is_a_bucket_a_prefix_and_a_service() -> None:
    store = open_store("s3://lake/shop/main/?endpoint=http://127.0.0.1:9000&region=eu-1&addressing=virtual")
    assert isinstance(store, ObjectStore)
    assert store.prefix == "shop/main"
    assert store.url == (
        "s3://lake/shop/main?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=eu-1&addressing=virtual"
    )
    assert open_store("s3://lake").url == "s3://lake"


@pytest.mark.parametrize(
    "address",
    [
        "file:///data/a%20shop",
        "file:///data/shop?fsync=false",
        "memory://shop",
        "s3://lake/gr%C3%B6%C3%9Fe?endpoint=https%3A%2F%2Fhost%3A9000",
    ],
)
def test_a_store_tells_the_address_that_opens_it_again(address: str) -> None:
    assert open_store(address).url == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ftp://host/folder",
        "file://otherhost/folder",
        "file://",
        "file:///folder?fsync=perhaps",
        "file:///folder?fsnyc=false",
        "memory://name?size=1",
        "s3://",
        "s3:///prefix",
        "s3://lake?endpont=http://x",
        "s3://lake?endpoint=x:9000",
        "s3://lake/../up",
    ],
)
def test_an_address_that_names_no_store_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_store(address)
    assert caught.value.hint


@pytest.mark.parametrize(
    "address",
    ["s3://key:hush@lake/prefix", "s3://lake?endpoint=http://key:hush@host", "s3://lake?secret=hush"],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_store(address)
    assert "hush" not in str(caught.value)
