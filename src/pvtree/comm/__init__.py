"""How workers talk: one interface (base), one file for each engine that carries it, and the ledger of what it cost."""

from pvtree.comm.base import Communicator, Solo
from pvtree.comm.traffic import PHASES, PhaseTraffic, Traffic, TrafficReport

__all__ = ["PHASES", "Communicator", "PhaseTraffic", "Solo", "Traffic", "TrafficReport"]
