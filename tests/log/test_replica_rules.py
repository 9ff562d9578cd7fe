"""The rules by which a replica takes, skips or refuses records: each as a claim, then all against a model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DidNotHappen, Divergence, Fenced, Gap
from penstock.log.replica_rules import ApplyRules, Place, Verdict


def one(lsn: int, payload: bytes = b"a") -> Place:
    return Place(lsn, lsn, lambda: payload)


def many(first: int, last: int, payload: bytes = b"a") -> Place:
    return Place(first, last, lambda: payload)


def never_asked(first: int, last: int) -> Place:
    def fail() -> bytes:
        raise AssertionError("the digest was asked for where it does not matter")

    return Place(first, last, fail)


AT_SEVEN = ApplyRules().after(3, many(5, 7), Verdict.APPLY)


@pytest.mark.parametrize("lsn", [0, 1, 5, 10**12])
def test_the_first_record_anchors_wherever_it_is(lsn: int) -> None:
    rules = ApplyRules()
    assert rules.judge(1, never_asked(lsn, lsn)) is Verdict.APPLY
    anchored = rules.after(1, one(lsn), Verdict.APPLY)
    assert anchored.judge(1, never_asked(lsn + 1, lsn + 4)) is Verdict.APPLY


def test_the_record_after_the_last_applies() -> None:
    assert AT_SEVEN.judge(3, never_asked(8, 8)) is Verdict.APPLY
    assert AT_SEVEN.judge(3, never_asked(8, 20)) is Verdict.APPLY


def test_the_same_place_with_the_same_payload_is_a_repeat() -> None:
    assert AT_SEVEN.judge(3, many(5, 7)) is Verdict.REPEAT


@pytest.mark.parametrize("other", [many(5, 7, b"b"), many(6, 7, b"b"), many(7, 7, b"b"), many(1, 7, b"b")])
def test_the_same_place_with_another_payload_is_divergence(other: Place) -> None:
    with pytest.raises(Divergence):
        AT_SEVEN.judge(3, other)


@pytest.mark.parametrize("first", [1, 5, 6, 7])
def test_a_transaction_that_reaches_over_the_end_of_the_last_is_divergence(first: int) -> None:
    with pytest.raises(Divergence, match=f"LSN {first} to 8"):
        AT_SEVEN.judge(3, never_asked(first, 8))


def test_a_lower_place_is_skipped_whatever_it_holds() -> None:
    for first, last in ((1, 1), (4, 4), (5, 6), (6, 6), (1, 6)):
        assert AT_SEVEN.judge(3, never_asked(first, last)) is Verdict.SKIP


def test_a_higher_place_is_a_gap_that_says_what_is_missing() -> None:
    with pytest.raises(Gap, match="LSN 9 came, and LSN 8 has not"):
        AT_SEVEN.judge(3, never_asked(9, 12))


@pytest.mark.parametrize(
    "place", [never_asked(n, n) for n in (1, 7, 8, 99)], ids=lambda it: str(it.first_lsn)
)
def test_a_stale_term_is_refused_before_anything_else(place: Place) -> None:
    with pytest.raises(Fenced, match="term 2, and term 3 has taken over"):
        AT_SEVEN.judge(2, place)
    with pytest.raises(Fenced):
        ApplyRules(term=4).judge(3, place)  # also before the first record


def test_whoever_is_not_refused_with_a_higher_term_is_the_primary_from_then_on() -> None:
    for place, verdict in ((many(5, 7), Verdict.REPEAT), (one(2), Verdict.SKIP), (one(8), Verdict.APPLY)):
        assert AT_SEVEN.judge(4, place) is verdict
        after = AT_SEVEN.after(4, place, verdict)
        assert after.term == 4
        with pytest.raises(Fenced):
            after.judge(3, one(9))


def test_only_what_is_applied_moves_the_place() -> None:
    assert AT_SEVEN.after(3, one(2), Verdict.SKIP).last == AT_SEVEN.last
    assert AT_SEVEN.after(3, one(7), Verdict.REPEAT).last == AT_SEVEN.last


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6), st.binary(min_size=1, max_size=1)), max_size=20)
)
def test_any_stream_ends_where_the_plain_statement_of_the_rules_ends(
    stream: list[tuple[int, int, bytes]],
) -> None:
    term, last, applied = 0, None, []
    rules = ApplyRules()
    for record_term, lsn, payload in stream:
        if record_term < term:
            expected: Verdict | type[DidNotHappen] = Fenced
        elif last is None or lsn == last + 1:
            expected = Verdict.APPLY
        elif lsn == last:
            expected = Verdict.REPEAT if payload == applied[-1] else Divergence
        else:
            expected = Verdict.SKIP if lsn < last else Gap
        if isinstance(expected, Verdict):
            verdict = rules.judge(record_term, one(lsn, payload))
            assert verdict is expected
            rules = rules.after(record_term, one(lsn, payload), verdict)
            term = record_term
            if verdict is Verdict.APPLY:
                last = lsn
                applied.append(payload)
        else:
            with pytest.raises(expected):
                rules.judge(record_term, one(lsn, payload))
    assert (rules.last.last_lsn if rules.last else None) == last
