"""Drivers that are killed at any moment: run by the tests as a program.

A driver's life is a child that opens the database, goes on with the script where the last one left it, and
is killed by SIGKILL. Then the next one comes. What costs time, a Java runtime, is shared: this process starts
it, and each child works in it, as a driver works on a cluster that outlives it. So a killed driver's tasks go
on and write what nobody waits for any more. Now and then the Java runtime is killed too, with all its tasks.
Prints how many drivers were killed at work, and how many of them with their Java runtime.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import penstock as ps
from penstock.spark import SETTINGS
from tests.log.killed_logs import end_of, fork, read_until
from tests.views.script import Script

DEEDS = 20
WITH_JAVA = 12  # every so manieth is killed with its Java runtime
CONF = {
    **SETTINGS,
    "spark.master": "local[2]",
    "spark.app.name": "killed",
    "spark.sql.shuffle.partitions": "2",
}
Tell = Callable[..., None]


class Java:
    """A Java runtime for children to work in."""

    def __init__(self) -> None:
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        self._gateway: JavaGateway = launch_gateway(SparkConf(loadDefaults=False).setAll(list(CONF.items())))
        parameters = self._gateway.gateway_parameters
        os.environ["PYSPARK_GATEWAY_PORT"] = str(parameters.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = parameters.auth_token

    def kill(self) -> None:
        process = self._gateway.proc
        process.kill()
        process.wait()


def attached() -> SparkSession:
    """A session in the Java runtime that is there, whoever began what goes on in it."""
    gateway = launch_gateway()
    java = gateway.jvm
    conf = java.org.apache.spark.SparkConf(False)
    for name, value in CONF.items():
        conf.set(name, value)
    context = java.org.apache.spark.SparkContext.getOrCreate(conf)
    java_context = java.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(context)
    return SparkSession(SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=conf)))


def live(folder: Path, script: Script, tell: Tell) -> None:
    """Go on with the script, to its end if nobody comes between."""
    with ps.connect(folder, spark=attached()) as db:
        tell("begun")
        script.go_on(db, told=lambda done: tell("done", done))


def take_over(folder: Path, tell: Tell) -> None:
    """Open what a run has left, once no task of a dead driver is at work any more."""
    spark = attached()
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    with ps.connect(folder, spark=spark) as db:
        tell("begun")
        assert db.refresh() == []


def whole(child: Callable[[Tell], None]) -> float:
    """Let a child come to its end; the seconds from its first word to that."""
    process, out = fork(child)
    told = os.read(out, 1 << 16)
    started = time.monotonic()
    status, rest = end_of(process, out)
    assert status == 0, "the driver failed by itself"
    assert b"begun" in told + rest
    return time.monotonic() - started


def lives(root: Path, wanted: int, seed: int) -> tuple[int, int]:
    """An undisturbed run, and then others until so many drivers were killed at work."""
    chance = random.Random(seed)
    script = Script(DEEDS)
    java = Java()
    tick = whole(lambda tell: live(root / "calm", script, tell)) / DEEDS / 2  # it is slow at first
    usual = span = whole(lambda tell: take_over(root / "calm", tell)) + tick
    killed = with_java = 0
    for number in itertools.count():
        folder = root / f"killed{number}"
        ended = False
        while not ended:
            if killed >= wanted:
                whole(lambda tell: live(folder, script, tell))  # noqa: B023 - it is run at once
                break
            process, out = fork(lambda tell: live(folder, script, tell))  # noqa: B023
            told = b""
            if chance.random() < 0.9:
                told = os.read(out, 1 << 16)  # it is at work now
            told += read_until(out, time.monotonic() + chance.random() * span)
            os.kill(process, signal.SIGKILL)
            status, rest = end_of(process, out)
            told += rest
            assert status == 0 or os.WIFSIGNALED(status), "the driver failed by itself"
            ended = status == 0
            if b"begun" in told and not ended:
                killed += 1
                # A Java runtime that was just started is slow: who never came to a deed is given more time.
                span = max(0.9 * span, usual) if b"done" in told else 1.1 * span
                if killed % WITH_JAVA == 0:
                    java.kill()
                    java = Java()
                    with_java += 1
        whole(lambda tell: take_over(folder, tell))  # noqa: B023
        if killed >= wanted:
            java.kill()
            return killed, with_java
    raise AssertionError("it goes on until enough were killed")


def main(folder: str, wanted: str, seed: str) -> None:
    print(*lives(Path(folder), int(wanted), int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
