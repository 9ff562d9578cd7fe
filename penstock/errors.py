"""Every error Penstock raises, in one tree.

::

    PenstockError
    ├── DidNotHappen                 nothing was changed; safe to correct and call again
    │   ├── InvalidArgument          a value that can never be right
    │   │   ├── ReservedName         a column beginning with one underscore
    │   │   ├── BadSql               a text that is not SQL, or says what SQL forbids
    │   │   └── SchemaMismatch       columns or types that do not fit one another
    │   ├── DamagedBytes             stored bytes that are not what was written
    │   ├── MalformedMessage         a message from outside that breaks its format's rules
    │   ├── ArithmeticOverflow       an exact result that its type cannot hold
    │   ├── AppendOnly               a retraction for something that only takes additions
    │   ├── KeyConflict              two live rows where a key allows one
    │   ├── InUse                    only one at a time may have it, and another one has
    │   ├── Fenced                   somebody with a higher term has taken over
    │   ├── Gap                      a record came whose predecessor has not
    │   ├── Divergence               the same place in a log holds something else
    │   ├── CursorExpired            what the cursor still needs is no longer kept
    │   ├── CursorAhead              the cursor claims more than the log has given
    │   ├── FileChanged              a file that only grows shrank, was replaced or vanished
    │   ├── Closed                   the object was closed before
    │   ├── Unsupported              understood, but not something Penstock does
    │   ├── NotFound                 there is nothing of that name
    │   ├── NotReady                 it is there, but was not computed yet
    │   ├── AlreadyExists            something else has the name already
    │   ├── AccessDenied             the place refuses these credentials or this user
    │   ├── NoSpace                  the place is full, or a quota is used up
    │   ├── StoreUnavailable         the place did not answer, or refused for now
    │   ├── QueryFailed              a query over contents met a value it could not compute with
    │   └── EngineFailed             Spark did not start, or gave up on what it was asked
    └── MayHaveHappened              the answer was lost: look before you repeat
        └── OutcomeUnknown           a write to a store that may or may not be there

Each error carries a stable ``code`` (part of the public surface: match on it, not on the text),
what happened, ``subject`` (to which object), and ``hint`` (what to do). ``str(error)`` says all three.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "AppendOnly",
    "ArithmeticOverflow",
    "BadSql",
    "Closed",
    "CursorAhead",
    "CursorExpired",
    "DamagedBytes",
    "DidNotHappen",
    "Divergence",
    "EngineFailed",
    "Fenced",
    "FileChanged",
    "Gap",
    "InUse",
    "InvalidArgument",
    "KeyConflict",
    "MalformedMessage",
    "MayHaveHappened",
    "NoSpace",
    "NotFound",
    "NotReady",
    "OutcomeUnknown",
    "PenstockError",
    "QueryFailed",
    "ReservedName",
    "SchemaMismatch",
    "StoreUnavailable",
    "Unsupported",
]


class PenstockError(Exception):
    """The root: catch this to catch everything Penstock raises on purpose.

    >>> error = InvalidArgument("capacity is -1", subject="ChangelogBuffer", hint="Give 0 or more.")
    >>> print(error)
    [invalid-argument] ChangelogBuffer: capacity is -1. Give 0 or more.
    >>> error.code, error.may_have_happened
    ('invalid-argument', False)
    """

    code: ClassVar[str] = "penstock"
    may_have_happened: ClassVar[bool] = True  # until a subclass knows better

    def __init__(self, what: str, *, subject: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.subject = subject
        self.hint = hint

    def __str__(self) -> str:
        return f"[{self.code}] {self.subject}: {self.what.rstrip('.')}. {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers to the driver; the default would lose the keywords.
        return _rebuild, (type(self), self.what, self.subject, self.hint)


def _rebuild(kind: type[PenstockError], what: str, subject: str, hint: str) -> PenstockError:
    return kind(what, subject=subject, hint=hint)


class DidNotHappen(PenstockError):
    """Nothing was changed. Correct the cause and call again."""

    code = "did-not-happen"
    may_have_happened = False


class MayHaveHappened(PenstockError):
    """The outcome is unknown: the request was sent and its answer lost. Look before you repeat it."""

    code = "may-have-happened"
    may_have_happened = True


class InvalidArgument(DidNotHappen, ValueError):
    """A value that can never be right, whatever the state of the system."""

    code = "invalid-argument"


class ReservedName(InvalidArgument):
    """A user's column has a name that Penstock keeps for itself."""

    code = "reserved-name"


class BadSql(InvalidArgument):
    """A text that is not SQL, or that says what SQL forbids.

    ``line`` and ``column`` tell the place, both from 1; they are None where there is none to tell.

    >>> error = BadSql("')' is missing", subject="line 2, column 7", hint="Close it.", line=2, column=7)
    >>> error.code, error.line, error.column
    ('bad-sql', 2, 7)
    """

    code = "bad-sql"

    def __init__(
        self, what: str, *, subject: str, hint: str, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(what, subject=subject, hint=hint)
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_bad_sql, (type(self), self.what, self.subject, self.hint, self.line, self.column)


def _rebuild_bad_sql(
    kind: type[BadSql], what: str, subject: str, hint: str, line: int | None, column: int | None
) -> BadSql:
    return kind(what, subject=subject, hint=hint, line=line, column=column)


class SchemaMismatch(InvalidArgument):
    """Columns or types that do not fit the ones they are to meet."""

    code = "schema-mismatch"


class DamagedBytes(DidNotHappen):
    """Stored bytes are not what was written: cut short, flipped, or of another format."""

    code = "damaged-bytes"


class MalformedMessage(DidNotHappen, ValueError):
    """A message from outside breaks the rules of its format."""

    code = "malformed-message"


class ArithmeticOverflow(DidNotHappen, ArithmeticError):
    """The exact result does not fit its type."""

    code = "arithmetic-overflow"


class AppendOnly(DidNotHappen):
    """A retraction came to something that only takes additions."""

    code = "append-only"


class KeyConflict(DidNotHappen):
    """More than one live row where the key allows one."""

    code = "key-conflict"


class InUse(DidNotHappen):
    """Only one at a time may have it, and another one has."""

    code = "in-use"


class Fenced(DidNotHappen):
    """Somebody with a higher term has taken over; this one must stop."""

    code = "fenced"


class Gap(DidNotHappen):
    """A record came whose predecessor has not."""

    code = "gap"


class Divergence(DidNotHappen):
    """The same place in a log holds something else on the other side."""

    code = "divergence"


class CursorExpired(DidNotHappen):
    """The log no longer keeps everything after the cursor; going on would skip events in silence.

    ``earliest`` is the LSN of the first event that can still be read, be it the next one to come:
    the cursor ``earliest - 1`` is good. It is None where only the other end knows it.

    >>> error = CursorExpired("the cursor is 3", subject="CdcBuffer", hint="Go on from 6.", earliest=7)
    >>> error.code, error.earliest
    ('cursor-expired', 7)
    """

    code = "cursor-expired"

    def __init__(self, what: str, *, subject: str, hint: str, earliest: int | None = None) -> None:
        super().__init__(what, subject=subject, hint=hint)
        self.earliest = earliest

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_expired, (type(self), self.what, self.subject, self.hint, self.earliest)


def _rebuild_expired(
    kind: type[CursorExpired], what: str, subject: str, hint: str, earliest: int | None
) -> CursorExpired:
    return kind(what, subject=subject, hint=hint, earliest=earliest)


class CursorAhead(DidNotHappen):
    """The cursor claims events that the log has not given: it is of another log, or of another life of it."""

    code = "cursor-ahead"


class FileChanged(DidNotHappen):
    """A file that may only grow shrank, was replaced by another, or vanished."""

    code = "file-changed"


class Closed(DidNotHappen):
    """The object was closed before; it does nothing more."""

    code = "closed"


class Unsupported(DidNotHappen):
    """Understood, but not something Penstock does."""

    code = "unsupported"


class NotFound(DidNotHappen):
    """There is nothing of that name."""

    code = "not-found"


class NotReady(DidNotHappen):
    """It is there, but there is nothing to read of it yet."""

    code = "not-ready"


class AlreadyExists(DidNotHappen):
    """Something else has the name already, and stays."""

    code = "already-exists"


class AccessDenied(DidNotHappen):
    """The place refuses these credentials, or this user."""

    code = "access-denied"


class NoSpace(DidNotHappen):
    """The place is full, or a quota is used up. What was there before still is."""

    code = "no-space"


class StoreUnavailable(DidNotHappen):
    """The place did not answer, or refused for now; what was asked for was not done."""

    code = "store-unavailable"


class QueryFailed(DidNotHappen):
    """A query over contents met a value it could not compute with, or needed more than it may have."""

    code = "query-failed"


class EngineFailed(DidNotHappen):
    """Spark did not start, or gave up on what it was asked; nothing was committed."""

    code = "engine-failed"


class OutcomeUnknown(MayHaveHappened):
    """A write was asked of a store and its answer lost: the blob is as before or as written, but whole."""

    code = "outcome-unknown"
