"""Workers without a communicator: the frontiers of all of them side by side, and the same tree kept naively."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from types import SimpleNamespace

import numpy as np

import oracle
from packed_rows import LAYOUTS, as_blocks, fields_of, histogram, pack
from pvtree.binning.thresholds import block_starts
from pvtree.growing.frontier import Frontier
from pvtree.growing.frontier_records import Items, split_dtype
from pvtree.growing.tree_memory import Rules
from pvtree.kernels.constants import ENTROPY
from pvtree.kernels.team import Team
from pvtree.kernels.wire.merge import place_items
from pvtree.kernels.wire.messages import TRAVELS

ROOMY = (100, 2**20)  # slots for kept histograms, bytes for them


class Workers:
    """``worker_of[row]`` has the row. Nodes are split as a test says, and ``rows_of[node]`` are all rows of a node."""

    def __init__(
        self,
        name: str,
        bins: np.ndarray,
        values: np.ndarray,
        worker_of: np.ndarray,
        n_workers: int,
        rules: Rules,
        *,
        categorical: tuple[int, ...] = (),
        pool: tuple[int, int] = ROOMY,
    ) -> None:
        self.name, self.layout, self.bins, self.values, self.size = name, LAYOUTS[name], bins, values, n_workers
        words, planes = pack(values, name)
        self.fields = fields_of(values, planes, self.layout)  # (n_rows, n_fields)
        self.n_features = bins.shape[1]
        everything = as_blocks(bins, block_starts(self.n_features, 1).astype(np.int64), categorical)
        self.n_bins = everything.n_bins
        self.own_rows = [np.flatnonzero(worker_of == m) for m in range(n_workers)]
        self.rows_of = [np.arange(len(bins))]
        self.frontiers = []
        for own in self.own_rows:
            data = as_blocks(bins[own], everything.block_start, categorical) if len(own) else everything
            data = data._replace(n_bins=self.n_bins, bins=data.bins if len(own) else data.bins[:, :0])
            shard = SimpleNamespace(
                data=data, first_feature=0, n_all_features=self.n_features,
                thresholds=SimpleNamespace(is_categorical=data.is_categorical),
            )  # fmt: skip
            frontier = Frontier(shard, self.layout, rules.n_sampled, n_workers, pool, Team(1))  # type: ignore[arg-type]
            memory = frontier.memory
            memory.rows[0], memory.words[0] = np.arange(len(own)), words[own]
            if len(planes):
                memory.planes[0] = planes[own]
            frontier.begin(len(own), self.fields.sum(axis=0), rules, np.arange(self.n_features))
            self.frontiers.append(frontier)

    def __iter__(self):
        return iter(self.frontiers)

    @property
    def row_node(self) -> np.ndarray:
        """The nodes under evaluation, the same on all workers."""
        return self.frontiers[0].row_node

    def split(self, choices: dict[int, tuple[int, int]]) -> np.ndarray:
        """Split nodes of the frontier at (feature, last bin on the left), missing values right; returns the parents."""
        frontier = self.frontiers[0]
        nodes = frontier.row_node[frontier.is_open]
        splits = np.zeros(len(nodes), split_dtype(self.layout.n_fields, frontier.has_categories))
        splits["gain"] = -np.inf
        for i, node in enumerate(nodes):
            if node in choices:
                splits[i]["gain"], splits[i]["feature"], splits[i]["split_bin"] = 1.0, *choices[node]
                if frontier.has_categories:
                    splits[i]["left_set"] = as_set(range(1, choices[node][1] + 1))
                splits[i]["left_sums"] = self.fields[self.rows_of[node][self._goes_left(node, choices)]].sum(axis=0)
        parents = np.array([node for node in nodes if node in choices], np.int64)
        for each in self.frontiers:
            each.set_splits(splits)
            each.make_children(parents)
            each.mark_sides(parents)
            each.move_rows(parents)
        for parent in parents:
            goes_left = self._goes_left(parent, choices)
            self.rows_of += [self.rows_of[parent][goes_left], self.rows_of[parent][~goes_left]]
        return parents

    def split_any(self, rng: np.random.Generator, share: float = 0.8) -> np.ndarray:
        """Split some nodes of the frontier anywhere, so that a side or a worker may be left without rows."""
        is_open = self.frontiers[0].is_open
        choices = {}
        for node in self.row_node[is_open].tolist():
            feature = int(rng.integers(self.n_features))
            if rng.random() < share:
                choices[node] = (feature, int(rng.integers(0, self.n_bins[feature] + 1)))
        return self.split(choices)

    def look_at_children(self, parents: np.ndarray) -> None:
        for each in self.frontiers:
            each.look_at_children(parents)

    def _goes_left(self, node: int, choices: dict[int, tuple[int, int]]) -> np.ndarray:
        feature, split_bin = choices[node]
        column = self.bins[self.rows_of[node], feature]
        return (column > 0) & (column <= split_bin)

    def histogram(self, node: int, feature: int, worker: int | None = None) -> np.ndarray:
        """(n_fields, n_bins + 1) of all rows of a node or of one worker's, added up anew."""
        rows = self.rows_of[node]
        if worker is not None:
            rows = np.intersect1d(rows, self.own_rows[worker])
        return histogram(self.bins[rows, feature], self.fields[rows])[:, : self.n_bins[feature] + 1]

    def items(self, rank: int, start: np.ndarray, feature: np.ndarray, parent: np.ndarray | None = None) -> Items:
        """Items as worker ``rank`` sees them, all of which travel unless ``parent`` says otherwise."""
        frontier = self.frontiers[rank]
        parent = np.full(len(feature), TRAVELS) if parent is None else parent
        n_rows = frontier.row_counts
        place = np.empty(len(feature), np.int64)
        layout = self.layout
        size = place_items(
            rank, self.owner, n_rows, layout.capacity, layout.n_planes, layout.n_fields,
            frontier.stride, start, feature, place,
        )  # fmt: skip
        arena = np.full(size, -1)
        return Items(start, feature, parent, np.full(len(feature), -1), place, n_rows > layout.capacity, arena)

    @property
    def owner(self) -> np.ndarray:
        return np.arange(self.n_features) % self.size

    def kept(self, items: Items, item: int, node: int) -> np.ndarray:
        """(n_fields, n_bins + 1) of an item in its owner's arena, decoded bin by bin."""
        layout, stride = self.layout, self.frontiers[0].stride
        n_used = self.n_bins[items.feature[item]] + 1
        n_words = layout.n_fields if len(self.rows_of[node]) > layout.capacity else layout.n_planes
        words = items.arena[items.place[item] :][: n_words * stride].reshape(n_words, stride)[:, :n_used]
        if n_words == layout.n_fields:
            return words
        counts = words & 0x3FFF
        return np.vstack([counts, (words[layout.plane] >> layout.shift[:, None]) & layout.mask[:, None]])


def as_set(bins: Iterable[int]) -> np.ndarray:
    """uint64 (4,): bit b for bin b."""
    bits = sum(1 << b for b in bins)
    return np.array([bits >> 64 * i & (2**64 - 1) for i in range(4)], np.uint64)


def brute_rules(rules: Rules, **changed: float) -> oracle.Rules:
    """The same rules for the brute force."""
    shared = {each.name: getattr(rules, each.name) for each in fields(oracle.Rules) if hasattr(rules, each.name)}
    return oracle.Rules(entropy=rules.criterion == ENTROPY, **shared | changed)


def brute_values(values: np.ndarray, rules: Rules) -> np.ndarray:
    """Row statistics as the brute force wants them: a constant hessian is a column too."""
    if rules.criterion == ENTROPY or values.shape[1] == 2:
        return values
    return np.column_stack([np.ones(len(values), np.int64), values])


def any_rows(
    rng: np.random.Generator, n_rows: int, n_features: int, n_workers: int, most_bins: int = 12
) -> tuple[np.ndarray, np.ndarray]:
    """Bins (n_rows, n_features) with missing ones, and the worker of each row, some of whom may have few or none."""
    n_bins = rng.integers(1, most_bins + 1, n_features)
    bins = rng.integers(0, n_bins + 1, (n_rows, n_features))
    shares = rng.choice([0.0, 0.05, 1.0], n_workers)
    shares[rng.integers(n_workers)] = 1.0
    return bins, rng.choice(n_workers, n_rows, p=shares / shares.sum())


def any_features(
    rng: np.random.Generator, frontier: Frontier, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(start, feature): for each open row of a frontier some features in rising order."""
    chosen = []
    for is_open in frontier.is_open:
        n = int(rng.integers(0, (most or frontier.n_features) + 1)) if is_open else 0
        chosen.append(np.sort(rng.permutation(frontier.n_features)[:n]))
    start = np.concatenate(([0], np.cumsum([len(each) for each in chosen])))
    return start.astype(np.int64), np.concatenate(chosen).astype(np.int64)
