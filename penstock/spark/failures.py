"""What Spark gave up on, in our words and its own: which expression of which view met which value.

Three kinds of error come out of a job. Spark's own tells, where an expression failed on a value, the text of
that expression. What a Python worker raised comes as a traceback, of which the last line says what it was.
That a worker was killed comes from Py4J, as Spark has no word for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import EngineFailed, PenstockError, QueryFailed
from penstock.plan import Node, Select, in_order
from penstock.plan.key import plain_columns

__all__ = ["failure", "raised_by_spark"]

_AGAIN = "Nothing was committed. See Spark's log; then refresh again."
_VALUE = (
    "Nothing was committed. Correct the row that has the value, or drop the view and create it with an "
    "expression that takes such a value (try_cast, try_divide, nullif …)."
)


def raised_by_spark() -> tuple[type[Exception], ...]:
    """What to catch around a job."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def failure(error: Exception, views: Mapping[str, Node]) -> PenstockError:
    """The error for one of Spark's, given the plans of the views that were computed."""
    if not _is_about_a_value(error):
        return EngineFailed(f"Spark gave the job up: {_said(error)}", subject=_named(views), hint=_AGAIN)
    fragment = _fragment(error)
    concerned = {name: plan for name, plan in views.items() if _has(plan, fragment)}
    where = "" if not fragment else f" In {fragment!r}"
    return QueryFailed(f"{_said(error)}{where}", subject=_named(concerned or views), hint=_VALUE)


def _named(views: Iterable[str]) -> str:
    names = [*views]
    return f"view{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}" if names else "Spark"


def _is_about_a_value(error: Exception) -> bool:
    """Whether an expression met a value that it does not take: SQL's class 22, or the user's own error."""
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException) and (error.getSqlState() or "").startswith(("22", "P0001"))


def _fragment(error: Exception) -> str:
    """The text of the expression that failed, as far as Spark tells it; it does not for every one."""
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.base import QueryContextType

    assert isinstance(error, PySparkException)
    texts = [it.fragment() for it in error.getQueryContext() if it.contextType() == QueryContextType.SQL]
    return texts[0] if texts else ""


def _has(plan: Node, fragment: str) -> bool:
    """Whether the expression is one of the plan's, or stands in one; without a text, whether it has any."""
    selects = (node for node in in_order([plan]) if isinstance(node, Select))
    texts = (
        text
        for node in selects
        for text in (node.where or "", *(it.sql for it in node.columns if it.name not in plain_columns(node)))
    )
    return any(text and fragment in text for text in texts)


def _said(error: Exception) -> str:
    """What the error says, without the ways through Spark that it took."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:
        return f"a Python worker raised {lines[-1]}"
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = causes or lines or [type(error).__name__]
    return told[0].partition(" SQLSTATE: ")[0]
