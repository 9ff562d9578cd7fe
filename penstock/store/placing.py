"""How bytes become a blob of a folder: written aside, synced, then named in one step.

    temporary file ── write ── fsync ──┬── rename: replaces what has the name ──┬── fsync the folder
                                       └── link: fails when something has it ───┘

Before the one step nobody sees anything, after it everybody sees everything; a process that dies between
any two of these leaves at most a temporary file. Power lost before the last step may take the name back,
which is why nobody is told of it earlier.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from penstock.errors import AlreadyExists, PenstockError, StoreUnavailable
from penstock.store import files
from penstock.store.folders import Folders

__all__ = ["Placing"]

_LOCK = ".penstock-lock"


class Placing:
    """Gives blobs their names below ``root``. Holds no state but what it found out about the file system."""

    def __init__(self, root: Path, *, fsync: bool, hard_links: bool | None) -> None:
        self.fsync = fsync
        self.hard_links = hard_links
        self._lock = root / _LOCK
        self._folders = Folders(root, fsync=fsync)

    def begin(self, place: Path) -> tuple[int, Path]:
        """A temporary file beside the place: descriptor and path. Makes the folder."""
        for last_try in (False, True):
            try:
                self._folders.make(place.parent)
                if self.hard_links is None:
                    self.hard_links = files.hard_links_work(place.parent)
                return files.temporary_file(place.parent)
            except FileNotFoundError as error:
                if last_try:
                    raise files.told(error, "beginning the blob", place) from error
                self._folders.forget()  # a folder that we had made was removed
            except OSError as error:
                raise files.told(error, "beginning the blob", place) from error
        raise AssertionError("the second try returns or raises")

    @contextmanager
    def written(self, place: Path, parts: Sequence[memoryview]) -> Iterator[Path]:
        """A temporary file that holds the parts, durable but for its name, and gone in the end."""
        descriptor, temporary = self.begin(place)
        try:
            try:
                try:
                    files.write_all(descriptor, parts)
                    self.sync(descriptor)
                finally:
                    os.close(descriptor)  # may be where a network file system tells that it is full
            except OSError as error:
                raise files.told(error, "writing", place) from error
            yield temporary
        finally:
            files.remove_if_there(temporary)

    def sync(self, descriptor: int) -> None:
        """Make a file's bytes durable."""
        if self.fsync:
            files.sync_file(descriptor)

    def replace(self, temporary: Path, place: Path) -> None:
        """Give the name to the temporary file, whoever has it."""
        try:
            with self._alone():
                temporary.replace(place)
        except OSError as error:
            if place.is_dir():
                raise _is_folder(place) from error
            raise _not_named(error, temporary, place) from error
        self.sync_names(place.parent)

    def create(self, temporary: Path, place: Path) -> bool:
        """Give the name to the temporary file if nobody has it."""
        won = False
        while not won:
            try:
                with self._alone():
                    won = (
                        self._link(temporary, place) if self.hard_links else _rename_if_free(temporary, place)
                    )
            except OSError as error:
                raise _not_named(error, temporary, place) from error
            if not won and self.taken(place):
                return False  # else whoever had the name has just lost it to a delete
        self.sync_names(place.parent)
        return True

    def taken(self, place: Path) -> bool:
        """Whether there is a blob; when there is, it is durable by now."""
        try:
            found = place.lstat()
            if stat.S_ISDIR(found.st_mode):
                raise _is_folder(place)
            if self.fsync:
                self._folders.make(place.parent)
                files.sync_folder(place.parent)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise files.told(error, "looking who has the name", place) from error
        return True

    def sync_names(self, folder: Path) -> None:
        """Make what was named in or removed from the folder durable. An error comes after the fact."""
        if self.fsync:
            try:
                files.sync_folder(folder)
            except OSError as error:
                raise files.told(error, "syncing the folder", folder, may_have_happened=True) from error

    def _alone(self) -> AbstractContextManager[None]:
        """Without hard links to decide, whoever names anything does so alone."""
        return nullcontext() if self.hard_links else files.locked(self._lock)

    @staticmethod
    def _link(temporary: Path, place: Path) -> bool:
        try:
            place.hardlink_to(temporary)
        except OSError as error:
            # A network file system may repeat a request whose answer was lost, and report that the name is
            # taken: by our own first one. Nobody else knows the temporary file, so a second link is ours.
            if temporary.stat().st_nlink > 1:
                return True
            if error.errno == errno.EEXIST:
                return False
            raise
        return True


def _rename_if_free(temporary: Path, place: Path) -> bool:
    if os.path.lexists(place):
        return False
    temporary.rename(place)
    return True


def _is_folder(place: Path) -> AlreadyExists:
    return AlreadyExists(
        "there is a folder of this name",
        subject=str(place),
        hint="Give the blob a name that is not the beginning of other blobs' names.",
    )


def _not_named(error: OSError, temporary: Path, place: Path) -> PenstockError:
    if isinstance(error, FileNotFoundError) and not place.exists():
        return StoreUnavailable(
            f"the temporary file {temporary.name} is gone",
            subject=str(place),
            hint="A leftover younger than this write was collected: collect older ones, and write it again.",
        )
    return files.told(error, "naming the blob", place, may_have_happened=not files.certain(error))
