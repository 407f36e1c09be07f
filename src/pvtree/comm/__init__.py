"""How workers talk: one interface (base), one file per engine that implements it, and the ledger of what it cost."""

from pvtree.comm.base import Communicator, Solo
from pvtree.comm.network import Network
from pvtree.comm.traffic import PHASES, PhaseTraffic, Traffic, TrafficReport
from pvtree.comm.virtual import Cluster

__all__ = ["PHASES", "Cluster", "Communicator", "Network", "PhaseTraffic", "Solo", "Traffic", "TrafficReport"]
