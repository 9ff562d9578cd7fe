"""Single steps on a file system, each as durable as it can be made, and what its errors mean."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import (
    AccessDenied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
)

__all__ = [
    "TEMPORARY",
    "certain",
    "hard_links_work",
    "locked",
    "read_range",
    "remove_if_there",
    "sync_data",
    "sync_file",
    "sync_folder",
    "temporary_file",
    "told",
    "write_all",
]

TEMPORARY = ".tmp-"  # how the name of a file begins that is not a blob yet, and perhaps never will be

_AT_ONCE = min(os.sysconf("SC_IOV_MAX"), 1024)
_NOTHING_TO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}  # a file system whose folders are not files
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


def temporary_file(folder: Path) -> tuple[int, Path]:
    """A new file of a name that nobody else has, open for writing: descriptor and path."""
    path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), path


def write_all(descriptor: int, parts: Sequence[memoryview]) -> int:
    """Append all parts, without joining them; return how many bytes they are."""
    total = sum([part.nbytes for part in parts])
    if not total:
        return 0
    written = os.writev(descriptor, parts[:_AT_ONCE])
    if written < total:
        _write_rest(descriptor, list(parts), written)
    return total


def _write_rest(descriptor: int, queue: list[memoryview], written: int) -> None:
    """Go on after so many bytes: the system takes so many parts at once, and at times not all of them."""
    done = 0
    while True:
        while done < len(queue) and written >= queue[done].nbytes:
            written -= queue[done].nbytes
            done += 1
        if done == len(queue):
            return
        queue[done] = queue[done][written:]
        written = os.writev(descriptor, queue[done : done + _AT_ONCE])


def read_range(path: Path, start: int, length: int) -> bytes:
    """The bytes from ``start`` on, as many as there are up to ``length``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        left = min(length, max(found.st_size - start, 0))
        pieces = []
        while left and (piece := os.pread(descriptor, left, start)):
            pieces.append(piece)
            start += len(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(descriptor)


def sync_file(descriptor: int) -> None:
    """Return when the file's bytes are where a loss of power does not reach them."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOTHING_TO_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """As `sync_file`, without times and other facts that reading the bytes back does not need."""
    if _FULL_SYNC is not None or not hasattr(os, "fdatasync"):
        sync_file(descriptor)
    else:
        os.fdatasync(descriptor)


def sync_folder(path: Path) -> None:
    """Return when the folder's entries are where a loss of power does not reach them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise
    finally:
        os.close(descriptor)


def remove_if_there(path: Path) -> None:
    """Remove a temporary file. One that cannot be removed is a leftover like those of dead writers."""
    with suppress(OSError):
        path.unlink()


def hard_links_work(folder: Path) -> bool:
    """Whether this file system gives a file a second name (FAT and some network shares do not)."""
    descriptor, path = temporary_file(folder)
    os.close(descriptor)
    second = path.with_name(f"{path.name}-link")
    try:
        second.hardlink_to(path)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    finally:
        remove_if_there(second)
        remove_if_there(path)
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file, among threads and processes; it goes with a process that dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def told(error: OSError, doing: str, path: Path, *, may_have_happened: bool = False) -> PenstockError:
    """What an error of the operating system means to whoever uses the store.

    >>> str(told(OSError(errno.ENOSPC, "No space left on device"), "writing", Path("/data/a")))
    '[no-space] /data/a: writing failed: No space left on device (ENOSPC). Make room, or ... then call again.'
    """
    number = error.errno or 0
    code = errno.errorcode.get(number, "no code")
    what = f"{doing} failed: {os.strerror(number) if number else error} ({code})"
    if may_have_happened:
        return OutcomeUnknown(
            what,
            subject=str(path),
            hint="Look whether the blob is there and is yours before you repeat the call.",
        )
    for numbers, kind, hint in _MEANINGS:
        if number in numbers:
            return kind(what, subject=str(path), hint=hint)
    return StoreUnavailable(
        what,
        subject=str(path),
        hint="Look into the system's log for the state of this disk or mount; then call again.",
    )


def certain(error: OSError) -> bool:
    """Whether the error says that the step was refused, rather than that its answer was lost.

    A network file system that sends a rename again finds the source gone: "no such file" is no answer.
    """
    return error.errno in _REFUSALS


_REFUSALS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG,
    errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EXDEV, errno.EMFILE, errno.ENFILE,
}  # fmt: skip

_MEANINGS: tuple[tuple[set[int], type[PenstockError], str], ...] = (
    ({errno.ENOENT, errno.ENOTDIR}, NotFound, "Look at what is there with list()."),
    (
        {errno.ENOSPC, errno.EDQUOT, errno.EFBIG},
        NoSpace,
        "Make room, or raise the quota or limit on file sizes; then call again.",
    ),
    (
        {errno.EACCES, errno.EPERM, errno.EROFS},
        AccessDenied,
        "Give this user the right to read and write there, or open the store at another place.",
    ),
    (
        {errno.EMFILE, errno.ENFILE},
        StoreUnavailable,
        "Too many files are open: raise the limit (ulimit -n), or close some.",
    ),
)
