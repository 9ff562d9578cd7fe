"""State as sums of immutable sorted runs, cut by ranges of the key's hash.

A `Layout` says what rows look like. A `Spine` is the sum of `Slice`s of run files; `ShardState` is what one
step sees of its spines and what it leaves: an `Edit` for each, which `edited` applies to the list in a
manifest.
"""

from penstock.spine.arrange import arrange
from penstock.spine.layout import END, HASH, Layout
from penstock.spine.policy import Policy
from penstock.spine.runs import Runs
from penstock.spine.shards import MOST_SHARDS, shard_of, shard_range
from penstock.spine.slices import Edit, Slice, edited
from penstock.spine.spine import Spine
from penstock.spine.state import ShardState
from penstock.spine.write import write_run

__all__ = [
    "END",
    "HASH",
    "MOST_SHARDS",
    "Edit",
    "Layout",
    "Policy",
    "Runs",
    "ShardState",
    "Slice",
    "Spine",
    "arrange",
    "edited",
    "shard_of",
    "shard_range",
    "write_run",
]
