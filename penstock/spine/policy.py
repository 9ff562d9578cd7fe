"""When runs are merged: `due` and `wasteful` find what, `Policy` says how eagerly.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.spine.run import Run
from penstock.spine.slices import Slice

__all__ = ["Merge", "Part", "Policy", "due"]


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

    def lies_beside(self, other: Part) -> bool:
        """Whether the two share no hash, or were cut within a hash by the merge that wrote both."""
        group = self.run.data.group
        return (
            self.run.end <= other.run.begin
            or other.run.end <= self.run.begin
            or (bool(group) and group == other.run.data.group)
        )


@dataclass(frozen=True, slots=True)
class Merge:
    """Parts, cut to [begin, end), that become new files."""

    begin: int
    end: int
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        return sum(part.run.rows for part in self.parts)


def due(policy: Policy, parts: Sequence[Part], begin: int, end: int, added: int) -> list[Merge]:
    """The merges to make now, in the order of their ranges, which do not overlap."""
    return _joined(_Plan(policy, added).of(_Stack.of(parts, begin, end)), policy.most_rows)


def wasteful(policy: Policy, parts: Sequence[Part], slices: Iterable[Slice]) -> list[Merge]:
    """Parts to write anew because they keep files that are mostly garbage. ``slices`` are all of the
    spine's, whatever range the parts are from: so all shards come to one verdict about a file."""
    of_file: dict[str, list[Slice]] = {}
    for it in slices:
        of_file.setdefault(it.file, []).append(it)
    found = []
    live = garbage = 0.0
    for part in parts:
        if part.slice is None:
            continue
        data = part.run.data
        there = sum(Run(data, it.begin, it.end).rows for it in of_file[part.slice.file])
        share = (data.rows - there) / there if there else 0.0  # rows gone for each row that is left
        live += part.run.rows
        garbage += share * part.run.rows
        found.append((share, part))
    merges = []
    for share, part in sorted(found, key=lambda it: -it[0]):
        if garbage <= policy.garbage * live:
            break
        merges.append(Merge(part.run.begin, part.run.end, (part,)))
        garbage -= share * part.run.rows
    return merges


@dataclass(frozen=True, slots=True)
class _Layer:
    """Runs that lie side by side, as one run would."""

    parts: tuple[Part, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class _Stack:
    """The layers over a range of hashes, the largest first."""

    begin: int
    end: int
    layers: tuple[_Layer, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], begin: int, end: int) -> _Stack:
        inside = [part.cut(begin, end) for part in parts if part.run.begin < end and begin < part.run.end]
        inside = sorted((part for part in inside if part.run.rows), key=lambda part: -part.run.rows)
        layers: list[list[Part]] = []
        for part in inside:
            for layer in layers:
                if all(part.lies_beside(other) for other in layer):
                    layer.append(part)
                    break
            else:
                layers.append([part])
        made = [_Layer(tuple(layer), sum(part.run.rows for part in layer)) for layer in layers]
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


class _Plan:
    """The merges of one step, as far as its budget goes."""

    def __init__(self, policy: Policy, added: int) -> None:
        self._policy = policy
        self._budget = policy.most_rows + policy.work * added

    def of(self, stack: _Stack, deepest: int | None = None) -> list[Merge]:
        """``deepest``: the last layer a merge may begin with. So a piece of a range is merged only as part
        of what is too much for the whole of it."""
        unbalanced = [at for at in stack.unbalanced(self._policy.share) if deepest is None or at <= deepest]
        if not unbalanced or self._budget <= 0:
            return []
        merge = stack.merge(unbalanced[0])
        if merge.rows <= self._policy.most_rows or stack.end - stack.begin == 1:
            return self._taken(merge)
        merges = [it for half in stack.halves() for it in self.of(half, unbalanced[0])]
        if not merges:
            for at in unbalanced[1:]:
                merge = stack.merge(at)
                if merge.rows <= self._policy.most_rows:
                    return self._taken(merge)
        return merges

    def _taken(self, merge: Merge) -> list[Merge]:
        self._budget -= merge.rows
        return [merge]


def _joined(merges: Sequence[Merge], most_rows: int) -> list[Merge]:
    """Merges of ranges that meet become one, where that is not too much."""
    joined: list[Merge] = []
    for it in merges:
        last = joined[-1] if joined else None
        if last is not None and last.end == it.begin and last.rows + it.rows <= most_rows:
            joined[-1] = Merge(last.begin, it.end, last.parts + it.parts)
        else:
            joined.append(it)
    return joined
