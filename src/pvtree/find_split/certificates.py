"""What is known about the splits of a tree that workers voted for: how many are proven best, and at what cost."""

from __future__ import annotations

from typing import NamedTuple

from pvtree.errors import public


@public
class Certificate(NamedTuple):
    """The proofs of one tree. Bytes are those that the average worker sent."""

    tree: int  # its number in the model
    splits: int  # of the finished tree
    unvoted: int  # nodes that merged all features: they had few rows, or ancestors whose features were all in doubt
    at_once: int  # proven by the bounds of all features that were not elected
    rounded: int  # proven when some features' sums were known roughly
    merged: int  # needed further features' histograms; where these are not asked for (audit=n): not proven
    missed: int  # splits whose feature had not been elected; an audit cannot know them
    n_rounded: int  # features whose sums were sent roughly, over all nodes that were looked at
    n_extra: int  # features merged beside the elected ones
    bound_bytes: int
    rounded_bytes: int
    extra_bytes: int
    top_k: tuple[int, ...]  # names on a ballot, by level

    @property
    def proven(self) -> int:
        """Splits known to be the best by the election and its proof alone."""
        return self.unvoted + self.at_once + self.rounded
