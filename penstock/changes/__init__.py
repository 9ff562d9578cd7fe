"""What a change is: the vocabulary that every other room speaks.

A change is a row with a weight, a `ZSet` is a bag of changes, and an update is −old +new. Around it stand the
events that carry changes (`ChangeEvent`), the references and rings of the hot path (`NotificationRing`,
`ChangelogBuffer`), aggregates that can be taken back (`GroupedSum` and its like), corrections of late data
(`LateDataRetractions`), when results are told (`EmitStrategy`), upserts and deletes for sinks (`collapse`),
and the formats of others (`debezium`, `ChangeRecord`).
"""

from penstock.changes import debezium
from penstock.changes.aggregates import (
    Aggregate,
    Avg,
    Count,
    CountColumn,
    GroupedAggregate,
    GroupedAvg,
    GroupedCount,
    GroupedCountColumn,
    GroupedMax,
    GroupedMin,
    GroupedSum,
    Max,
    Min,
    Sum,
)
from penstock.changes.changelog import (
    CHANGELOG_DTYPE,
    ChangelogBuffer,
    ChangelogRecord,
    ChangelogRef,
    changelog_refs,
)
from penstock.changes.collapse import Collapsed, additions, collapse
from penstock.changes.debezium import Envelope, Source
from penstock.changes.emit import EmitKind, EmitStrategy
from penstock.changes.event import ChangeEvent, Delete, Insert, Snapshot, Update, Watermark
from penstock.changes.event_batch import ChangeEventBatch
from penstock.changes.hashing import xxhash64
from penstock.changes.late import LateCheck, LateDataRetractions
from penstock.changes.notification import (
    NOTIFICATION_DTYPE,
    Gaps,
    NotificationRef,
    NotificationRing,
    aligned_refs,
    gaps,
)
from penstock.changes.op import EventType, Op
from penstock.changes.record import ChangeOperation, ChangeRecord, changed_columns, public_kind
from penstock.changes.zset import ZSet

__all__ = [
    "CHANGELOG_DTYPE",
    "NOTIFICATION_DTYPE",
    "Aggregate",
    "Avg",
    "ChangeEvent",
    "ChangeEventBatch",
    "ChangeOperation",
    "ChangeRecord",
    "ChangelogBuffer",
    "ChangelogRecord",
    "ChangelogRef",
    "Collapsed",
    "Count",
    "CountColumn",
    "Delete",
    "EmitKind",
    "EmitStrategy",
    "Envelope",
    "EventType",
    "Gaps",
    "GroupedAggregate",
    "GroupedAvg",
    "GroupedCount",
    "GroupedCountColumn",
    "GroupedMax",
    "GroupedMin",
    "GroupedSum",
    "Insert",
    "LateCheck",
    "LateDataRetractions",
    "Max",
    "Min",
    "NotificationRef",
    "NotificationRing",
    "Op",
    "Snapshot",
    "Source",
    "Sum",
    "Update",
    "Watermark",
    "ZSet",
    "additions",
    "aligned_refs",
    "changed_columns",
    "changelog_refs",
    "collapse",
    "debezium",
    "gaps",
    "public_kind",
    "xxhash64",
]
