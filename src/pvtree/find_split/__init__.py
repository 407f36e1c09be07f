"""How the best splits of a frontier are found, and how rows learn their side: one file per strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pvtree.find_split.attribute import Attribute
from pvtree.find_split.data import Data
from pvtree.find_split.exact_voting import AuditedVoting, ExactVoting
from pvtree.find_split.serial import Serial
from pvtree.find_split.strategy import Votes
from pvtree.find_split.voting import Voting
from pvtree.growing.strategy import Strategy
from pvtree.parameters.params import SEPARATE_LEARNERS

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

__all__ = ["Strategy", "Votes", "make_strategy"]


def make_strategy(params: Params, comm: Communicator) -> Strategy:
    """The strategy of ``params.tree_learner``."""
    if params.tree_learner in ("serial", *SEPARATE_LEARNERS):  # separate learners give every worker its own trees
        return Serial()
    if params.tree_learner == "attribute":
        return Attribute(comm)
    election_size, packs = params.election_size, params.packs_histograms
    if params.tree_learner == "exact_voting":
        return ExactVoting(comm, params.top_k, election_size, packs)
    if params.tree_learner == "voting":
        # Ballots by a sample of the rows do not know the options.
        top_k, ballot_rows = int(params.top_k), 0 if params.has_split_options else params.ballot_rows
        if params.audit:
            return AuditedVoting(comm, top_k, election_size, packs, params.audit, ballot_rows)
        return Voting(comm, top_k, election_size, packs, ballot_rows)
    return Data(comm, params.packs_histograms)  # "quantized" is the same on coarser bins
