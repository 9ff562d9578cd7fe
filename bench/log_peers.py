"""What the log is held against: a Redis stream and a SQLite table, each written and read as its users would.

Redis' server has to be on this machine; its Python client is installed into a virtual environment of its own
under ``.cache/``, so that Penstock does not depend on it.
"""

from __future__ import annotations

import importlib
import shutil
import site
import sqlite3
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.log_events import BATCH, Row

__all__ = ["Missing", "RedisStream", "SQLiteTable", "redis_stream", "sqlite_table"]

_CLIENT = Path(".cache/bench-peers")
_PACKAGES = (
    "redis>=6,<9",
    "hiredis>=3,<4",
)  # hiredis: the parser in C, which redis-py takes when it is there
_READY = "Ready to accept connections"


class Missing(Exception):
    """A peer cannot be measured here; the text says what to do about it."""


class RedisStream:
    """One stream: `XADD` pipelined, a batch at a time; `XREAD`, a batch at a time."""

    def __init__(self, client: Any, about: str) -> None:
        self._client = client
        self.about = about

    def clear(self) -> None:
        self._client.delete("orders")

    def write(self, batches: Sequence[Sequence[bytes]]) -> None:
        for batch in batches:
            pipeline = self._client.pipeline(transaction=False)
            for event in batch:
                pipeline.xadd("orders", {b"event": event})
            pipeline.execute()

    def read(self) -> int:
        """All events, as the client gives them: undecoded bytes."""
        events, last = 0, b"0"
        while found := self._client.xread({"orders": last}, count=BATCH):
            entries = _entries(found)
            events, last = events + len(entries), entries[-1][0]
        return events


def _entries(found: Any) -> Any:
    """The entries of the one stream in an answer: redis-py gives a list, or a dictionary (RESP3)."""
    if isinstance(found, dict):
        (entries,) = found.values()
        return entries[0] if len(entries) == 1 and isinstance(entries[0], list) else entries
    return found[0][1]


class SQLiteTable:
    """One table in WAL mode, one row per event: `executemany` in a transaction per batch."""

    about = f"SQLite {sqlite3.sqlite_version}: WAL, synchronous=NORMAL, executemany in transactions"

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        for told in ("journal_mode=WAL", "synchronous=NORMAL"):
            self._database.execute(f"PRAGMA {told}")
        self.clear()

    def clear(self) -> None:
        self._database.execute("DROP TABLE IF EXISTS orders")
        self._database.execute(
            "CREATE TABLE orders (lsn INTEGER PRIMARY KEY, op INTEGER DEFAULT 0, id INTEGER, customer TEXT, "
            "product TEXT, amount REAL, count INTEGER, placed INTEGER)"
        )
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def write(self, batches: Sequence[Sequence[Row]]) -> None:
        names = "id, customer, product, amount, count, placed"
        for batch in batches:
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO orders ({names}) VALUES (?, ?, ?, ?, ?, ?)", batch)
            self._database.execute("COMMIT")

    def read(self) -> int:
        """All events, as the client gives them: tuples."""
        events = 0
        while found := self._database.execute(
            "SELECT * FROM orders WHERE lsn > ? ORDER BY lsn LIMIT ?", (events, BATCH)
        ).fetchall():
            events = found[-1][0]
        return events

    def close(self) -> None:
        self._database.close()


@contextmanager
def sqlite_table(folder: Path) -> Iterator[SQLiteTable]:
    table = SQLiteTable(folder / "orders.sqlite")
    try:
        yield table
    finally:
        table.close()


@contextmanager
def redis_stream(folder: Path) -> Iterator[RedisStream]:
    """A server of our own on a socket that nobody else knows, its file in ``folder``; stopped at the end."""
    server = shutil.which("redis-server")
    if server is None:
        raise Missing("there is no redis-server on this machine: apt-get install -y redis-server")
    redis = _client()
    with tempfile.TemporaryDirectory() as short:  # the path of a socket may have some 100 bytes only
        socket = f"{short}/socket"
        told = f"--port 0 --unixsocket {socket} --dir {folder} --appendonly yes --appendfsync everysec"
        process = subprocess.Popen(
            [server, *told.split(), "--save", ""], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            _await_ready(process)
            client = redis.Redis(unix_socket_path=socket)
            version = client.info("server")["redis_version"]
            about = (
                f"Redis {version}: stream, appendonly, appendfsync everysec, one field per event; "
                f"redis-py {redis.__version__} with hiredis, unix socket"
            )
            yield RedisStream(client, about)
            client.close()
        finally:
            process.terminate()
            process.communicate()


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line)
        if _READY.lower() in line.lower():
            return
    raise Missing("redis-server did not start: " + "".join(told[-3:]).strip())


def _client() -> Any:
    """redis-py, from an environment that this bench makes the first time."""
    wanted = f"{sys.version_info[:2]} {_PACKAGES}"
    stamp = _CLIENT / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"bench: installing {' and '.join(_PACKAGES)} into {_CLIENT}", file=sys.stderr)
        venv.create(_CLIENT, clear=True)
        pip = [sys.executable, "-m", "pip", "--python", str(_CLIENT / "bin/python"), "install", "-q"]
        done = subprocess.run(
            [*pip, "--disable-pip-version-check", *_PACKAGES], capture_output=True, text=True
        )
        if done.returncode:
            raise Missing(f"redis-py could not be installed: {done.stderr.strip().splitlines()[-1]}")
        stamp.write_text(wanted)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site.addsitedir(str((_CLIENT / "lib" / version / "site-packages").absolute()))
    return importlib.import_module("redis")
