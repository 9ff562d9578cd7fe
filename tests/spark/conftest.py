"""The Spark session of the process."""

from tests.views.conftest import spark

__all__ = ["spark"]
