"""What one machine computes and sends for one tree, by strategy: counts in closed form, for plans.

``formulas`` has the costs on the wire; ``calibration`` has the seconds of each count.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import log2

from pvtree.growing.tree_memory import POOL_BYTES
from pvtree.kernels.constants import BLOCK, MAX_CAPACITY
from pvtree.parameters.params import SEPARATE_LEARNERS
from pvtree.planning.formulas import (
    WORD,
    Wire,
    leaf_wise_tree,
    n_travelling,
    of_separate_trees,
    of_tree,
    packed_share,
    usual_course,
)

STRATEGIES = ("serial", "attribute", "data", "quantized", "voting", *SEPARATE_LEARNERS)
_ROW_PASSES = 4.0  # passes over all rows per tree: gradients, packing, exact sums, scores
_BALLOT_BOUNDARIES = 64  # boundaries of an attribute that are tried for a ballot
_VALUE_BYTES = 4  # a float32
_ROWS_PER_STEP = 2.0  # a row that walks down one split costs as much as moving this many rows to a child
_FRONTIERS_PER_TREE = 0.2  # reading another machine's tree, as a share of a frontier's fixed time
_ROW_BYTES = 60  # of a row besides its bins: number and word, twice each; side, label, score, gradients


@dataclass(frozen=True)
class Setting:
    """The training to plan, and the number of machines."""

    n_rows: int
    n_features: int
    n_workers: int = 1
    n_leaves: int = 63
    n_bins: float = 255.0  # of the average attribute
    top_k: int = 20
    election_size: float = 2.0
    quantized_bins: float = 0.1
    packs: bool = True

    def bins_of(self, strategy: str) -> float:
        return max(2.0, self.quantized_bins * self.n_bins) if strategy == "quantized" else self.n_bins

    def n_merged(self, strategy: str) -> int:
        """The number of attributes of a node whose histograms are merged."""
        if strategy in ("data", "quantized"):
            return self.n_features
        return min(self.n_features, max(1, int(self.election_size * self.top_k))) if strategy == "voting" else 0

    def wire(self, strategy: str) -> Wire:
        votes = strategy == "voting" and self.n_merged("voting") < self.n_features
        return Wire(self.n_workers, self.n_features, self.top_k if votes else 0, strategy == "attribute")


@dataclass(frozen=True)
class Sent:
    """What the average machine sends for one tree."""

    n_bytes: float
    n_calls: int


@dataclass(frozen=True)
class Work:
    """What one machine computes for one tree; the fields are those of ``calibration.Speeds``."""

    updates: float  # additions to histograms: rows times attributes
    rows: float  # moved to children, and passed over for gradients and scores
    searched: float  # bins scanned for the best split
    voted: float  # bins scanned for ballots, and subtracted
    items: float  # without voting: attributes of nodes whose histograms are made, kept or subtracted
    packed: float  # bins and bytes that voting packs, sends, receives and adds up
    sparse: float  # bins that data-parallel packs, sends, receives and adds up
    frontiers: float
    trees: float = 1.0

    def seconds(self, speeds: tuple[float, ...], n_cores: float = 1.0) -> float:
        """Seconds on ``n_cores``. The fixed costs of frontiers and trees do not shrink with more cores than one."""
        counts: tuple[float, ...] = astuple(self)
        *shared, frontiers, trees = (count * each for count, each in zip(counts, speeds, strict=True))
        return sum(shared) / n_cores + (frontiers + trees) / min(1.0, n_cores)


def sent_by(strategy: str, setting: Setting) -> Sent:
    """Bytes and collectives of one tree, as the ledger is expected to show them."""
    if strategy == "serial" or setting.n_workers == 1:
        return Sent(0.0, 0)
    wire, n_bins = setting.wire(strategy), setting.bins_of(strategy)
    if strategy in SEPARATE_LEARNERS:
        cost = of_separate_trees([setting.n_leaves] * setting.n_workers, wire, keeps_best=strategy == "svore")
        return Sent(sum(each.bytes for each in cost.values()) / setting.n_workers, len(cost))
    growth = leaf_wise_tree(setting.n_rows, setting.n_leaves, wire, setting.n_merged(strategy), n_bins)
    if setting.packs:
        wire = replace(wire, packed=packed_share(setting.n_rows, setting.n_leaves, wire, n_bins))
    cost = of_tree(growth, wire)
    total = sum(phase.bytes for phase in cost.values())
    return Sent(total / setting.n_workers, sum(phase.calls for phase in cost.values()))


def work_of(strategy: str, setting: Setting) -> Work:
    """What the average machine computes; one machine alone works like ``serial``."""
    n_workers = setting.n_workers
    if strategy == "serial" or n_workers == 1:
        return _serial(setting)
    if strategy in SEPARATE_LEARNERS:
        return _separate(setting)
    by_columns, votes = strategy == "attribute", setting.wire(strategy).top_k > 0
    course = usual_course(setting.n_leaves, waits=votes)
    n_rows = setting.n_rows / (1 if by_columns else n_workers)
    n_columns = setting.n_features / (n_workers if by_columns else 1)
    n_bins = setting.bins_of(strategy) + 1
    n_merged = setting.n_merged(strategy)
    exchanged = course.n_open * n_travelling(n_merged, setting.n_features) * n_bins if n_merged else 0.0
    exchanged *= 2.0 * (n_workers - 1) / n_workers  # what is sent and what is received
    looked_at = n_columns if by_columns else n_merged / n_workers
    return Work(
        updates=course.rows_added * n_rows * n_columns,
        rows=(course.rows_looked_at + _ROW_PASSES) * n_rows,
        searched=course.n_open * looked_at * n_bins,
        voted=course.n_open * n_columns * min(n_bins, _BALLOT_BOUNDARIES) if votes else 0.0,
        items=0.0 if votes else course.n_open * n_columns,
        packed=exchanged * (1.0 + _bytes_of_bin(setting)) if strategy == "voting" else 0.0,
        sparse=exchanged if strategy != "voting" else 0.0,
        frontiers=course.n_searches,
    )


def spread_bytes(strategy: str, setting: Setting) -> float:
    """Bytes that each machine sends before the first tree to spread data by columns that comes by rows."""
    if strategy != "attribute" or setting.n_workers == 1:
        return 0.0
    n_bytes = _VALUE_BYTES * setting.n_rows * setting.n_features
    return n_bytes * (setting.n_workers - 1) / setting.n_workers**2


def memory_of(strategy: str, setting: Setting) -> int:
    """Bytes that training holds on one machine: bins, rows and histograms, without the data as it was read."""
    n_workers = 1 if strategy == "serial" else setting.n_workers
    by_columns = strategy == "attribute"
    n_rows = -(-setting.n_rows // (1 if by_columns else n_workers))
    n_columns = -(-setting.n_features // (n_workers if by_columns else 1))
    bins = n_rows * -(-n_columns // int(BLOCK)) * int(BLOCK)
    words = n_columns * (setting.bins_of(strategy) + 1)
    grows_alone = n_workers == 1 or strategy in SEPARATE_LEARNERS
    n_leaves = min(setting.n_leaves, setting.n_rows)  # each has a row
    n_kept = n_leaves // 2 + 2 if grows_alone else 2 * n_leaves + 2
    narrow = min(n_kept, max(4, POOL_BYTES // int(8 * words)))
    wide = min(n_kept, n_rows // MAX_CAPACITY + 1, max(4, POOL_BYTES // int(24 * words)))
    merged = setting.n_merged(strategy) * (setting.bins_of(strategy) + 1) * 8 * setting.n_leaves / n_workers
    return int(bins + _ROW_BYTES * n_rows + 8 * words * (narrow + 3 * wide) + merged)


def _bytes_of_bin(setting: Setting) -> float:
    """The bytes of a packed bin in voting: the more rows, the longer the numbers."""
    wire = setting.wire("voting")
    search = leaf_wise_tree(
        setting.n_rows, setting.n_leaves, wire, setting.n_merged("voting"), setting.n_bins
    ).searches[0]
    plain = WORD * (wire.n_planes * search.narrow_bins + wire.n_fields * search.wide_bins)
    n_bins = search.narrow_bins + search.wide_bins
    return packed_share(setting.n_rows, setting.n_leaves, wire, setting.n_bins) * plain / max(1, n_bins)


def _serial(setting: Setting) -> Work:
    """The work of one machine alone, which makes no splits in advance and has no frontiers."""
    course = usual_course(setting.n_leaves)
    return Work(
        updates=course.rows_added * setting.n_rows * setting.n_features,
        rows=(course.rows_looked_at + _ROW_PASSES) * setting.n_rows,
        searched=(2.0 * setting.n_leaves - 3.0) * setting.n_features * (setting.n_bins + 1),
        voted=0.0, items=0.0, packed=0.0, sparse=0.0, frontiers=0.0,
    )  # fmt: skip


def _separate(setting: Setting) -> Work:
    """The work of growing a tree on the own rows, and of walking these rows down the trees of all machines."""
    alone = _serial(replace(setting, n_rows=max(1, setting.n_rows // setting.n_workers)))
    walked = _ROWS_PER_STEP * 1.5 * log2(setting.n_leaves) * setting.n_rows  # each machine's rows down every tree
    return replace(alone, rows=alone.rows + walked, frontiers=_FRONTIERS_PER_TREE * setting.n_workers)
