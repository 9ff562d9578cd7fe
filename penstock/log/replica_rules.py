"""What a replica does with a record that comes: the rules alone, without a log, a clock or a network.

In this order:

1. a term below the highest one seen is stale: `Fenced`, before anything else is looked at;
2. the very first record anchors: the replica begins wherever that record is;
3. the record right after the last one applied is applied;
4. the same place as the last one applied: nothing to do if it holds the same, else `Divergence`;
5. a lower place is skipped: it was applied before, or comes before the anchor;
6. a higher place is a `Gap`: what lies between has to come first.

A record may be of one LSN, or of a whole transaction. Then "the same place" is to end at the same LSN, and a
record that begins at or before the last LSN and ends beyond it has another transaction there: `Divergence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from penstock.errors import Divergence, Fenced, Gap

__all__ = ["ApplyRules", "Place", "Verdict"]


class Verdict(Enum):
    """What to do with a record that is not refused."""

    APPLY = "apply"
    REPEAT = "repeat"
    """It is what was applied last, once more."""
    SKIP = "skip"
    """It is of before what was applied last."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is, and a digest of what it holds; that is asked for only where it decides."""

    first_lsn: int
    last_lsn: int
    digest: Callable[[], bytes] | None
    """None where nobody knows: before the anchor of a copy that has nothing yet."""


@dataclass(frozen=True, slots=True)
class ApplyRules:
    """What a replica remembers: the highest term it has seen, and the place it applied last. Immutable.

    >>> def record(lsn, payload): return Place(lsn, lsn, lambda: payload)
    >>> rules = ApplyRules().after(7, record(41, b"x"), Verdict.APPLY)
    >>> [rules.judge(7, record(lsn, b"x")).name for lsn in (40, 41, 42)]
    ['SKIP', 'REPEAT', 'APPLY']
    >>> rules.judge(6, record(42, b"y"))
    Traceback (most recent call last):
    ...
    penstock.errors.Fenced: [fenced] replica: the record is of term 6, and term 7 has taken over. ...
    """

    term: int = 0
    last: Place | None = None
    subject: str = "replica"

    def judge(self, term: int, record: Place) -> Verdict:
        """What to do with a record sent under this term; or the error that refuses it."""
        self.check_term(term)
        last = self.last
        if last is None or record.first_lsn == last.last_lsn + 1:
            return Verdict.APPLY
        if record.first_lsn > last.last_lsn:
            raise Gap(
                f"LSN {record.first_lsn} came, and LSN {last.last_lsn + 1} has not come yet",
                subject=self.subject,
                hint=f"Send what follows LSN {last.last_lsn} again.",
            )
        if record.last_lsn < last.last_lsn:
            return Verdict.SKIP
        if record.last_lsn == last.last_lsn:
            if record.digest is None or last.digest is None:
                return Verdict.SKIP
            if record.digest() == last.digest():
                return Verdict.REPEAT
        raise Divergence(
            f"what came at LSN {record.first_lsn} to {record.last_lsn} is not what was applied there",
            subject=self.subject,
            hint="Two histories have one name. Choose one, and copy it anew to the other side.",
        )

    def check_term(self, term: int) -> None:
        """Refuse a term that is over."""
        if term < self.term:
            raise Fenced(
                f"the record is of term {term}, and term {self.term} has taken over",
                subject=self.subject,
                hint="Stop the old primary, and follow the new one.",
            )

    def after(self, term: int, record: Place, verdict: Verdict) -> ApplyRules:
        """The rules once the verdict was carried out. Whoever is not refused is the primary from then on."""
        last = record if verdict is Verdict.APPLY else self.last
        return replace(self, term=max(term, self.term), last=last)
