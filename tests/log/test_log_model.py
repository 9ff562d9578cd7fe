"""A log is a list of events: whatever is done to it, in whatever order, it reads like one."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.changes.op import Op
from penstock.errors import AlreadyExists, CursorAhead, CursorExpired, Unsupported
from penstock.log.format import Frame
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.store.local import LocalStore
from tests.arrow_strategies import schemas
from tests.log.log_model import Event, ManualClock, Model, Side, appended, events_of, moment

FIXED = [
    pa.schema([("id", pa.int64()), ("name", pa.string())]),
    pa.schema(
        [
            ("n", pa.null()),
            ("d", pa.decimal128(38, 10)),
            ("s", pa.struct([("a", pa.list_(pa.int32())), ("b", pa.map_(pa.string(), pa.float64()))])),
        ]
    ),
]


class LogAsAList(RuleBasedStateMachine):
    """Some rows of the log are drawn together with what they mean to the model."""

    @initialize(
        fsync=st.sampled_from(["always", "interval", "never"]),
        ring=st.sampled_from([0, 3_000, 1 << 20]),
        keep=st.sampled_from([{}, {}, {"retain_bytes": 0}, {"retain_bytes": 15_000}, {"retain_events": 20}])
        | st.just({"retain_age": timedelta(microseconds=60)}),
    )
    def begin(self, fsync, ring, keep):
        self.folder = tempfile.mkdtemp()
        self.store = LocalStore(self.folder, fsync=False)
        self.clock = ManualClock()
        self.options = LogOptions(
            fsync=fsync,
            interval=timedelta(milliseconds=1),
            segment_bytes=4096,
            ring_bytes=ring,
            **keep,
        )
        self.model = Model()
        self.log = Log.create(self.store, self.options, clock=self.clock)
        self.reader = Log.open(self.store, "read")
        self.names: list[str] = []
        self.fingerprints: dict[int, int] = {}

    def teardown(self):
        if hasattr(self, "folder"):
            self.reader.close()
            self.log.close()
            shutil.rmtree(self.folder)

    @rule(schema=st.sampled_from(FIXED) | schemas(), keyed=st.booleans())
    def add_collection(self, schema, keyed):
        name = f"c{len(self.names)}"
        key = schema.names[:1] if keyed else []
        made = self.log.add_collection(name, schema, key)
        assert (made.name, made.key) == (name, tuple(key))
        assert made.schema.equals(schema)
        assert self.log.add_collection(name, schema, key) == made
        with pytest.raises(AlreadyExists):
            self.log.add_collection(name, schema.append(pa.field("more", pa.int8())), key)
        self.names.append(name)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), times=st.integers(1, 3))
    def append(self, data, times):
        collection = self.collection(data)
        batch, events = data.draw(appended(collection))
        for _ in range(times):
            before = self.model.current
            lsns = self.log.append(collection.name, batch)
            self.commit([(collection.name, events)])
            assert (lsns.first, lsns.last) == (before + 1, self.model.current)

    @precondition(lambda self: self.names)
    @rule(data=st.data(), kind=st.sampled_from(["insert", "update", "delete"]), with_old=st.booleans())
    def emit(self, data, kind, with_old):
        collection = self.collection(data)
        batch, _ = data.draw(appended(collection, 1, plain=True).filter(lambda it: it[0].num_rows == 1))
        batch = batch.select(collection.schema.names)
        [row] = batch.to_pylist()
        [shown] = {side.row for _, event in [(0, self.shown(batch))] for side in event.sides}
        touched = data.draw(st.none() | st.just(collection.schema.names[:1]))
        when = data.draw(st.none() | st.integers(0, 10**15))
        stamp = None if when is None else moment(when)
        if kind == "update":
            old = row if with_old else None
            lsn = self.log.emit(
                kind, collection.name, before=old, after=row, changed_columns=touched, timestamp=stamp
            )
            sides = [Side(shown, Op.UPDATE_BEFORE, -1, when)] if with_old else []
            sides.append(Side(shown, Op.UPDATE_AFTER, 1, when))
            changed = touched if touched is not None or not with_old else []
        else:
            side = {"after": row} if kind == "insert" else {"before": row}
            lsn = self.log.emit(kind, collection.name, changed_columns=touched, timestamp=stamp, **side)
            op = Op.INSERT if kind == "insert" else Op.DELETE
            sides, changed = [Side(shown, op, op.weight, when)], touched
        event = Event(tuple(sides), changed=None if changed is None else tuple(changed))
        self.commit([(collection.name, [event])])
        assert lsn == self.model.current

    @precondition(lambda self: self.names)
    @rule(data=st.data(), count=st.integers(0, 4), commits=st.booleans())
    def transaction(self, data, count, commits):
        parts = []
        before = self.log.current_lsn
        transaction = self.log.transaction()
        for _ in range(count):
            collection = self.collection(data)
            if data.draw(st.booleans()):
                batch, events = data.draw(appended(collection))
                transaction.append(collection.name, batch)
                parts.append((collection.name, events))
            else:
                parts.append(self.refresh_in(transaction, collection, data))
            assert self.log.current_lsn == before
        if commits:
            lsns = transaction.commit()
            self.commit(parts)
            assert lsns.last == self.model.current
        else:
            transaction.rollback()

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def refresh(self, data):
        self.commit([self.refresh_in(self.log, self.collection(data), data)])

    def refresh_in(self, target, collection, data):
        batch, _ = data.draw(appended(collection, plain=True))
        content = batch.select(collection.schema.names)
        target.refresh(collection.name, content)
        return collection.name, [self.shown(content)]

    @rule(upto=st.integers(0, 60))
    def trim(self, upto):
        before = self.log.oldest_lsn
        oldest = self.log.trim(upto)
        assert before <= oldest <= max(upto + 1, before)
        self.note_retention()

    @rule(step=st.integers(-5, 50))
    def let_time_pass(self, step):
        self.clock.time += step

    @rule()
    def reopen(self):
        self.log.close()
        self.log = Log.open(self.store, "write", self.options, clock=self.clock)
        assert self.log.recovered is None
        self.note_retention()  # what it does not keep any more goes when it is opened

    @precondition(lambda self: self.names)
    @rule(data=st.data(), part=st.floats(0, 1))
    def die(self, data, part):
        """A killed process leaves the files as they are, and perhaps the beginning of another append."""
        collection = self.collection(data)
        batch, events = data.draw(appended(collection))
        left = tempfile.mkdtemp()
        shutil.copytree(self.folder, left, dirs_exist_ok=True)
        last = max((Path(left) / "segments").iterdir())
        size = last.stat().st_size
        self.log.append(collection.name, batch)
        grown = (Path(self.folder) / "segments" / last.name).read_bytes()[size:]
        torn = 0
        if grown:
            frame = Frame.trusted(grown, 0)
            there = int(frame.frame_bytes * part)
            with last.open("ab") as file:
                file.write(grown[:there])
            if there < frame.frame_bytes:
                torn = there
            elif frame.events:  # else it is a mark, which the log wrote of itself
                self.model.commit([(collection.name, events)], self.clock.time)
        self.reader.close()
        self.log.close()
        shutil.rmtree(self.folder)
        self.folder, self.store = left, LocalStore(left, fsync=False)
        self.reader = Log.open(self.store, "read")
        self.log = Log.open(self.store, "write", self.options, clock=self.clock)
        assert (self.log.recovered.torn_bytes if self.log.recovered else 0) == torn
        self.note_retention()

    @rule()
    def reopen_reader(self):
        self.reader.close()
        self.reader = Log.open(self.store, "read")
        with pytest.raises(Unsupported):
            self.reader.trim(1)

    @rule(data=st.data(), who=st.sampled_from(["log", "reader"]), most=st.integers(1, 30))
    def poll(self, data, who, most):
        log = getattr(self, who)
        since = data.draw(st.integers(self.model.oldest - 1, self.model.current))
        some = (
            data.draw(st.none() | st.lists(st.sampled_from(self.names), unique=True)) if self.names else None
        )
        polled = log.poll(since, most, some)
        expected = self.model.after(since, names=None if some is None else set(some))
        assert [it for changes in polled for it in events_of(changes)] == expected[:most]
        assert len(polled) == len(expected[:most])
        assert polled.current_lsn == self.model.current
        rest = self.model.after(polled.cursor, names=None if some is None else set(some))
        assert rest == expected[most:]
        assert polled.cursor == since if not polled.changes and some is None else True

    @rule(data=st.data(), who=st.sampled_from(["log", "reader"]), most=st.integers(1, 30))
    def tail(self, data, who, most):
        """From poll to poll until the end, in steps of any size, is the whole, once."""
        log = getattr(self, who)
        since = data.draw(st.integers(self.model.oldest - 1, self.model.current))
        found, cursors = [], [since]
        while cursors[-1] < log.wait(cursors[-1], 0):
            polled = next(log.tail(cursors[-1], max_events=most))
            found += [it for changes in polled for it in events_of(changes)]
            cursors.append(polled.cursor)
        assert found == self.model.after(since)
        assert cursors == [*range(since, self.model.current, most), self.model.current]

    @rule(who=st.sampled_from(["log", "reader"]), data=st.data())
    def fingerprint(self, who, data):
        """It stays while the event is kept, in whichever process and after whichever death."""
        lsn = data.draw(st.integers(self.model.oldest - 1, self.model.current))
        told = getattr(self, who).fingerprint(lsn)
        assert (told is None) == (lsn < self.model.oldest)
        if told is not None:
            assert self.fingerprints.setdefault(lsn, told) == told

    @rule(data=st.data(), who=st.sampled_from(["log", "reader"]))
    def read_a_range(self, data, who):
        log = getattr(self, who)
        since = data.draw(st.integers(self.model.oldest - 1, self.model.current))
        upto = data.draw(st.none() | st.integers(0, self.model.current + 3))
        name = data.draw(st.sampled_from([None, *self.names]))
        found = [it for changes in log.read(name, since, upto) for it in events_of(changes)]
        assert found == self.model.after(since, upto, None if name is None else {name})

    @rule(data=st.data(), who=st.sampled_from(["log", "reader"]))
    def boundary(self, data, who):
        lsn = data.draw(st.integers(self.model.oldest - 1, self.model.current))
        assert getattr(self, who).boundary(lsn) == self.model.boundary(lsn)

    @rule(who=st.sampled_from(["log", "reader"]), back=st.integers(-60, 10))
    def lsn_at(self, who, back):
        time = self.clock.time + back
        assert getattr(self, who).lsn_at(moment(time)) == self.model.lsn_at(time)

    @rule(who=st.sampled_from(["log", "reader"]), by=st.integers(1, 5))
    def bad_cursors(self, who, by):
        log = getattr(self, who)
        with pytest.raises(CursorAhead):
            log.poll(self.model.current + by)
        too_old = self.model.oldest - 1 - by
        if too_old >= 0 and log.oldest_lsn:
            with pytest.raises(CursorExpired) as caught:
                list(log.read(since=too_old))
            assert caught.value.earliest == self.model.oldest

    @invariant()
    def both_end_where_the_model_does(self):
        if hasattr(self, "log"):
            assert self.log.current_lsn == self.reader.current_lsn == self.model.current
            assert self.log.oldest_lsn == self.reader.oldest_lsn == self.model.oldest

    def collection(self, data):
        return self.log.collection(data.draw(st.sampled_from(self.names)))

    def commit(self, transaction):
        self.model.commit(transaction, self.clock.time)
        self.note_retention()

    def note_retention(self):
        oldest = self.log.oldest_lsn
        assert oldest >= self.model.oldest
        assert oldest == 1 or self.model.events[oldest - 2].ends
        self.model.oldest = oldest

    def shown(self, content):
        """A refresh with this content."""
        columns = [column.to_pylist() for column in content.columns]
        rows = [repr(row) for row in zip(*columns, strict=True)]
        return Event(tuple(Side(row, Op.INSERT, 1) for row in rows), refresh=True)


TestLogAsAList = LogAsAList.TestCase
TestLogAsAList.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
