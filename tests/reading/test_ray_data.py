"""Who reads which rows of a Ray Dataset; this needs no Ray."""

import numpy as np
import pytest

from pvtree.errors import InvalidDataError
from pvtree.reading.ray_data import Block, is_dataset, share_out


def rows_of(blocks, pieces):
    """(block, row) for each worker."""
    number = {block.ref: index for index, block in enumerate(blocks)}
    return [[(number[p.ref], row) for p in own for row in range(p.start, p.stop)] for own in pieces]


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_dealt_out_once_in_equal_shares_and_places_follow_the_rows(seed):
    rng = np.random.default_rng(seed)
    names = [f"node{i}" for i in range(3)]
    blocks = [
        Block(f"block{i}", int(rng.integers(1, 30)), frozenset(rng.choice(names, rng.integers(0, 3), replace=False)))
        for i in range(rng.integers(1, 9))
    ]
    nodes = rng.choice(names, rng.integers(1, 6)).tolist()
    pieces = share_out(blocks, nodes)
    dealt = rows_of(blocks, pieces)
    assert sorted(row for own in dealt for row in own) == [
        (i, row) for i, block in enumerate(blocks) for row in range(block.n_rows)
    ]
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    placed = sorted((p.position, p.ref, p.start) for own in pieces for p in own if p.stop > p.start)
    assert [(ref, start) for _, ref, start in placed] == sorted((ref, start) for _, ref, start in placed)
    assert len({p.position for own in pieces for p in own}) == sum(map(len, pieces))


def test_rows_stay_on_their_nodes_where_shares_allow_it():
    blocks = [Block("x", 4, frozenset({"a"})), Block("y", 4, frozenset({"b"})), Block("z", 4, frozenset({"b"}))]
    near_b, near_a, other = rows_of(blocks, share_out(blocks, ["b", "a", "c"]))
    assert near_b == [(1, row) for row in range(4)]
    assert near_a == [(0, row) for row in range(4)]
    assert other == [(2, row) for row in range(4)]


def test_workers_without_rows_still_see_the_columns():
    (first,), (second,) = share_out([Block("x", 1, frozenset())], ["a", "b"])
    assert {(each.start, each.stop) for each in (first, second)} == {(0, 1), (0, 0)}
    with pytest.raises(InvalidDataError, match="has no rows"):
        share_out([], ["a"])


def test_other_objects_are_no_datasets():
    assert not any(map(is_dataset, (None, np.zeros((2, 2)), [[1.0]], "text", object)))
