"""A store in a bucket of any S3-compatible service.

`create` is a conditional write (``If-None-Match: *``), which the service decides. When its answer is lost the
request is repeated, and "somebody has the name" may then mean ourselves: so every `create` carries a
token of its own in the object's metadata, and whoever is unsure looks whose token is there.

Some services take the condition and ignore it. The first `create` of a process tries it out on an object of
its own, and refuses to go on where two writers would both win.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from penstock.errors import (
    InvalidArgument,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
    Unsupported,
)
from penstock.store.bucket import Bucket, was_refused
from penstock.store.data import Data, check_range, parts_of
from penstock.store.interface import Blob, Store, Writer
from penstock.store.names import check_name, check_prefix, is_name
from penstock.store.service import Credentials, Service, body_of

__all__ = ["Credentials", "ObjectStore"]

_LONGEST_KEY = 1024
_SMALLEST_PART = 5 << 20  # what services demand of every part but the last
_DELETES_AT_ONCE = 1000


class ObjectStore(Store):
    """Blobs as objects of ``bucket`` whose keys begin with ``prefix/``.

    ``endpoint`` is the service's address (AWS without one), ``timeout`` the seconds to wait for an answer,
    ``attempts`` how often to ask for one, ``part_size`` the bytes that a writer sends at a time.

    >>> ObjectStore("lake", "shop", endpoint="http://127.0.0.1:9000").url
    's3://lake/shop?endpoint=http%3A%2F%2F127.0.0.1%3A9000'
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        addressing: str | None = None,
        credentials: Credentials | None = None,
        timeout: float = 30.0,
        attempts: int = 5,
        pause: float = 0.2,
        part_size: int = 16 << 20,
    ) -> None:
        _check_options(bucket, endpoint, attempts, part_size)
        self.prefix = check_prefix(prefix).rstrip("/")
        self.part_size = part_size
        service = Service(
            endpoint=endpoint,
            region=region,
            addressing=addressing,
            credentials=credentials,
            timeout=timeout,
        )
        self._bucket = Bucket(service, bucket, attempts=attempts, pause=pause)
        self._root = f"{self.prefix}/" if self.prefix else ""

    @property
    def url(self) -> str:
        service = self._bucket.service
        options = {
            "endpoint": service.endpoint,
            "region": service.region,
            "addressing": service.addressing,
        }
        query = urlencode({key: value for key, value in options.items() if value})
        path = f"/{quote(self.prefix)}" if self.prefix else ""
        return f"s3://{self._bucket.name}{path}{'?' if query else ''}{query}"

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        bucket, service = self._bucket, self._bucket.service
        make = partial(
            ObjectStore,
            endpoint=service.endpoint,
            region=service.region,
            addressing=service.addressing,
            credentials=service.credentials,
            timeout=service.timeout,
            attempts=bucket.attempts,
            pause=bucket.pause,
            part_size=self.part_size,
        )
        return make, (bucket.name, self.prefix)

    def put(self, name: str, data: Data) -> None:
        """As the law says, where requests take turns. A request that hangs for longer than the timeout may
        still replace what a later one put, so what must not go back in time is made with `create`."""
        key, parts = self._key(name), parts_of(data)
        self._bucket.write(key, "put_object", Key=key, Body=lambda: body_of(parts))

    def create(self, name: str, data: Data) -> bool:
        key, parts = self._key(name), parts_of(data)
        token, metadata = self._bucket.token()
        return self._bucket.create(key, token, "put_object", Body=lambda: body_of(parts), Metadata=metadata)

    def writer(self, name: str) -> Writer:
        return _ObjectWriter(name, self._key(name), self._bucket, self.part_size)

    def delete(self, *names: str) -> None:
        keys = [self._key(name) for name in names]
        if len(keys) == 1:
            self._bucket.write(keys[0], "delete_object", Key=keys[0])
            return
        for start in range(0, len(keys), _DELETES_AT_ONCE):
            some = keys[start : start + _DELETES_AT_ONCE]
            objects = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            answer = self._bucket.write(some[0], "delete_objects", Delete=objects)
            for failed in answer.get("Errors", ()):
                raise OutcomeUnknown(
                    f"{len(answer['Errors'])} of {len(some)} deletes were refused ({failed.get('Code')})",
                    subject=f"s3://{self._bucket.name}/{failed.get('Key')}",
                    hint="Deleting again does no harm, once the service lets these credentials delete.",
                )

    def collect_leftovers(self, older_than: timedelta) -> int:
        limit = datetime.now(UTC) - older_than
        count = 0
        marker: dict[str, str] = {}
        while True:
            page = self._bucket.read(self._root, "list_multipart_uploads", Prefix=self._root, **marker)
            for upload in page.get("Uploads", ()):
                if upload["Initiated"] <= limit:
                    key, number = upload["Key"], upload["UploadId"]
                    try:
                        self._bucket.aside(key, "abort_multipart_upload", Key=key, UploadId=number)
                    except StoreUnavailable as error:
                        if not was_refused(error, 404, "NoSuchUpload"):
                            raise
                    else:  # otherwise its writer came to an end meanwhile
                        count += 1
            if not page.get("IsTruncated"):
                return count
            marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def get(self, name: str) -> bytes:
        key = self._key(name)
        content: bytes = self._bucket.read(key, "get_object", Key=key)["Body"]
        return content

    def read(self, name: str, start: int, length: int) -> bytes:
        check_range(name, start, length)
        if not length:
            self.stat(name)  # there is no range of no bytes to ask for
            return b""
        key = self._key(name)
        try:
            span = f"bytes={start}-{start + length - 1}"
            answer = self._bucket.read(key, "get_object", Key=key, Range=span)
        except StoreUnavailable as error:
            if was_refused(error, 416):
                return b""
            raise
        content: bytes = answer["Body"]
        if answer["ResponseMetadata"]["HTTPStatusCode"] != 206:  # a service without ranges sends it all
            content = content[start : start + length]
        return content

    def map(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.get(name))

    def stat(self, name: str) -> Blob:
        key = self._key(name)
        found = self._bucket.read(key, "head_object", Key=key)
        return Blob(name, found["ContentLength"], found["LastModified"])

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Blob]:
        check_prefix(prefix)
        return self._pages(self._root + prefix, after)

    def _pages(self, prefix: str, after: str) -> Iterator[Blob]:
        position = {"StartAfter": self._root + after} if after else {}
        last = ""
        while True:
            page = self._bucket.read(prefix, "list_objects_v2", Prefix=prefix, **position)
            for found in page.get("Contents", ()):
                name: str = found["Key"].removeprefix(self._root)
                if name <= last:
                    raise _unsorted(self.url)
                last = name
                if is_name(name) and name > after:
                    yield Blob(name, found["Size"], found["LastModified"])
            if not page.get("IsTruncated"):
                return
            position = {"ContinuationToken": page["NextContinuationToken"]}

    def _key(self, name: str) -> str:
        key = self._root + check_name(name)
        if len(key.encode()) > _LONGEST_KEY:
            raise InvalidArgument(
                f"with the store's prefix it has more than {_LONGEST_KEY} bytes",
                subject=f"blob name {name[:60]!r}…",
                hint="Give the store a shorter prefix, or the blob a shorter name.",
            )
        return key


class _ObjectWriter(Writer):
    """Sends parts of one size as they fill up; a blob of less than one is a `create` like any other."""

    def __init__(self, name: str, key: str, bucket: Bucket, part_size: int) -> None:
        super().__init__(name)
        self._key = key
        self._bucket = bucket
        self._part_size = part_size
        self._gathered = bytearray()
        self._upload = ""
        self._etags: list[str] = []
        self._token, self._metadata = bucket.token()

    def _append(self, parts: list[memoryview]) -> None:
        for part in parts:
            start = 0
            while start < part.nbytes:
                piece = part[start : start + self._part_size - len(self._gathered)]
                self._gathered += piece
                start += piece.nbytes
                if len(self._gathered) == self._part_size:
                    self._send()

    def _publish(self) -> bool:
        if not self._upload:
            body = bytes(self._gathered)
            return self._bucket.create(
                self._key, self._token, "put_object", Body=body, Metadata=self._metadata
            )
        if self._gathered:
            self._send()
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(self._etags, 1)]
        won = self._bucket.create(
            self._key,
            self._token,
            "complete_multipart_upload",
            UploadId=self._upload,
            MultipartUpload={"Parts": parts},
        )
        if won:
            self._upload = ""
        return won

    def _discard(self) -> None:
        self._gathered = bytearray()
        if self._upload:
            with suppress(PenstockError):  # then it is a leftover, like those of dead writers
                self._bucket.aside(self._key, "abort_multipart_upload", Key=self._key, UploadId=self._upload)

    def _send(self) -> None:
        if not self._upload:
            answer = self._bucket.aside(
                self._key, "create_multipart_upload", Key=self._key, Metadata=self._metadata
            )
            self._upload = answer["UploadId"]
        body = bytes(self._gathered)
        self._gathered = bytearray()
        answer = self._bucket.aside(
            self._key,
            "upload_part",
            Key=self._key,
            UploadId=self._upload,
            PartNumber=len(self._etags) + 1,
            Body=body,
        )
        self._etags.append(answer["ETag"])


def _check_options(bucket: str, endpoint: str | None, attempts: int, part_size: int) -> None:
    fault = None
    if not bucket or "/" in bucket or "@" in bucket:
        fault = "the bucket's name is not one"
    elif attempts < 1:
        fault = f"{attempts} attempts are none"
    elif part_size < _SMALLEST_PART:
        fault = f"parts of {part_size} bytes are smaller than services take ({_SMALLEST_PART})"
    elif endpoint is not None:
        address = urlsplit(endpoint)
        if address.scheme not in ("http", "https") or not address.hostname or address.query:
            fault = "the endpoint is not an http:// or https:// address"
        elif "@" in address.netloc:
            fault = "the endpoint holds credentials"
    if fault:
        raise InvalidArgument(
            fault,
            subject="ObjectStore",
            hint="Give bucket='lake', endpoint='https://host:port', and keys as credentials=Credentials(…).",
        )


def _unsorted(url: str) -> Unsupported:
    return Unsupported(
        "the service does not list its objects in order",
        subject=url,
        hint="Use a general-purpose bucket; directory buckets list in no order.",
    )
