"""One S3-compatible service, asked once at a time, and the three ways in which it can fail to say yes.

This is the only file that imports the client (botocore), and only when something is asked. The client's own
repeating is off: it turns the answer "somebody has the name" to a repeated request into a loss, when the
first request, whose answer was lost, had won.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidArgument, Unsupported
from penstock.store.data import joined

__all__ = ["Busy", "Credentials", "Failure", "Lost", "Refused", "Service", "body_of"]

_loaders: dict[str | None, Any] = {}

_JOINED = 1 << 20  # up to this many bytes one copy is cheaper than a reader


class Failure(Exception):
    """No yes. ``what`` says what came instead, with the service's own code; never a secret."""

    def __init__(self, what: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.status = status
        self.code = code


class Refused(Failure):
    """The service said no. Nothing was changed, and asking again will not help."""


class Busy(Failure):
    """The request never got there, or the service was too busy. Nothing was changed; ask again."""


class Lost(Failure):
    """The request was sent and no clear answer came. It may have been done."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys to a service. Not shown by `repr`, and not part of a store's address."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Service:
    """Where the service is and how it is reached. Thread safe, and a forked child connects anew.

    Without ``credentials`` they are found as the AWS tools find them: environment, profile, role.
    """

    def __init__(
        self,
        *,
        endpoint: str | None,
        region: str | None,
        addressing: str | None,
        credentials: Credentials | None,
        timeout: float,
    ) -> None:
        self.endpoint = endpoint
        self.region = region
        self.addressing = addressing
        self.credentials = credentials
        self.timeout = timeout
        self._clients: dict[int, Any] = {}
        self._lock = threading.Lock()

    def ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """One request. Returns the answer, a body that comes with it read whole; or raises a `Failure`."""
        client = self._client()
        try:
            answer: dict[str, Any] = getattr(client, operation)(**parameters)
            if "Body" in answer:
                with answer["Body"] as stream:
                    answer["Body"] = stream.read()
        except Exception as error:
            failure = _judged(error)
            if failure is None:
                raise
            raise failure from error
        return answer

    def _client(self) -> Any:
        process = os.getpid()  # connections do not survive a fork
        with self._lock:
            if process not in self._clients:
                self._clients[process] = self._connect()
            return self._clients[process]

    def _connect(self) -> Any:
        try:
            import botocore.config
            import botocore.exceptions
            import botocore.loaders
            import botocore.session
        except ImportError as error:
            raise Unsupported(
                "the client for S3-compatible services is not installed",
                subject="botocore",
                hint="Install it: pip install 'penstock[s3]'.",
            ) from error
        session = botocore.session.get_session()
        keys = self.credentials
        try:
            # What the client knows of the service is read from large files: once, and not by each session.
            known = session.get_config_variable("data_path")
            if known not in _loaders:
                _loaders[known] = botocore.loaders.create_loader(known)
            session.register_component("data_loader", _loaders[known])
            config = botocore.config.Config(
                connect_timeout=min(5.0, self.timeout),
                read_timeout=self.timeout,
                max_pool_connections=32,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": self.addressing or ("path" if self.endpoint else "auto")},
                # Checksums in trailers are news to many services; the signature covers the bytes already.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            )
            client = session.create_client(
                "s3",
                region_name=self.region or session.get_config_variable("region") or "us-east-1",
                endpoint_url=self.endpoint,
                aws_access_key_id=keys.access_key if keys else None,
                aws_secret_access_key=keys.secret_key if keys else None,
                aws_session_token=keys.session_token if keys else None,
                config=config,
            )
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise InvalidArgument(
                f"the client refuses these settings ({type(error).__name__})",
                subject=f"service {self.endpoint or 'AWS'}",
                hint="Check endpoint, region, addressing (path, virtual or auto) and the AWS profile.",
            ) from error
        client.meta.events.register_last("before-call.s3", _send_small_bodies_at_once)
        return client


def _send_small_bodies_at_once(params: dict[str, Any], **_: Any) -> None:
    """The client asks leave before it sends any body: a round trip, or a second where nobody answers that."""
    if not isinstance(params.get("body"), _Reader):
        params["headers"].pop("Expect", None)


def body_of(parts: Sequence[memoryview]) -> bytes | io.RawIOBase:
    """The parts as a request's body; many bytes are read from where they lie. One body serves one request."""
    return joined(parts) if sum(part.nbytes for part in parts) <= _JOINED else _Reader(parts)


class _Reader(io.RawIOBase):
    """A file over parts: what a client wants of a body it does not get as `bytes`."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self._parts = parts
        self._size = sum(part.nbytes for part in parts)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, target: Any) -> int:
        room = memoryview(target).cast("B")
        skip, filled = self._at, 0
        for part in self._parts:
            piece = part[skip : skip + len(room) - filled]
            skip = max(skip - part.nbytes, 0)
            room[filled : filled + len(piece)] = piece
            filled += len(piece)
            if filled == len(room):
                break
        self._at += filled
        return filled


_BUSY = {
    "ConditionalRequestConflict",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",  # the service gave up waiting for the rest of the body
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
_SAYS_NO = {501, 505, 507}


def _judged(error: Exception) -> Failure | None:
    """What the client's error says about the request; None when it is no error of the client."""
    import botocore.exceptions as client
    import urllib3.exceptions as transport

    kind = type(error).__name__
    if isinstance(error, client.ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        code = str(error.response.get("Error", {}).get("Code", ""))
        what = f"the service answered {status} {code}".rstrip()
        if code in _BUSY or status == 429:
            return Busy(what, status=status, code=code)
        if status >= 500 and status not in _SAYS_NO:
            return Lost(what, status=status, code=code)
        return Refused(what, status=status, code=code)
    if isinstance(error, client.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return Refused("the service's certificate is not trusted", code="Certificate")
    if isinstance(
        error, client.EndpointConnectionError | client.ConnectTimeoutError | client.ProxyConnectionError
    ):
        return Busy(f"the service cannot be reached ({kind})")
    if isinstance(
        error,
        client.HTTPClientError
        | client.ConnectionError
        | client.IncompleteReadError
        | transport.HTTPError
        | OSError,
    ):
        return Lost(f"the connection failed before the answer was there ({kind})")
    if isinstance(error, client.BotoCoreError):  # raised before anything was sent
        keys = "Credential" in kind or "Token" in kind or "SSO" in kind
        return Refused(f"the client refused ({kind})", code="NoCredentials" if keys else kind)
    return None
