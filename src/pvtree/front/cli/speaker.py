"""Which rank prints for all. Found without MPI, which may not have started."""

from __future__ import annotations

import os

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")


def is_speaker() -> bool:
    """Whether this rank prints what all ranks know."""
    return all(os.environ.get(name, "0") == "0" for name in RANK_VARIABLES)
