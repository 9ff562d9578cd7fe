"""What the one who appends says when it cannot go on."""

from __future__ import annotations

from penstock.errors import Closed, OutcomeUnknown, PenstockError

__all__ = ["as_told", "closed", "forked", "stopped_by", "unsure_of"]


def closed(subject: str) -> Closed:
    return Closed("the log was closed", subject=subject, hint="Open it again.")


def stopped_by(error: PenstockError, subject: str) -> Closed:
    """After a write that nobody knows the outcome of: more behind it would make things worse."""
    return Closed(
        f"an earlier write failed and what it left is unknown ({error.what})",
        subject=subject,
        hint="Mend the cause, close the log and open it again: it recovers what was acknowledged.",
    )


def forked(process: int, subject: str) -> Closed:
    return Closed(
        f"it belongs to process {process}, of which this one is a fork",
        subject=subject,
        hint="Append there, or open the log to read.",
    )


def unsure_of(lsn: int, subject: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"events up to LSN {lsn} were written, but a sync failed, so whether they are on disk is unknown",
        subject=subject,
        hint="Close the log and open it again: then it has them or not, and says so by its current LSN.",
    )


def as_told(error: BaseException, doing: str, subject: str) -> PenstockError:
    """The error itself, or what an interruption means."""
    if isinstance(error, PenstockError):
        return error
    return OutcomeUnknown(
        f"{doing} was interrupted by {type(error).__name__}", subject=subject, hint="Open the log again."
    )
