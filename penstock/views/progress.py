"""Telling people how far a refresh has come: on a terminal as a line that moves, elsewhere in the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.views.pipeline import Ticked

__all__ = ["Progress", "showing"]

_logger = logging.getLogger("penstock.ticks")

Progress = Callable[[Ticked], None]
"""Is told of each tick as it is committed."""


@contextmanager
def showing(progress: Progress | None, waiting: Callable[[], int]) -> Iterator[Progress]:
    """The caller's own progress, or a bar where there is a terminal; and a line in the log for each tick."""
    if progress is not None:
        yield _logged(progress)
    elif sys.stderr.isatty():
        with _bar(waiting()) as bar:
            yield _logged(bar)
    else:
        yield _logged(lambda _: None)


def _logged(progress: Progress) -> Progress:
    def told(ticked: Ticked) -> None:
        _logger.info(
            "tick %d: %d rows in %.3f s (%.0f rows/s), %d waiting",
            ticked.tick,
            ticked.rows,
            ticked.seconds,
            ticked.rows / max(ticked.seconds, 1e-9),
            ticked.lag,
            extra={
                "tick": ticked.tick,
                "rows": ticked.rows,
                "seconds": ticked.seconds,
                "lag": ticked.lag,
                "events": dict(ticked.events),
            },
        )
        progress(ticked)

    return told


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} of {task.total:,} events"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("refreshing", total=total, rate="")

        def told(ticked: Ticked) -> None:
            rate = f"{ticked.rows / max(ticked.seconds, 1e-9):,.0f} rows/s"
            bar.update(task, completed=max(total - ticked.lag, 0), rate=rate)

        yield told
