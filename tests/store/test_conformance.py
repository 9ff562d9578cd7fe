"""Every backend keeps every law, and so does a faulty store that has no faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.store import Store
from penstock.store.conformance import CLAIMS, Claim
from penstock.store.conformance.model import machine
from penstock.store.faulty import FaultyStore

KINDS = ["local", "local-without-fsync", "local-without-links", "memory", "objects"]

NewStore = Callable[[str], Store]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_a_store_conforms(claim: Claim, kind: str, new_store: NewStore) -> None:
    claim(new_store(kind))


@pytest.mark.parametrize("kind", ["local", "memory"])  # it knows nothing of what it wraps
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_a_faulty_store_without_faults_conforms(claim: Claim, kind: str, new_store: NewStore) -> None:
    claim(FaultyStore(new_store(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_does_what_a_dictionary_does(kind: str, new_store: NewStore) -> None:
    examples = 8 if kind == "objects" else 60
    run_state_machine_as_test(
        machine(lambda: FaultyStore(new_store(kind))),
        settings=settings(max_examples=examples, stateful_step_count=25, deadline=None),
    )
