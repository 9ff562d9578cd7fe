"""Requests to one bucket, repeated until there is an answer, and what the answers mean.

A write that is repeated is one that does the same when done twice, or one that the condition guards. What
is told when the answers run out: `StoreUnavailable` when no request can have been done, else
`OutcomeUnknown`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

from penstock.errors import (
    AccessDenied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
    Unsupported,
)
from penstock.store.service import Busy, Failure, Lost, Refused, Service

__all__ = ["Bucket", "was_refused"]

_TOKEN = "penstock-token"  # noqa: S105 - the name of a piece of metadata; no secret
_LONGEST_PAUSE = 10.0

Answer = dict[str, Any]

# Endpoint, bucket, operation: where the condition is known to be heeded.
_tried: set[tuple[str | None, str, str]] = set()
_tried_lock = threading.Lock()


class Bucket:
    """A bucket of a service. At most ``attempts`` requests for one answer, with growing pauses between."""

    def __init__(self, service: Service, name: str, *, attempts: int, pause: float) -> None:
        self.service = service
        self.name = name
        self.attempts = attempts
        self.pause = pause

    def read(self, key: str, operation: str, **parameters: Any) -> Answer:
        """An answer to a question that changes nothing."""
        return self._repeat(key, operation, parameters, changes=False)

    def write(self, key: str, operation: str, **parameters: Any) -> Answer:
        """Have something done that may as well be done twice. A callable ``Body`` makes one per request."""
        return self._repeat(key, operation, parameters, changes=True)

    def aside(self, key: str, operation: str, **parameters: Any) -> Answer:
        """Like `write`, for what no reader sees: whatever became of it, nothing happened."""
        return self._repeat(key, operation, parameters, changes=False)

    def create(self, key: str, token: str, operation: str, **parameters: Any) -> bool:
        """Have the object made that carries the token, unless there is one of this key."""
        self._try_condition(key, operation)
        unsure = False
        failure: Failure | None = None
        for _ in self._attempts():
            try:
                self._ask(operation, {**parameters, "Key": key, "IfNoneMatch": "*"})
            except Lost as lost:
                failure, unsure = lost, True
            except Busy as busy:
                failure = busy
            except Refused as refused:
                failure = refused
                break
            else:
                return True
        assert failure is not None
        if not unsure:
            if failure.status == 412:
                return False
            raise self._told(failure, key, operation, unsure=False) from failure
        return self._is_ours(key, token, failure)

    def _is_ours(self, key: str, token: str, failure: Failure) -> bool:
        """Who won, when some request was sent whose answer is not known."""
        try:
            found = self.read(key, "head_object", Key=key)
        except PenstockError as error:
            # No object: ours may still be under way, or somebody has deleted it since.
            raise self._told(failure, key, "create", unsure=True) from error
        winner: bool = found.get("Metadata", {}).get(_TOKEN) == token
        return winner

    @staticmethod
    def token() -> tuple[str, dict[str, str]]:
        """A token of its own for a `create`, and the metadata that carries it."""
        token = uuid4().hex
        return token, {_TOKEN: token}

    def _try_condition(self, key: str, operation: str) -> None:
        """See once that the service does not overwrite what a conditional write finds."""
        which = (self.service.endpoint, self.name, operation)
        with _tried_lock:
            if which in _tried:
                return
        folder, slash, _ = key.rpartition("/")
        trial = f"{folder}{slash}.penstock-trial-{uuid4().hex}"  # a dot: no listing shows it
        self.aside(trial, "put_object", Key=trial, Body=b"")
        try:
            if operation == "put_object":
                self._expect_refusal(trial, operation, {"Body": b""})
            else:
                upload = self.aside(trial, "create_multipart_upload", Key=trial)["UploadId"]
                part = self.aside(trial, "upload_part", Key=trial, UploadId=upload, PartNumber=1, Body=b"")
                parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
                try:
                    self._expect_refusal(trial, operation, {"UploadId": upload, "MultipartUpload": parts})
                finally:
                    with suppress(PenstockError):
                        self.aside(trial, "abort_multipart_upload", Key=trial, UploadId=upload)
        finally:
            with suppress(PenstockError):  # no right to delete: an empty object more
                self.aside(trial, "delete_object", Key=trial)
        with _tried_lock:
            _tried.add(which)

    def _expect_refusal(self, trial: str, operation: str, parameters: dict[str, Any]) -> None:
        try:
            self.aside(trial, operation, Key=trial, IfNoneMatch="*", **parameters)
        except StoreUnavailable as error:
            if was_refused(error, 412):
                return
            raise
        raise Unsupported(
            f"the service overwrites an object in spite of 'If-None-Match: *' ({operation})",
            subject=self._address(trial),
            hint="Two writers would both believe that they won. Use a service with conditional writes.",
        )

    def _repeat(self, key: str, operation: str, parameters: dict[str, Any], *, changes: bool) -> Answer:
        unsure = False
        failure: Failure | None = None
        for _ in self._attempts():
            try:
                return self._ask(operation, parameters)
            except Refused as refused:
                failure = refused
                break
            except (Busy, Lost) as error:
                failure = error
                unsure = unsure or isinstance(error, Lost)
        assert failure is not None
        raise self._told(failure, key, operation, unsure=unsure and changes) from failure

    def _ask(self, operation: str, parameters: dict[str, Any]) -> Answer:
        made = {key: value() if callable(value) else value for key, value in parameters.items()}
        return self.service.ask(operation, Bucket=self.name, **made)

    def _attempts(self) -> Iterator[int]:
        for attempt in range(self.attempts):
            if attempt:
                longest = min(self.pause * 2 ** (attempt - 1), _LONGEST_PAUSE)
                time.sleep(longest * random.uniform(0.5, 1))  # noqa: S311 - so that many clients do not come in step
            yield attempt

    def _address(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def _told(self, failure: Failure, key: str, operation: str, *, unsure: bool) -> PenstockError:
        what = f"{operation} failed: {failure.what}"
        subject = self._address(key)
        if unsure:
            return OutcomeUnknown(
                what,
                subject=subject,
                hint="Look whether the blob is there and is yours before you repeat the call.",
            )
        if isinstance(failure, Refused):
            for said in (failure.code, failure.status):  # the code says more than the status
                for codes, kind, hint in _MEANINGS:
                    if said in codes:
                        return kind(what, subject=subject, hint=hint)
        return StoreUnavailable(
            what,
            subject=subject,
            hint="Check that the service is up and the address is right; then call again.",
        )


def was_refused(error: PenstockError, status: int, code: str = "") -> bool:
    """Whether the error stands for a refusal of this status, and of this code if one is given."""
    failure = error.__cause__
    return isinstance(failure, Refused) and failure.status == status and code in ("", failure.code)


_MEANINGS: tuple[tuple[set[object], type[PenstockError], str], ...] = (
    ({"NoSuchBucket"}, NotFound, "There is no such bucket: make it, or correct the address."),
    (
        {"NoCredentials"},
        AccessDenied,
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role, or give credentials.",
    ),
    (
        {401, 403, "ExpiredToken", "InvalidToken", "TokenRefreshRequired"},
        AccessDenied,
        "Give these credentials the right to get, put, delete and list (without s3:ListBucket a blob that "
        "is not there is forbidden too), and see that they have not expired.",
    ),
    (
        {"NoSuchUpload"},
        StoreUnavailable,
        "A leftover younger than this write was collected: collect older ones, and write it again.",
    ),
    (
        {507, "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"},
        NoSpace,
        "Make room in the bucket or raise its quota; then call again.",
    ),
    (
        {"EntityTooLarge"},
        NoSpace,
        "One request takes 5 GiB: write a blob as large as this through writer().",
    ),
    (
        {301, 307, "PermanentRedirect", "AuthorizationHeaderMalformed"},
        StoreUnavailable,
        "The bucket lives in another region: give ?region=… in the address.",
    ),
    ({501, "NotImplemented"}, Unsupported, "Use a service that has conditional writes."),
    ({404, "NoSuchKey"}, NotFound, "Look at what is there with list()."),
)
