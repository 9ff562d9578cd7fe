"""What `penstock.changes` costs, per row amortised over batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import orjson
import pyarrow as pa

from bench.harness import Measured, measure, report
from penstock.changes import (
    ChangeEvent,
    ChangelogBuffer,
    ChangelogRecord,
    ChangelogRef,
    Count,
    Envelope,
    EventType,
    GroupedCount,
    GroupedSum,
    LateDataRetractions,
    NotificationRing,
    Op,
    Source,
    ZSet,
    aligned_refs,
    changelog_refs,
    collapse,
    debezium,
)

ROWS = 1_000_000
BATCH = 1_024


def orders(rows: int) -> pa.RecordBatch:
    """Six columns, some hundred bytes a row."""
    rng = np.random.default_rng(7)
    names = pa.array([f"customer {i:06d} of the shop" for i in range(10_000)])
    return pa.record_batch(
        {
            "id": np.arange(rows),
            "customer": names.take(pa.array(rng.integers(0, 10_000, rows))),
            "amount": pa.array(rng.integers(1, 10**7, rows))
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(12, 2)),
            "weight": rng.random(rows),
            "paid": rng.random(rows) < 0.5,
            "placed": pa.array(1_700_000_000_000_000 + np.arange(rows)).view(pa.timestamp("us")),
        }
    )


def references() -> Iterator[Measured]:
    ring, count = NotificationRing(BATCH), BATCH
    refs, out = aligned_refs(count), aligned_refs(count)
    refs["event_type"] = EventType.INSERT

    def make() -> None:
        refs["source_id"] = 3
        refs["row_count"] = 1
        refs["timestamp"] = 1_700_000_000_000

    yield measure(
        "NotificationRef, made in place",
        make,
        rows=count,
        nbytes=64 * count,
        target=5,
        note=f"{count:,} at a time",
    )

    def pass_through() -> None:
        ring.push_many(refs)
        ring.drain_into(out)

    yield measure(
        "NotificationRing, push and drain",
        pass_through,
        rows=count,
        nbytes=2 * 64 * count,
        note="both sides, 64 bytes each",
    )
    ops = np.tile(np.array([Op.UPDATE_BEFORE, Op.UPDATE_AFTER], np.int8), ROWS // 2)
    yield measure(
        "ChangelogRef, made from operations",
        lambda: changelog_refs(ops, batch_offset=1),
        rows=ROWS,
        nbytes=12 * ROWS,
        target=10,
    )
    buffer, made = ChangelogBuffer(ROWS), changelog_refs(ops, batch_offset=1)

    def push() -> None:
        buffer.push_many(made)
        buffer.drain()

    yield measure("ChangelogBuffer, push", push, rows=ROWS, nbytes=made.nbytes, target=5)


def events() -> Iterator[Measured]:
    batch = orders(BATCH)
    event = ChangeEvent.insert(batch, 1, 1)
    yield measure(
        "ChangeEvent, clone",
        event.clone,
        rows=BATCH,
        nbytes=batch.nbytes,
        target=10,
        note=f"an event of {BATCH:,} rows",
    )
    record = ChangelogRecord.insert(batch, 1)
    yield measure(
        "ChangeEvent, from changelog",
        lambda: ChangeEvent.from_changelog_record(record, 1),
        rows=BATCH,
        nbytes=batch.nbytes,
        target=20,
        note=f"an event of {BATCH:,} rows",
    )
    stored = event.to_bytes()
    yield measure("ChangeEvent, to bytes", event.to_bytes, rows=BATCH, nbytes=len(stored))
    yield measure(
        "ChangeEvent, from bytes", lambda: ChangeEvent.from_bytes(stored), rows=BATCH, nbytes=len(stored)
    )


def aggregates() -> Iterator[Measured]:
    rng = np.random.default_rng(1)
    weights = np.where(rng.random(ROWS) < 0.5, 1, -1)
    doubles, integers = pa.array(rng.random(ROWS)), pa.array(rng.integers(0, 1000, ROWS))
    for groups in (1, 1_000, 1_000_000):
        ids = rng.integers(0, groups, ROWS)
        count, whole, exact = GroupedCount(), GroupedSum(pa.int64()), GroupedSum(pa.float64())
        for it in (count, whole, exact):
            it.grow(groups)
        told = f"{groups:,} group{'s' if groups > 1 else ''}"
        yield measure(
            "COUNT, accumulate and retract",
            lambda count=count, ids=ids: count.update(ids, None, weights),
            rows=ROWS,
            nbytes=16 * ROWS,
            target=5,
            note=told,
        )
        yield measure(
            "SUM(bigint), accumulate and retract",
            lambda whole=whole, ids=ids: whole.update(ids, integers, weights),
            rows=ROWS,
            nbytes=24 * ROWS,
            note=told,
        )
        yield measure(
            "SUM(double), exact",
            lambda exact=exact, ids=ids: exact.update(ids, doubles, weights),
            rows=ROWS,
            nbytes=24 * ROWS,
            note=told,
        )


def late() -> Iterator[Measured]:
    starts = np.arange(ROWS // 10) * 60
    windows = pa.StructArray.from_arrays([pa.array(starts), pa.array(starts + 60)], names=["start", "end"])
    told = [pa.array(np.arange(len(starts)) + i) for i in range(2)]
    retractions = LateDataRetractions()
    state = [0]

    def check() -> None:
        state[0] += 1
        retractions.check_many(windows, told[state[0] % 2], state[0])

    yield measure(
        "LateDataRetractions, check",
        check,
        rows=len(starts),
        nbytes=24 * len(starts),
        target=100,
        note="all changed",
    )


def zsets() -> Iterator[Measured]:
    rng = np.random.default_rng(2)
    rows = pa.record_batch({"k": rng.integers(0, ROWS // 2, ROWS), "v": rng.integers(0, 2, ROWS)})
    weights = rng.choice(np.array([-1, 1]), ROWS)
    yield measure(
        "ZSet, consolidate",
        lambda: ZSet(rows, weights).consolidate(),
        rows=ROWS,
        nbytes=24 * ROWS,
        note="two bigints",
    )
    z = ZSet(rows, weights)
    yield measure("ZSet, negate", lambda: -z, rows=ROWS, nbytes=8 * ROWS)
    yield measure("ZSet, split by sign", z.split, rows=ROWS, nbytes=24 * ROWS)
    keys = np.repeat(np.arange(ROWS // 2), 2)
    updates = ZSet(pa.record_batch({"k": keys, "v": np.arange(ROWS)}), np.tile([-1, 1], ROWS // 2))
    yield measure(
        "collapse to upserts and deletes",
        lambda: collapse(updates, ["k"]),
        rows=ROWS,
        nbytes=24 * ROWS,
        note="updates, by one bigint",
    )


def envelopes() -> Iterator[Measured]:
    rows = orders(20_000)
    source = Source(name="shop", db="shop", table="orders")
    changes = rows.append_column("_op", pa.array(np.zeros(len(rows), np.int8)))
    encoded = debezium.encode(changes, source)
    nbytes = encoded.values.nbytes
    ours = measure(
        "Envelope to JSON, a batch at a time (debezium.encode)",
        lambda: debezium.encode(changes, source),
        rows=len(rows),
        nbytes=nbytes,
        target=1000,
    )
    told = {"name": "shop", "db": "shop", "table": "orders"}

    def plain() -> list[bytes]:
        return [
            orjson.dumps({"before": None, "after": row, "source": told, "op": "c", "ts_ms": 0}, default=str)
            for row in rows.to_pylist()
        ]

    peer = measure(
        "(the same rows through to_pylist and orjson)", plain, rows=len(rows), nbytes=nbytes, note="the peer"
    )
    faster = f"six columns; {peer.ns / ours.ns:.1f}× faster than the peer"
    yield replace(ours, note=faster)
    yield peer
    row = {"id": 1, "amount": 100}
    one = Envelope.insert(row, Source("shop", "shop", "orders", 42), 1_706_140_800_000)
    size = len(one.to_json())
    yield measure(
        "Envelope to JSON, one at a time", one.to_json, rows=1, nbytes=size, target=1000, note="two columns"
    )
    values = encoded.values
    yield measure(
        "Debezium, decode", lambda: debezium.decode(values, rows.schema), rows=len(rows), nbytes=nbytes
    )


def singly() -> Iterator[Measured]:
    """The forms for people. The hot path does not use them, and no target is theirs."""
    ring, refs = NotificationRing(BATCH), aligned_refs(BATCH)
    buffer, ref = ChangelogBuffer(BATCH), ChangelogRef(1, 2, 1, Op.INSERT)
    batch, count, late = orders(BATCH), Count(), LateDataRetractions()
    event, record = ChangeEvent.insert(batch, 1, 1), ChangelogRecord.insert(batch, 1)
    state = [0]

    def notify() -> None:
        for _ in range(BATCH):
            ring.push_fields(3, EventType.INSERT, 1, 1_700_000_000_000, 0)
        ring.drain_into(refs)

    def push() -> None:
        for _ in range(BATCH):
            buffer.push(ref)
        buffer.drain()

    def in_and_out() -> None:
        for _ in range(BATCH // 2):
            count.accumulate(None)
            count.retract(None)

    def check() -> None:
        state[0] += 1
        late.check((0, 60), state[0], 1)

    for name, run, times, nbytes in (
        ("NotificationRing, push", notify, BATCH, 64 * BATCH),
        ("ChangelogBuffer, push", push, BATCH, 12 * BATCH),
        ("ChangeEvent, clone", event.clone, 1, batch.nbytes),
        (
            "ChangeEvent, from changelog",
            lambda: ChangeEvent.from_changelog_record(record, 1),
            1,
            batch.nbytes,
        ),
        ("COUNT, accumulate and retract", in_and_out, BATCH, 16 * BATCH),
        ("LateDataRetractions, check", check, 1, 24),
    ):
        yield measure(name, run, rows=times, nbytes=nbytes, note="one at a time, in Python")


def main() -> None:
    results: list[Measured] = []
    for part in (references, events, aggregates, late, zsets, envelopes, singly):
        results += part()
    missed = [it for it in results if it.verdict == "MISSED"]
    remarks = [f"{len(missed)} of {sum(it.target is not None for it in results)} targets missed."]
    remarks += [f"  missed: {it.name} ({it.note}): {it.ns:.1f} ns, target {it.target:g}" for it in missed]
    report("changes", results, remarks)
