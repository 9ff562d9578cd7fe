"""Views on a cluster of several processes, with their state in a bucket: begun here, gone on with there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.store import Credentials, ObjectStore
from penstock.views import pipeline
from penstock.views.driver import Driver
from penstock.views.manifest import Manifest
from penstock.views.tick_log import TickLog
from tests.views.on_cluster import DEEDS
from tests.views.script import Script, check_run, contents_by_frontier, leftovers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests/store/s3_server.py"


KEYS = Credentials("tester", "a-secret-nobody-may-see")


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[ObjectStore]:
    """A bucket of an S3 service, which tasks reach as the driver does."""
    with (tmp_path / "s3.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, str(SERVER)], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with closing(socket.create_connection(("127.0.0.1", port), timeout=30)):
            store = ObjectStore("lake", "state", endpoint=f"http://127.0.0.1:{port}", credentials=KEYS)
            store._bucket.service.ask("create_bucket", Bucket="lake")
        yield store
    finally:
        server.kill()
        server.communicate()


def on_cluster(folder: Path, state: ObjectStore, upto: int, shards: int) -> int:
    """Go on there; how many executors there were."""
    keys = {"AWS_ACCESS_KEY_ID": KEYS.access_key, "AWS_SECRET_ACCESS_KEY": KEYS.secret_key}
    done = subprocess.run(
        [sys.executable, "-m", "tests.views.on_cluster", str(folder), state.url, str(upto), str(shards)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | keys | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-8000:]
    return int(done.stdout)


def shards_of(store: ObjectStore) -> list[int]:
    """For each tick in how many parts state was written."""
    found = []
    for blob in store.list("pipelines/main/manifest/"):
        manifest = Manifest.decode(store.get(blob.name), blob.name)
        prefix = f"pipelines/main/runs/{manifest.tick:012d}-"
        parts = {
            it.file.removeprefix(prefix).split(".")[1].split("-")[1]
            for spines in manifest.states.values()
            for slices in spines.values()
            for it in slices
            if it.file.startswith(prefix)
        }
        found.append(len(parts))
    return found


def test_a_run_begun_on_one_machine_goes_on_on_a_cluster_with_other_shards(
    bucket: ObjectStore, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(DEEDS)
    with ps.connect(tmp_path / "calm", spark=spark) as db:
        script.go_on(db)
        expected = contents_by_frontier(db)
    folder = tmp_path / "db"
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "shards_for", lambda rows, parallelism: 2)
        with ps.connect(folder, state=bucket, spark=spark) as db:
            script.go_on(db, 2)
    assert on_cluster(folder, bucket, 5, shards=4) == 2
    with ps.connect(folder, state=bucket, spark=spark) as db:  # and back, as one shard
        script.go_on(db)
        check_run(db, script, expected)
    shards = shards_of(bucket)
    assert 1 < max(shards[:4]) <= 2
    assert max(shards) > 2
    Driver(bucket, "pipelines/main", TickLog(bucket, "pipelines/main", "the views", dict)).own()
    assert leftovers(bucket) == set()


@pytest.mark.skipif(find_spec("grpc") is None, reason="the client of Spark Connect needs pyspark[connect]")
def test_views_are_kept_right_through_spark_connect(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = str(free.getsockname()[1])
    program = [sys.executable, "-m", "tests.views.over_connect"]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*program, "serve", port],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == "serving\n", (tmp_path / "server.log").read_text()[-8000:]
        done = subprocess.run(
            [*program, "run", port, str(tmp_path)],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-8000:]
        server.kill()
