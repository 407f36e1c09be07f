"""One of the workers that train together: its threads and its lines to the others."""

from __future__ import annotations

from dataclasses import dataclass

from pvtree.comm import Communicator, Solo
from pvtree.kernels.team import Team


@dataclass(frozen=True)
class Worker:
    """What training code needs to know about where it runs."""

    team: Team
    comm: Communicator  # to all workers
    by_rows: Communicator  # to the workers that hold other rows; alone where every worker has all rows

    @property
    def lacks_columns(self) -> bool:
        """Whether others hold the rest of this worker's columns, and not of its rows."""
        return self.by_rows.size < self.comm.size

    @classmethod
    def of(cls, team: Team, comm: Communicator, tree_learner: str) -> Worker:
        return cls(team, comm, Solo() if tree_learner == "attribute" else comm)

    @classmethod
    def alone(cls, team: Team) -> Worker:
        return cls.of(team, Solo(), "serial")
