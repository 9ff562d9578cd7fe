"""A store against a dictionary: Hypothesis thinks of the calls, the dictionary says what must come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.errors import NotFound
from penstock.store.conformance.asserting import raising
from penstock.store.interface import Store, Writer

__all__ = ["machine"]

_NAMES = st.sampled_from(["a", "a-", "b/c", "b/d/e", "b-c", "b.c", "f/g/h/i", "f/g/h/j", "ä/ö"])
_PREFIXES = st.sampled_from(["", "a", "b", "b/", "b/d", "f/g/", "z"])
_CONTENTS = st.binary(max_size=60)


def machine(new_store: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """The state machine over stores that ``new_store`` makes, each empty. Its ``TestCase`` runs it."""

    class StoreMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store = new_store()
            self.model: dict[str, bytes] = {}
            self.writers: list[tuple[Writer, bytes]] = []

        @rule(name=_NAMES, content=_CONTENTS)
        def put(self, name: str, content: bytes) -> None:
            self.store.put(name, content)
            self.model[name] = content

        @rule(name=_NAMES, content=_CONTENTS)
        def create(self, name: str, content: bytes) -> None:
            assert self.store.create(name, [content[:5], content[5:]]) is (name not in self.model)
            self.model.setdefault(name, content)

        @rule(names=st.lists(_NAMES, max_size=3))
        def delete(self, names: list[str]) -> None:
            self.store.delete(*names)
            for name in names:
                self.model.pop(name, None)

        @rule(name=_NAMES, content=_CONTENTS)
        def begin(self, name: str, content: bytes) -> None:
            writer = self.store.writer(name)
            writer.write(content)
            self.writers.append((writer, content))

        @rule(data=st.data(), more=_CONTENTS)
        def go_on(self, data: st.DataObject, more: bytes) -> None:
            if self.writers:
                at = data.draw(st.integers(0, len(self.writers) - 1))
                writer, content = self.writers[at]
                writer.write(more)
                self.writers[at] = writer, content + more

        @rule(data=st.data(), keep=st.booleans())
        def end(self, data: st.DataObject, keep: bool) -> None:
            if self.writers:
                writer, content = self.writers.pop(data.draw(st.integers(0, len(self.writers) - 1)))
                if keep:
                    assert writer.commit() is (writer.name not in self.model)
                    self.model.setdefault(writer.name, content)
                else:
                    writer.abandon()

        @rule(name=_NAMES, start=st.integers(0, 70), length=st.integers(0, 70))
        def read(self, name: str, start: int, length: int) -> None:
            if name in self.model:
                assert self.store.read(name, start, length) == self.model[name][start : start + length]
                assert self.store.get(name) == self.store.map(name).to_pybytes() == self.model[name]
                assert self.store.stat(name).size == len(self.model[name])
            else:
                with raising(NotFound):
                    self.store.read(name, start, length)

        @rule(prefix=_PREFIXES, after=st.one_of(st.just(""), _NAMES))
        def list_some(self, prefix: str, after: str) -> None:
            found = [(blob.name, blob.size) for blob in self.store.list(prefix, after=after)]
            assert found == sorted(
                (name, len(content))
                for name, content in self.model.items()
                if name.startswith(prefix) and name > after
            )

        @rule()
        def collect(self) -> None:
            assert self.store.collect_leftovers(timedelta(hours=1)) == 0

        @invariant()
        def nothing_else_is_there(self) -> None:
            assert [blob.name for blob in self.store.list()] == sorted(self.model)

        def teardown(self) -> None:
            for writer, _ in self.writers:
                writer.abandon()
            for name, content in self.model.items():
                assert self.store.get(name) == content
            assert self.store.collect_leftovers(timedelta(0)) == 0

    return StoreMachine
