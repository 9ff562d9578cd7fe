"""Where bytes live: blobs by name in a folder, in memory or in an object store, behind one interface."""

from penstock.store.interface import Blob, Store, Writer
from penstock.store.local import LocalStore
from penstock.store.memory import MemoryStore
from penstock.store.objects import Credentials, ObjectStore
from penstock.store.opening import open_store

__all__ = [
    "Blob",
    "Credentials",
    "LocalStore",
    "MemoryStore",
    "ObjectStore",
    "Store",
    "Writer",
    "open_store",
]
