"""Folders that outlast a loss of power."""

from __future__ import annotations

import errno
from pathlib import Path

from penstock.errors import AlreadyExists
from penstock.store import files

__all__ = ["Folders"]


class Folders:
    """Makes folders below ``root``, and ``root`` itself, together with the way to them.

    A file's name is durable once its folder is synced, and a folder's name is an entry like any other: so
    the folder above is synced too, all the way up. A folder found here may have been made a moment
    ago by somebody who has not synced yet, hence each is synced once whoever made it, then remembered.
    """

    def __init__(self, root: Path, *, fsync: bool) -> None:
        self._root = root
        self._fsync = fsync
        self._known: set[Path] = set()

    def make(self, folder: Path) -> None:
        """Return when the folder is there and durable. Free when it was asked for before.

        `FileNotFoundError` says that a folder which was there was removed since: `forget`, and ask again.
        """
        if folder in self._known:
            return
        try:
            if folder == self._root:
                self._make_root()
            else:
                self.make(folder.parent)
                self._make(folder)
                self._sync(folder.parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise files.told(error, "making the folder", folder) from error
        self._known.add(folder)

    def forget(self) -> None:
        """Look at every folder again: somebody removed one."""
        self._known.clear()

    def _make_root(self) -> None:
        missing = [self._root]
        while not missing[-1].is_dir():
            missing.append(missing[-1].parent)
        found = missing.pop()
        for folder in reversed(missing):
            self._make(folder)
            self._sync(folder.parent)
        while not found.is_mount():
            found = found.parent
            try:
                self._sync(found)
            except OSError as error:
                if error.errno != errno.EACCES:  # not ours to open, so nobody like us has made it
                    raise

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir()
        except (FileExistsError, NotADirectoryError) as error:
            if not folder.is_dir():
                raise AlreadyExists(
                    "there is a blob, or another file, where a folder is needed",
                    subject=str(folder),
                    hint="Give blobs names that are not below another blob's name.",
                ) from error

    def _sync(self, folder: Path) -> None:
        if self._fsync:
            files.sync_folder(folder)
