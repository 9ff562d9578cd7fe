"""Places to keep blobs in: each fixture or factory gives an empty store."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.store import Credentials, LocalStore, MemoryStore, ObjectStore, Store

BUCKET = "lake"
KEYS = Credentials("tester", "a-secret-nobody-may-see", "a-token-nobody-may-see")
HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))  # the tests of this room share modules that are no tests
pytest.register_assert_rewrite("penstock.store.conformance")
from lossy_proxy import LossyProxy  # noqa: E402

_numbers = count(1)


@pytest.fixture(scope="session")
def s3_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an S3 service that has the bucket."""
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "s3_server.py")],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | {"MOTO_S3_DEFAULT_MAX_KEYS": "25"},  # so that listings have several pages
            text=True,
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, log.read_text()
        port = int(line)
        with closing(socket.create_connection(("127.0.0.1", port), timeout=30)):
            _objects(port)._bucket.service.ask("create_bucket", Bucket=BUCKET)
        yield port
    finally:
        server.kill()
        server.communicate()


def _objects(port: int, **options: Any) -> ObjectStore:
    settings: dict[str, Any] = {
        "bucket": BUCKET,
        "prefix": f"test/{next(_numbers)}",
        "endpoint": f"http://127.0.0.1:{port}",
        "credentials": KEYS,
        "part_size": 5 << 20,
        "pause": 0.001,
    }
    return ObjectStore(**(settings | options))


@pytest.fixture
def new_objects() -> Callable[..., ObjectStore]:
    """Makes an object store at a port, of a prefix that nothing else has, or with other options."""
    return _objects


@pytest.fixture
def proxy(s3_port: int) -> Iterator[LossyProxy]:
    """A way to the S3 service on which things are lost."""
    with LossyProxy(s3_port) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: LossyProxy) -> ObjectStore:
    """A store behind the proxy, which has already found that its service heeds the condition."""
    store = _objects(proxy.port)
    assert store.create("trial", b"")
    proxy.seen.clear()
    return store


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a place: syncing costs nothing there."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def new_store(request: pytest.FixtureRequest, quick_folder: Path) -> Callable[[str], Store]:
    """Makes an empty store of a kind: local, local-without-fsync, local-without-links, memory or objects."""

    def make(kind: str) -> Store:
        folder = quick_folder / f"store{next(_numbers)}"
        if kind == "local":
            return LocalStore(folder)
        if kind == "local-without-fsync":
            return LocalStore(folder, fsync=False)
        if kind == "local-without-links":
            return LocalStore(folder, hard_links=False)
        if kind == "objects":
            return _objects(request.getfixturevalue("s3_port"))
        assert kind == "memory"
        return MemoryStore()

    return make
