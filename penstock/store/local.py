"""A store in a folder of a file system. How a blob gets its name is told in `penstock.store.placing`.

Folders, once made, stay: a name that has names below it is never a blob's. Files whose name begins with a
dot are not blobs and are never touched, except temporary files by `LocalStore.collect_leftovers`.
"""

from __future__ import annotations

import os
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from penstock.errors import NotFound
from penstock.store import files
from penstock.store.data import Data, check_range, parts_of
from penstock.store.interface import Blob, Store, Writer
from penstock.store.names import check_name, check_prefix, is_name
from penstock.store.placing import Placing

__all__ = ["LocalStore"]

_WHOLE = 1 << 62  # more bytes than any file has
_GATHERED = 1 << 20  # a writer gathers what is small until there are this many bytes
_SMALL = 1 << 16


class LocalStore(Store):
    """Blobs as files below ``path``, which is made when the first blob is.

    ``fsync=False`` gives up what the laws say of a loss of power, for tests and scratch; a killed process
    still harms nothing. Whether the file system has hard links is found out unless given; without them
    a lock file in the root takes their part, which counts among writers whose locks reach one another.

    >>> import tempfile
    >>> store = LocalStore(tempfile.mkdtemp())
    >>> store.create("manifest/1", b"one"), store.create("manifest/1", b"other"), store.get("manifest/1")
    (True, False, b'one')
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fsync: bool = True, hard_links: bool | None = None
    ) -> None:
        self.path = Path(path).absolute()
        self.fsync = fsync
        self._placing = Placing(self.path, fsync=fsync, hard_links=hard_links)

    @property
    def url(self) -> str:
        return f"file://{quote(str(self.path))}{'' if self.fsync else '?fsync=false'}"

    def __repr__(self) -> str:
        return f"LocalStore({str(self.path)!r}{'' if self.fsync else ', fsync=False'})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(LocalStore, fsync=self.fsync, hard_links=self._placing.hard_links), (self.path,)

    def put(self, name: str, data: Data) -> None:
        place = self._place(name)
        with self._placing.written(place, parts_of(data)) as temporary:
            self._placing.replace(temporary, place)

    def create(self, name: str, data: Data) -> bool:
        place = self._place(name)
        parts = parts_of(data)
        if self._placing.taken(place):  # the loser of an old race learns it without writing anything
            return False
        with self._placing.written(place, parts) as temporary:
            return self._placing.create(temporary, place)

    def writer(self, name: str) -> Writer:
        return _LocalWriter(name, self._place(name), self._placing)

    def delete(self, *names: str) -> None:
        places = [self._place(name) for name in names]
        touched: dict[Path, None] = {}
        for place in places:
            try:
                place.unlink()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if place.is_dir():
                    continue
                unsure = bool(touched) or not files.certain(error)
                raise files.told(error, "deleting", place, may_have_happened=unsure) from error
            touched[place.parent] = None
        for folder in touched:
            self._placing.sync_names(folder)

    def collect_leftovers(self, older_than: timedelta) -> int:
        limit = time.time() - older_than.total_seconds()
        count = 0
        try:
            for folder, _, names in os.walk(self.path, onerror=_raise_unless_gone):
                for path in (Path(folder, name) for name in names if name.startswith(files.TEMPORARY)):
                    with suppress(FileNotFoundError):  # its writer came to an end meanwhile
                        if path.lstat().st_mtime <= limit:
                            path.unlink()
                            count += 1
        except OSError as error:
            raise files.told(error, "collecting leftovers", self.path) from error
        return count

    def get(self, name: str) -> bytes:
        return self._read(name, 0, _WHOLE)

    def read(self, name: str, start: int, length: int) -> bytes:
        check_range(name, start, length)
        return self._read(name, start, length)

    def map(self, name: str) -> pa.Buffer:
        place = self._place(name)
        _file_at(place)
        try:
            return pa.memory_map(str(place)).read_buffer()
        except OSError as error:
            raise files.told(error, "mapping", place) from error

    def stat(self, name: str) -> Blob:
        return _blob(name, _file_at(self._place(name)))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Blob]:
        check_prefix(prefix)
        return _walk(self.path, prefix.rpartition("/")[0], prefix, after)

    def _place(self, name: str) -> Path:
        return self.path / check_name(name)

    def _read(self, name: str, start: int, length: int) -> bytes:
        place = self._place(name)
        try:
            return files.read_range(place, start, length)
        except IsADirectoryError as error:
            raise _no_blob(place) from error
        except OSError as error:
            raise files.told(error, "reading", place) from error


class _LocalWriter(Writer):
    """Appends to the temporary file. Dropped without a word it leaves that behind, but no descriptor."""

    def __init__(self, name: str, place: Path, placing: Placing) -> None:
        super().__init__(name)
        self._place = place
        self._placing = placing
        self._gathered = bytearray()
        self._descriptor, self._temporary = placing.begin(place)
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def flush(self) -> None:
        super().flush()
        self._write_out()

    def _append(self, parts: list[memoryview]) -> None:
        for part in parts:
            if part.nbytes < _SMALL:
                self._gathered += part
                if len(self._gathered) >= _GATHERED:
                    self._write_out()
            else:
                self._write_out(part)

    def _publish(self) -> bool:
        self._write_out()
        try:
            self._placing.sync(self._descriptor)
            self._close()
        except OSError as error:
            raise files.told(error, "writing", self._place) from error
        return self._placing.create(self._temporary, self._place)

    def _discard(self) -> None:
        with suppress(OSError):  # the file goes with all that could not be written to it
            self._close()
        files.remove_if_there(self._temporary)

    def _write_out(self, *more: memoryview) -> None:
        gathered, self._gathered = self._gathered, bytearray()
        try:
            files.write_all(self._descriptor, [memoryview(gathered), *more] if gathered else more)
        except OSError as error:
            raise files.told(error, "writing", self._place) from error


def _walk(root: Path, folder: str, prefix: str, after: str) -> Iterator[Blob]:
    """Depth first. A folder sorts with its '/', so names come in order while one folder at a time is held."""
    path = root / folder
    try:
        with os.scandir(path) as found:
            entries = sorted(
                (f"{entry.name}/" if entry.is_dir() else entry.name, entry)
                for entry in found
                if not entry.name.startswith(".")
            )
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise files.told(error, "listing", path) from error
    above = f"{folder}/" if folder else ""
    for last, entry in entries:
        name = above + last
        if last.endswith("/"):
            wanted = name.startswith(prefix) or prefix.startswith(name)
            if wanted and (name > after or after.startswith(name)):
                yield from _walk(root, name[:-1], prefix, after)
        elif name.startswith(prefix) and name > after and is_name(name):
            try:
                yield _blob(name, entry.stat())
            except FileNotFoundError:
                continue  # deleted since its folder was read
            except OSError as error:
                raise files.told(error, "listing", path / last) from error


def _file_at(place: Path) -> os.stat_result:
    try:
        found = place.stat()
    except OSError as error:
        raise files.told(error, "looking", place) from error
    if stat.S_ISDIR(found.st_mode):
        raise _no_blob(place)
    return found


def _blob(name: str, found: os.stat_result) -> Blob:
    return Blob(name, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


def _no_blob(place: Path) -> NotFound:
    return NotFound(
        "this is a folder of blobs", subject=str(place), hint="List what is in it with list(name + '/')."
    )


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
