"""How workers talk: one interface (base), one file per engine that implements it, and the ledger of what it cost."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pvtree.comm.base import Communicator, Solo
from pvtree.comm.network import Network
from pvtree.comm.traffic import PHASES, PhaseTraffic, Traffic, TrafficReport
from pvtree.comm.virtual import Cluster

if TYPE_CHECKING:
    from pvtree.comm import tcp

__all__ = ["PHASES", "Cluster", "Communicator", "Network", "PhaseTraffic", "Solo", "Traffic", "TrafficReport", "tcp"]


def __getattr__(name: str) -> Any:
    """Import the engine that needs no other package when it is first used."""
    if name == "tcp":
        return importlib.import_module("pvtree.comm.tcp")
    raise AttributeError(f"module 'pvtree.comm' has no attribute {name!r}")
