"""The durable log: changes in order, kept, and read with a cursor that never skips in silence.

`Log` is written by one process and read by any number; `ReadableLog` is how every log is read. Reading
gives `Changes`, batch by batch as they were appended, mapped from the files. A collection with a key is also
read by ranges of its key's hash (`KeyRange`, `RangeProgress`) and watched key by key (`KeyWatch`).
A `Replica` copies a log and can take its place; `RecordReplica` follows another system's change records by
the same rules (`ApplyRules`).

Beside it stand two smaller things. `CdcBuffer` is the ring alone: the newest events in memory. `RowEmitter`
gives each row of a file that grows (`WatchedFile`) to whoever subscribed, once, as soon as it is complete; a
framing (`FixedRows`, `LogFrames`) says where rows end.

`Content` is what the changes of a collection leave: its rows as of an LSN, moved forward as the log grows.

The files are described in docs/FORMAT.md.
"""

from penstock.log.by_key import KeyedLog
from penstock.log.cdc_blocks import EVENT_SCHEMA, EventBatch
from penstock.log.cdc_buffer import CdcBuffer
from penstock.log.cdc_events import CdcEvent, CdcStats, KvWatchEvent
from penstock.log.cdc_transaction import CdcTransaction
from penstock.log.changes import Changes, Polled
from penstock.log.content import Content
from penstock.log.follower import Follower
from penstock.log.framing import FixedRows, Framing, Items, Position
from penstock.log.interface import ReadableLog
from penstock.log.kv_watch import KvWatch
from penstock.log.log import Log, LogStats, Recovered
from penstock.log.log_frames import LogFrames
from penstock.log.meta import Collection, Meta
from penstock.log.options import LogOptions
from penstock.log.range_reading import RangeChanges, RangePolled, RangeProgress
from penstock.log.ranges import KeyRange, RangeTable
from penstock.log.record_replica import Applied, RecordReplica, RecordTarget
from penstock.log.replica import Replica
from penstock.log.replica_rules import ApplyRules, Place, Verdict
from penstock.log.replica_source import LogSource, ReplicaSource
from penstock.log.row_emitter import GrowingFile, RowEmitter, RowSubscription
from penstock.log.shipment import Shipment, TransactionRecord
from penstock.log.subscribers import Subscribers, Unsubscribe
from penstock.log.transaction import Transaction
from penstock.log.watch import KeyEvent, KeyWatch
from penstock.log.watched_file import WatchedFile

__all__ = [
    "EVENT_SCHEMA",
    "Applied",
    "ApplyRules",
    "CdcBuffer",
    "CdcEvent",
    "CdcStats",
    "CdcTransaction",
    "Changes",
    "Collection",
    "Content",
    "EventBatch",
    "FixedRows",
    "Follower",
    "Framing",
    "GrowingFile",
    "Items",
    "KeyEvent",
    "KeyRange",
    "KeyWatch",
    "KeyedLog",
    "KvWatch",
    "KvWatchEvent",
    "Log",
    "LogFrames",
    "LogOptions",
    "LogSource",
    "LogStats",
    "Meta",
    "Place",
    "Polled",
    "Position",
    "RangeChanges",
    "RangePolled",
    "RangeProgress",
    "RangeTable",
    "ReadableLog",
    "RecordReplica",
    "RecordTarget",
    "Recovered",
    "Replica",
    "ReplicaSource",
    "RowEmitter",
    "RowSubscription",
    "Shipment",
    "Subscribers",
    "Transaction",
    "TransactionRecord",
    "Unsubscribe",
    "Verdict",
    "WatchedFile",
]
