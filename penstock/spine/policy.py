"""When runs are merged: `due` finds what, `Policy` says how eagerly.

Law: where no merge is due, a run of n rows lies above others that hold less than 0.4 n rows together. So
over any hash there are at most 1 + log₃.₅ n runs; what is stored is at most 1.4 times the largest run; and
a run is rewritten only when what came since makes it 1.4 times as large, so each row is rewritten O(log n)
times. If all that came since were deletes, 0.6 of the largest run would be left, and less than three times
that is stored.

A merge is made over the widest range of hashes in which it has at most ``most_rows`` rows: merges of little
are made over the whole shard, so that they leave one file, and merges of much are made piece by piece, so
that no step waits long for them. What a step may merge is in proportion to what it adds, and one piece at
least.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import InvalidArgument
from penstock.spine.run import Run
from penstock.spine.slices import Slice

__all__ = ["Merge", "Part", "Policy", "due", "gaps"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How eagerly runs are merged. The defaults are for production; tests make everything small."""

    most_rows: int = 1 << 22
    """Rows of a file, and of a merge in one go."""
    most_bytes: int = 1 << 27
    """Bytes of a file that a merge writes, about."""
    share: float = 0.4
    """A run is merged as soon as those smaller than it hold this share of its rows together."""
    work: int = 8
    """Rows that a step may merge for each row it adds, beside ``most_rows``."""
    garbage: float = 0.25
    """Rows of files that are no part of the spine any more, as a share of those that are, before files are
    rewritten that are mostly garbage."""

    def __post_init__(self) -> None:
        if min(self.most_rows, self.most_bytes) < 1 or self.share <= 0 or min(self.work, self.garbage) < 0:
            raise InvalidArgument(
                "files need a row and a byte, the share is more than 0, and nothing is less",
                subject=str(self),
                hint="Begin with Policy() and change what you must.",
            )


@dataclass(frozen=True, slots=True)
class Part:
    """A run that a merge may take in. ``slice`` is None for the rows that the step itself adds."""

    run: Run
    slice: Slice | None

    def cut(self, begin: int, end: int) -> Part:
        """What of it lies in the range."""
        run = self.run.cut(begin, end)
        if run is self.run:
            return self
        return Part(run, None if self.slice is None else self.slice.cut(run.begin, run.end))

    @property
    def file(self) -> str:
        return "" if self.slice is None else self.slice.file

    @property
    def density(self) -> float:
        """Rows per hash, by which parts of one run are told from those of a larger one."""
        return self.run.rows / (self.run.end - self.run.begin)


@dataclass(frozen=True, slots=True)
class Merge:
    """Parts, cut to [begin, end), that become new files."""

    begin: int
    end: int
    parts: tuple[Part, ...]
    layer: int = 0
    """How many larger layers lie above them."""

    @property
    def rows(self) -> int:
        return sum(part.run.rows for part in self.parts)

    def cut(self, begin: int, end: int) -> Merge:
        """What of it lies in the range."""
        return Merge(begin, end, _cut(self.parts, begin, end), self.layer)


def due(
    policy: Policy, parts: Sequence[Part], slices: Iterable[Slice], begin: int, end: int, added: int
) -> list[Merge]:
    """The merges that a step makes which adds so many rows, in the order of their ranges, which do not
    overlap, save those of files that are mostly garbage.

    ``slices`` are all of the spine's, whatever range the parts are from: so all shards agree about a file.
    """
    plan = _Plan(policy, added)
    merges = plan.of(_Stack.of(parts, begin, end))
    taken = {"", *(part.file for merge in merges for part in merge.parts)}
    free = [part for part in parts if part.file not in taken]
    return merges + plan.wasteful(free, slices)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Runs that lie side by side, as one run would."""

    parts: tuple[Part, ...]
    rows: int


class _Spans:
    """Parts that share no hash, or were cut within one by the merge that wrote them."""

    def __init__(self, part: Part) -> None:
        self.parts = [part]
        self._spans = [self._span(part)]

    def took(self, part: Part) -> bool:
        """Take it in, if it lies beside all that are here."""
        span = begin, end, group = self._span(part)
        at = bisect(self._spans, span)
        for other_begin, other_end, other in self._spans[max(at - 1, 0) : at + 1]:
            if begin < other_end and other_begin < end and (not group or group != other):
                return False
        self._spans.insert(at, span)
        self.parts.append(part)
        return True

    @staticmethod
    def _span(part: Part) -> tuple[int, int, str]:
        return part.run.begin, part.run.end, part.run.data.group


@dataclass(frozen=True, slots=True)
class _Stack:
    """The layers over a range of hashes, the largest first."""

    begin: int
    end: int
    layers: tuple[_Layer, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], begin: int, end: int) -> _Stack:
        inside = sorted(_cut(parts, begin, end), key=lambda part: -part.density)
        layers: list[_Spans] = []
        for part in inside:
            if not any(layer.took(part) for layer in layers):
                layers.append(_Spans(part))
        made = [_Layer(tuple(layer.parts), sum(part.run.rows for part in layer.parts)) for layer in layers]
        return cls(begin, end, tuple(sorted(made, key=lambda layer: -layer.rows)))

    @property
    def parts(self) -> list[Part]:
        return [part for layer in self.layers for part in layer.parts]

    def unbalanced(self, share: float) -> list[int]:
        """The layers that hold too little more than all below them, the largest first."""
        found, below = [], 0
        for at in range(len(self.layers) - 1, -1, -1):
            rows = self.layers[at].rows
            if below and below >= share * rows:
                found.append(at)
            below += rows
        return found[::-1]

    def merge(self, at: int) -> Merge:
        """Of this layer with all below it."""
        return Merge(self.begin, self.end, tuple(part for layer in self.layers[at:] for part in layer.parts))

    def halves(self) -> list[_Stack]:
        """The range cut in two, as shards would be; where all rows lie in one half, this one cut in two."""
        parts = self.parts
        least = min(part.run.hash_at(part.run.first) for part in parts)
        most = max(part.run.hash_at(part.run.last - 1) for part in parts)
        begin, end = self.begin, self.end
        while end - begin > 1:
            middle = (begin + end) // 2
            if least < middle <= most:
                return [_Stack.of(parts, begin, middle), _Stack.of(parts, middle, end)]
            begin, end = (middle, end) if least >= middle else (begin, middle)
        return [_Stack.of(parts, begin, end)]


def _cut(parts: Sequence[Part], begin: int, end: int) -> tuple[Part, ...]:
    """What of them lies in the range; none is empty."""
    inside = [part.cut(begin, end) for part in parts if part.run.begin < end and begin < part.run.end]
    return tuple(part for part in inside if part.run.rows)


class _Plan:
    """The merges of one step, as far as its budget goes."""

    def __init__(self, policy: Policy, added: int) -> None:
        self._policy = policy
        self._budget = policy.most_rows + policy.work * added

    def of(self, stack: _Stack, deepest: int | None = None) -> list[Merge]:
        """``deepest``: the last layer a merge may begin with. So a piece of a range is merged only as part of
        what is too much for the whole of it."""
        unbalanced = [at for at in stack.unbalanced(self._policy.share) if deepest is None or at <= deepest]
        if not unbalanced or self._budget <= 0:
            return []
        merge = stack.merge(unbalanced[0])
        if merge.rows <= self._policy.most_rows or stack.end - stack.begin == 1:
            self._budget -= merge.rows
            return [merge]
        merges = [it for half in stack.halves() for it in self.of(half, unbalanced[0])]
        return self._with_less(stack, unbalanced[1:], _joined(merges, self._policy.most_rows))

    def wasteful(self, parts: Sequence[Part], slices: Iterable[Slice]) -> list[Merge]:
        """Parts to write anew as they keep files that are mostly garbage, or to drop as they hold nothing."""
        of_file: dict[str, list[Slice]] = {}
        for it in slices:
            of_file.setdefault(it.file, []).append(it)
        merges, found = [], []
        live = garbage = 0.0
        for part in parts:
            alone = Merge(part.run.begin, part.run.end, (part,))
            if not part.run.rows:
                merges.append(alone)
                continue
            data = part.run.data
            there = sum(Run(data, it.begin, it.end).rows for it in of_file[part.file])
            its = (data.rows - there) * part.run.rows / there  # its share of what is gone from the file
            live += part.run.rows
            garbage += its
            found.append((its / part.run.rows, its, alone))
        for _, its, alone in sorted(found, key=lambda it: -it[0]):
            if garbage <= self._policy.garbage * live or self._budget <= 0:
                break
            merges.append(alone)
            garbage -= its
            self._budget -= alone.rows
        return merges

    def _with_less(self, stack: _Stack, unbalanced: Sequence[int], merges: list[Merge]) -> list[Merge]:
        """Where the budget left a range alone, merge at least what fits in one go of what lies over it."""
        for at in unbalanced:
            merge = stack.merge(at)
            if merge.rows <= self._policy.most_rows:
                left = gaps(stack.begin, stack.end, merges)
                self._budget -= merge.rows
                less = [it for gap in left if len((it := merge.cut(*gap)).parts) > 1]
                return sorted([*merges, *less], key=lambda it: it.begin)
        return merges


def gaps(begin: int, end: int, merges: Sequence[Merge]) -> list[tuple[int, int]]:
    """What is left of the range between merges, which are in order."""
    found = []
    for it in merges:
        if begin < it.begin:
            found.append((begin, it.begin))
        begin = it.end
    if begin < end:
        found.append((begin, end))
    return found


def _joined(merges: Sequence[Merge], most_rows: int) -> list[Merge]:
    """Merges of ranges that meet and begin with one layer become one, where that is not too much."""
    joined: list[Merge] = []
    for it in merges:
        last = joined[-1] if joined else None
        if (
            last is not None
            and (last.end, last.layer) == (it.begin, it.layer)
            and last.rows + it.rows <= most_rows
        ):
            joined[-1] = Merge(last.begin, it.end, last.parts + it.parts, it.layer)
        else:
            joined.append(it)
    return joined
