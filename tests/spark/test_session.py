"""The session that is made, and the ways in which there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import InvalidArgument
from penstock.spark import SETTINGS, session

ROOT = Path(__file__).parents[2]
spark_tests = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


class TestWithSpark:
    pytestmark = spark_tests

    def test_every_setting_is_one_that_spark_knows(self, spark: SparkSession) -> None:
        java = spark.sparkContext._jvm
        assert java is not None
        entries = java.org.apache.spark.internal.config.ConfigEntry
        known_to_jvm = {"spark.driver.extraJavaOptions", "spark.driver.memory"}
        for name in SETTINGS:
            found = entries.findEntry(name) is not None or name in known_to_jvm
            assert found or spark.conf.isModifiable(name), f"Spark knows no {name}"

    def test_the_settings_hold(self, spark: SparkSession) -> None:
        for name, value in SETTINGS.items():
            assert spark.conf.get(name) == value

    def test_there_is_one_session_per_process(self, spark: SparkSession) -> None:
        assert session() is spark
        assert session("local[2]") is spark
        with pytest.raises(InvalidArgument, match=r"local\[7\]"):
            session("local[7]")
        with pytest.raises(InvalidArgument, match="sc://"):
            session("sc://127.0.0.1:1")


def run(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WITHOUT = """
from penstock.errors import PenstockError
from penstock.spark import session
try:
    session({master!r})
except PenstockError as error:
    print(type(error).__name__, error)
"""


def test_without_java_it_says_what_to_install() -> None:
    told = run(WITHOUT.format(master="local[1]"), JAVA_HOME="/nowhere", PATH="/nowhere")
    assert told.startswith("NotFound")
    assert "Java" in told


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    told = run(WITHOUT.format(master="sc://127.0.0.1:9/;token=x"))
    if find_spec("grpc") is None:
        assert told.startswith("NotFound")
        assert "pyspark[connect]" in told
    else:
        assert told.startswith("EngineFailed")
        assert "127.0.0.1:9" in told
        assert "token" not in told


def test_importing_penstock_loads_no_spark() -> None:
    told = run("import sys, penstock; print('pyspark' in sys.modules, 'py4j' in sys.modules)")
    assert told == "False False"
