from __future__ import annotations

import inspect
import re

import pytest

from penstock import errors
from penstock.errors import DidNotHappen, MayHaveHappened, PenstockError

EVERY = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, PenstockError)]


def test_every_code_is_its_own_and_stable_in_form() -> None:
    codes = [kind.code for kind in EVERY]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_every_error_says_whether_it_may_have_happened() -> None:
    for kind in EVERY:
        if kind is PenstockError:
            continue
        outcomes = [issubclass(kind, DidNotHappen), issubclass(kind, MayHaveHappened)]
        assert sorted(outcomes) == [False, True], kind
        assert kind.may_have_happened is outcomes[1]


def test_every_error_stands_in_the_tree_of_the_docstring_and_in_all() -> None:
    drawn = re.findall(r"(?:──|^    )\s?([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(kind.__name__ for kind in EVERY)
    assert sorted(errors.__all__) == sorted(drawn)


def test_a_message_says_code_subject_what_and_hint() -> None:
    error = errors.KeyConflict("two live rows", subject="view totals", hint="Group by the key.")
    assert str(error) == "[key-conflict] view totals: two live rows. Group by the key."


@pytest.mark.parametrize("kind", EVERY)
def test_errors_survive_the_way_from_a_worker_to_the_driver(kind: type[PenstockError]) -> None:
    import copy

    error = copy.copy(kind("what", subject="subject", hint="Hint."))
    assert type(error) is kind
    assert str(error) == f"[{kind.code}] subject: what. Hint."
