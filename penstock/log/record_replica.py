"""A replica of a foreign log: change records as JSON, applied one by one to whatever the user keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from penstock.changes.record import ChangeRecord
from penstock.log.replica_rules import ApplyRules, Place, Verdict

__all__ = ["Applied", "RecordReplica", "RecordTarget", "payload_digest"]


@dataclass(frozen=True, slots=True)
class Applied:
    """How far a replica is: to be kept beside its content, and given back when it is opened again."""

    term: int
    lsn: int
    digest: bytes
    """Of the record at this LSN, to tell a repetition from something else at the same place."""

    def to_json(self) -> dict[str, Any]:
        return {"term": self.term, "lsn": self.lsn, "digest": self.digest.hex()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["term"], value["lsn"], bytes.fromhex(value["digest"]))


class RecordTarget(Protocol):
    """What the records are applied to."""

    def apply(self, record: ChangeRecord, applied: Applied) -> None:
        """Apply the record and keep ``applied``, both or neither; a refresh replaces a collection at once."""

    def keep(self, applied: Applied) -> None:
        """Keep ``applied`` alone: the content is the same, and a newer term was seen."""


class RecordReplica:
    """Applies records to a target by `ApplyRules`, in the order of their LSNs and each once.

    Law: the target holds what the records from the anchor up to `applied` make, however often and in whatever
    order they come. State: `applied`, which the target keeps.
    """

    def __init__(self, target: RecordTarget, applied: Applied | None = None, name: str = "replica") -> None:
        self._target = target
        self._applied = applied
        self._rules = ApplyRules(subject=name)
        if applied is not None:
            self._rules = replace(self._rules, term=applied.term, last=_place(applied.lsn, applied.digest))

    @property
    def applied(self) -> Applied | None:
        """How far it is; None before the first record, which may have any LSN."""
        return self._applied

    def apply(self, record: ChangeRecord) -> Verdict:
        """Apply the record, or say why there is nothing to do; refused are stale terms, gaps and divergence.

        Where the target raises, nothing has changed here: give the record again.
        """
        digest = payload_digest(record)
        place = _place(record.lsn, digest)
        verdict = self._rules.judge(record.term, place)
        rules = self._rules.after(record.term, place, verdict)
        if verdict is Verdict.APPLY:
            applied = Applied(rules.term, record.lsn, digest)
            self._target.apply(record, applied)
            self._applied = applied
        elif rules.term > self._rules.term and self._applied is not None:
            applied = replace(self._applied, term=rules.term)
            self._target.keep(applied)
            self._applied = applied
        self._rules = rules
        return verdict


def _place(lsn: int, digest: bytes) -> Place:
    return Place(lsn, lsn, lambda: digest)


def payload_digest(record: ChangeRecord) -> bytes:
    """Equal for records that say the same, whoever sends them: neither term nor order of names counts."""
    value = record.to_json()
    del value["term"]
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
