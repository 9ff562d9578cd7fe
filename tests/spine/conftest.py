"""An S3 service that the tests of this room share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store import Credentials, ObjectStore

SERVER = Path(__file__).parent.parent / "store" / "s3_server.py"


@pytest.fixture(scope="session")
def bucket() -> Iterator[ObjectStore]:
    """An empty place in an object store."""
    server = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        store = ObjectStore(
            "lake",
            "spines",
            endpoint=f"http://127.0.0.1:{port}",
            credentials=Credentials("tester", "a-secret", "a-token"),
        )
        store._bucket.service.ask("create_bucket", Bucket="lake")
        yield store
    finally:
        server.kill()
        server.communicate()
