"""Errors of ours, from a Python worker to the driver.

Spark hands on no more than an error's text. So a stage leaves what it raised in a blob beside the
registrations, where the driver looks when a job has failed.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass

import orjson

from penstock import errors
from penstock.errors import PenstockError
from penstock.spark.step import Batches, Place, Stage

__all__ = ["Guarded", "error_told"]

_ERRORS = "error-"


@dataclass(frozen=True)
class Guarded:
    """A stage whose errors the driver finds."""

    stage: Stage
    place: Place

    def __call__(self, batches: Batches) -> Batches:
        try:
            yield from self.stage(batches)
        except PenstockError as error:
            told = {
                "kind": type(error).__name__,
                "what": error.what,
                "subject": error.subject,
                "hint": error.hint,
            }
            name = f"{self.place.steps}.{_ERRORS}{uuid.uuid4().hex}"
            with suppress(PenstockError):  # then its text is all that comes
                self.place.scratch.create(name, orjson.dumps(told))
            raise


def error_told(error: Exception, place: Place) -> PenstockError | None:
    """The error of ours that Spark's is about, if it is about one: others may have been got over by then."""
    text = str(error)
    for blob in place.scratch.list(f"{place.steps}.{_ERRORS}"):
        told = orjson.loads(place.scratch.get(blob.name))
        if told["what"] in text:
            kind: type[PenstockError] = getattr(errors, told["kind"])
            return kind(told["what"], subject=told["subject"], hint=told["hint"])
    return None
