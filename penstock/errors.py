"""Every error Penstock raises, in one tree.

::

    PenstockError
    ├── DidNotHappen                 nothing was changed; safe to correct and call again
    │   ├── InvalidArgument          a value that can never be right
    │   │   ├── ReservedName         a column beginning with one underscore
    │   │   └── SchemaMismatch       columns or types that do not fit one another
    │   ├── DamagedBytes             stored bytes that are not what was written
    │   ├── MalformedMessage         a message from outside that breaks its format's rules
    │   ├── ArithmeticOverflow       an exact result that its type cannot hold
    │   ├── AppendOnly               a retraction for something that only takes additions
    │   ├── KeyConflict              two live rows where a key allows one
    │   └── Unsupported              understood, but not something Penstock does
    └── MayHaveHappened              the answer was lost: look before you repeat

Each error carries a stable ``code`` (part of the public surface: match on it, not on the text),
what happened, ``subject`` (to which object), and ``hint`` (what to do). ``str(error)`` says all three.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AppendOnly",
    "ArithmeticOverflow",
    "DamagedBytes",
    "DidNotHappen",
    "InvalidArgument",
    "KeyConflict",
    "MalformedMessage",
    "MayHaveHappened",
    "PenstockError",
    "ReservedName",
    "SchemaMismatch",
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


class Unsupported(DidNotHappen):
    """Understood, but not something Penstock does."""

    code = "unsupported"
