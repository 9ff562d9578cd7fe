from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from penstock.changes import EmitKind, EmitStrategy
from penstock.errors import AppendOnly, InvalidArgument

SECOND = dt.timedelta(seconds=1)
EVERY = EmitStrategy.every(SECOND)
STRATEGIES = [EVERY if kind is EmitKind.EVERY else EmitStrategy(kind) for kind in EmitKind]


def test_the_strategies_are_these_six() -> None:
    assert [strategy.sql for strategy in STRATEGIES] == [
        "EMIT ON WATERMARK",
        "EMIT EVERY INTERVAL '1' SECOND",
        "EMIT ON UPDATE",
        "EMIT ON WINDOW CLOSE",
        "EMIT CHANGES",
        "EMIT FINAL",
    ]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.sql)
def test_a_sink_that_only_appends_takes_what_is_told_once(strategy: EmitStrategy) -> None:
    if strategy.kind in (EmitKind.ON_WINDOW_CLOSE, EmitKind.FINAL):
        strategy.check_append_only("sink files")
        return
    with pytest.raises(AppendOnly, match=r"sink files: EMIT .* takes results back"):
        strategy.check_append_only("sink files")


def test_an_interval_is_told_exactly() -> None:
    assert EmitStrategy.every(dt.timedelta(days=1, microseconds=1_500)).sql == (
        "EMIT EVERY INTERVAL '86400.0015' SECOND"
    )


@pytest.mark.parametrize(
    ("kind", "interval"),
    [
        *((EmitKind.EVERY, wrong) for wrong in (None, dt.timedelta(0), -SECOND, 5)),
        *((EmitKind.FINAL, wrong) for wrong in (SECOND, dt.timedelta(0))),
        ("FINAL", None),
    ],
)
def test_every_has_an_interval_and_the_others_have_none(kind: Any, interval: Any) -> None:
    with pytest.raises(InvalidArgument):
        EmitStrategy(kind, interval)
