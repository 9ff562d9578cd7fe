"""One Spark session per process, made well: the caller's own where there is one, else a local one.

The settings below are for a session made here. Each has a reason; `SETTINGS` is read by the tests, so that a
setting that Spark no longer knows is found.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.errors import EngineFailed, InvalidArgument, NotFound, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "session"]

OLDEST = (4, 3)
_JAVA = "Spark needs Java 17 or later (Debian: openjdk-17-jre-headless); JAVA_HOME names the one to use."
_CONNECT_PORT = 15002
_PATIENCE = 10.0
"""Seconds to wait for a Spark Connect server to be reached."""
_LOGGING = Path(__file__).with_name("log4j2.properties")

SETTINGS: Mapping[str, str] = {
    # Rows go to Python and back through a Unix-domain socket: half the cost of a Python stage.
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers keep what they have mapped and checked from tick to tick.
    "spark.python.worker.reuse": "true",
    # How many rows Python gets at a time: NumPy's cost per call is then nothing beside its cost per row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Times are UTC in a log, so they are in Spark.
    "spark.sql.session.timeZone": "UTC",
    # A shuffle on a laptop has as many partitions as there are cores to read them; steps choose their own.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A page that nobody looks at costs memory and a port.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Loopback only.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Long plans are deep, and both the analyser and the optimiser walk them by recursion.
    "spark.driver.extraJavaOptions": f"-Xss16m -Dlog4j2.configurationFile=file:{_LOGGING}",
    "spark.driver.memory": "2g",
}


def session(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, app: str = "penstock"
) -> SparkSession:
    """The session to work in.

    The active one, where there is one: then it stays as it is, and ``master`` may only say what it is. Else
    a new one: on ``master`` (``local[*]``, a cluster's address), or through Spark Connect where that begins
    with ``sc://``. ``settings`` come on top of Penstock's own.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NotFound(
            f"PySpark is not installed here ({error})",
            subject="Spark",
            hint="pip install 'pyspark>=4.3,<4.4'",
        ) from error
    active = SparkSession.getActiveSession()
    if active is None:
        active = (
            _connect(master, settings, app)
            if master is not None and master.startswith("sc://")
            else _local(master or os.environ.get("PENSTOCK_SPARK_MASTER", "local[*]"), settings, app)
        )
    elif master is not None and not _runs_on(active, master):
        raise InvalidArgument(
            f"a session is active already, and the master {master!r} was asked for",
            subject="Spark",
            hint="Leave the master out to work in the active session, or stop that one first.",
        )
    _check_version(active.version)
    return active


def _local(master: str, settings: Mapping[str, str] | None, app: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    _check_java()
    if master.startswith("local"):
        # Workers run this very Python, which has Penstock and what it needs.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**SETTINGS, **_by_cores(), **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise EngineFailed(
            f"Spark did not start on {master}: {error}",
            subject="Spark",
            hint=f"See its message above. {_JAVA}",
        ) from error


def _connect(address: str, settings: Mapping[str, str] | None, app: str) -> SparkSession:
    from pyspark.sql import SparkSession

    global _connected
    _check_reachable(address)
    builder = SparkSession.builder.remote(address).appName(app)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    _connected = address
    return made


def _check_reachable(address: str) -> None:
    """PySpark ends the process without a word where its client is not installed, and tries for minutes to
    reach a server that is not there."""
    if find_spec("grpc") is None:
        raise NotFound(
            "PySpark's client of Spark Connect is not installed here",
            subject="Spark",
            hint="pip install 'pyspark[connect]'",
        )
    try:
        place = urlsplit(address)
        with socket.create_connection((place.hostname or "", place.port or _CONNECT_PORT), _PATIENCE):
            return
    except (OSError, ValueError) as error:
        raise EngineFailed(
            f"there is no Spark Connect server at {address.partition(';')[0]}: {error}",
            subject="Spark",
            hint="Check the address, and that the server runs.",
        ) from error


_connected: str | None = None
"""The address of the Spark Connect server, where this process was connected to one here."""


def _runs_on(active: SparkSession, master: str) -> bool:
    """Whether the active session is what would be made for this master."""
    return _connected == master if master.startswith("sc://") else active.conf.get("spark.master") == master


def _by_cores() -> dict[str, str]:
    return {"spark.sql.shuffle.partitions": str(os.cpu_count() or 2)}


def _check_version(version: str) -> None:
    found = tuple(int(part) for part in version.split(".")[:2])
    if found < OLDEST:
        raise Unsupported(
            f"this session runs Spark {version}",
            subject="Spark",
            hint=f"Penstock needs Spark {'.'.join(map(str, OLDEST))} or later.",
        )


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = (
        "Install a Java runtime of version 17 or later (Debian: openjdk-17-jre-headless), or set JAVA_HOME."
    )
    if java is None or not Path(java).exists():
        raise NotFound("there is no Java, which Spark runs on", subject="Spark", hint=hint)
