"""One of the workers that train together: its threads and its communicators."""

from __future__ import annotations

from dataclasses import dataclass

from pvtree.comm import Communicator, Solo
from pvtree.kernels.team import Team


@dataclass(frozen=True)
class Worker:
    """Where training code runs."""

    team: Team
    comm: Communicator  # with all workers
    by_rows: Communicator  # with the workers that hold other rows; Solo if every worker holds all rows

    @property
    def lacks_columns(self) -> bool:
        """Whether workers share out the columns, not the rows."""
        return self.by_rows.size < self.comm.size

    @classmethod
    def of(cls, team: Team, comm: Communicator, tree_learner: str) -> Worker:
        return cls(team, comm, Solo() if tree_learner == "attribute" else comm)

    @classmethod
    def alone(cls, team: Team) -> Worker:
        return cls.of(team, Solo(), "serial")
