"""A step is done once: the first attempt counts, and every later one gives the first one's output."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DamagedBytes
from penstock.spark.registration import Outbox, Registration, find, registrations
from penstock.spine import END, Edit, Slice
from penstock.store import MemoryStore, Store
from penstock.store.faulty import Died, FaultyStore, every_fault
from tests.arrow_strategies import batches, schemas

FOLDER = "steps/000000000007-ab"
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
EDIT = Edit((Slice("runs/a", 3, 400, 0, 2**63),), (Slice("runs/b", 1, 80, 5, END),))


def rows(*numbers: int, width: int = 3) -> pa.RecordBatch:
    return pa.record_batch({"n": list(numbers), "text": [f"{it}" * width for it in numbers]}, schema=SCHEMA)


def attempt(store: Store, given_out: list[pa.RecordBatch], part: int = 0) -> list[pa.RecordBatch]:
    """Do the step as if nobody had, or give what an earlier attempt left."""
    found = find(store, FOLDER, "node", part)
    if found is not None:
        return list(found[1])
    outbox = Outbox(store, FOLDER, SCHEMA)
    for batch in given_out:
        outbox.add(batch)
    return list(outbox.register("node", part, {"sums": EDIT}, {"file": "changes/a"}))


def table(some: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(some, schema=SCHEMA)


LARGE = [rows(*range(i * 1000, (i + 1) * 1000), width=200) for i in range(4)]


@given(st.data())
def test_what_is_registered_is_found(data: st.DataObject) -> None:
    store, schema = MemoryStore(), data.draw(schemas())
    some = data.draw(st.lists(batches(schema), max_size=3))
    outbox = Outbox(store, FOLDER, schema)
    for batch in some:
        outbox.add(batch)
    given_out = list(outbox.register("node", 3, {"sums": EDIT}, {"a": [1, "x"]}))
    found = find(store, FOLDER, "node", 3)
    assert found is not None
    registration, output = found
    assert registration == Registration(
        "node", 3, {"sums": EDIT}, {"a": [1, "x"]}, sum(it.num_rows for it in some)
    )
    wanted = pa.Table.from_batches(some, schema=schema).to_pylist()
    assert repr(pa.Table.from_batches(list(output), schema=schema).to_pylist()) == repr(wanted)
    assert repr(pa.Table.from_batches(given_out, schema=schema).to_pylist()) == repr(wanted)
    assert registrations(store, FOLDER) == [registration]


@pytest.mark.parametrize("first", [[rows(1, 2)], LARGE, []], ids=["small", "large", "none"])
@pytest.mark.parametrize("second", [[rows(3)], LARGE[::-1]], ids=["small", "large"])
def test_the_first_attempt_wins_and_the_second_gives_its_output(
    first: list[pa.RecordBatch], second: list[pa.RecordBatch]
) -> None:
    store = MemoryStore()
    boxes = [Outbox(store, FOLDER, SCHEMA) for _ in range(2)]
    for box, some in zip(boxes, (first, second), strict=True):  # both are at it at the same time
        for batch in some:
            box.add(batch)
    outputs = [
        list(box.register("node", 0, {"sums": edit}, {}))
        for box, edit in zip(boxes, (EDIT, Edit()), strict=True)
    ]
    assert table(outputs[0]).equals(table(first))
    assert table(outputs[1]).equals(table(first))
    (registration,) = registrations(store, FOLDER)
    assert registration.edits == {"sums": EDIT}
    assert table(attempt(store, second)).equals(table(first))


def test_who_comes_second_takes_away_what_it_wrote() -> None:
    store = MemoryStore()
    boxes = [Outbox(store, FOLDER, SCHEMA) for _ in range(2)]
    for number, box in enumerate(boxes):
        for name in (f"runs/{number}", f"changes/{number}"):
            store.put(name, b"x")
        for batch in LARGE:
            box.add(batch)
        edit = Edit((Slice(f"runs/{number}", 3, 400),), (Slice("runs/old", 1, 80),))
        list(box.register("node", 0, {"sums": edit}, {"file": f"changes/{number}"}))
    there = [blob.name for blob in store.list() if not blob.name.startswith("steps/")]
    assert there == ["changes/0", "runs/0"]
    assert len(list(store.list("steps/"))) == 2


def test_of_threads_at_one_step_all_give_the_same_output() -> None:
    store = MemoryStore()
    gate = threading.Barrier(6)
    outputs: list[pa.Table] = []

    def run(number: int) -> None:
        some = [rows(number, number + 10)] if number % 2 else [rows(*[number] * 3000, width=400)]
        gate.wait()
        outputs.append(table(attempt(store, some)))

    threads = [threading.Thread(target=run, args=[number]) for number in range(6)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert len(outputs) == 6
    assert all(it.equals(outputs[0]) for it in outputs)
    assert len(registrations(store, FOLDER)) == 1


def test_a_large_output_lies_elsewhere_and_is_no_registration() -> None:
    store = MemoryStore()
    attempt(store, LARGE)
    attempt(store, [rows(1)], part=1)
    told = registrations(store, FOLDER)
    assert [(it.part, it.rows, it.elsewhere is None) for it in told] == [(0, 4000, False), (1, 1, True)]
    assert len(list(store.list())) == 3


def test_steps_and_parts_and_attempts_at_ticks_are_told_apart() -> None:
    store = MemoryStore()
    for folder in (FOLDER, "steps/000000000007-cd", "steps/000000000008-ab"):
        for what in ("node", "node2", "view-1"):
            for part in (0, 1, 11):
                outbox = Outbox(store, folder, SCHEMA)
                outbox.add(rows(part))
                list(outbox.register(what, part, {}, {"in": f"{folder}/{what}/{part}"}))
    for what in ("node", "node2", "view-1"):
        for part in (0, 1, 11):
            found = find(store, FOLDER, what, part)
            assert found is not None
            assert found[0].told == {"in": f"{FOLDER}/{what}/{part}"}
    assert find(store, FOLDER, "node", 2) is None
    assert find(store, FOLDER, "view-", 1) is None
    assert len(registrations(store, FOLDER)) == 9


def deaths(some: list[pa.RecordBatch]) -> Iterator[MemoryStore]:
    calm = FaultyStore(MemoryStore())
    attempt(calm, some)
    for fault in every_fault(calm.operations, "die"):
        inner = MemoryStore()
        with suppress(Died):
            attempt(FaultyStore(inner, [fault]), some)
        yield inner


@pytest.mark.parametrize("some", [[rows(1, 2)], LARGE], ids=["small", "large"])
def test_an_attempt_that_dies_anywhere_is_done_whole_or_not_at_all(some: list[pa.RecordBatch]) -> None:
    count = 0
    for store in deaths(some):
        count += 1
        there = registrations(store, FOLDER)
        output = table(attempt(store, [rows(7)]))
        assert output.equals(table(some if there else [rows(7)]))
        assert len(registrations(store, FOLDER)) == 1
    assert count >= 4


def test_what_is_no_registration_is_told() -> None:
    store = MemoryStore()
    attempt(store, [rows(1)])
    (name,) = (blob.name for blob in store.list())
    store.put(name, store.get(name)[:30])
    with pytest.raises(DamagedBytes) as caught:
        find(store, FOLDER, "node", 0)
    assert caught.value.subject == name
