"""What a collective takes on a network: seconds from latency, bandwidth and the processor's part, by its algorithm.

Machines hang on a switch by one full-duplex link each. Nothing here is measured: virtual machines and plans ask it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, log2

import numpy as np

from pvtree.errors import InvalidParameterError

ALGORITHMS = ("direct", "ring", "recursive doubling")
# Ethernet frames of MTU 1500 take 1538 bytes of the wire and carry 1448 of TCP's data.
PAYLOAD_SHARE = 1448 / 1538
UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
RATE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]?)bit(?:/s|ps)?", re.IGNORECASE)


@dataclass(frozen=True)
class Network:
    """Equal machines on one switch that never is the bottleneck.

    A round, in which every machine sends and receives at once, takes: the latency; the time to hand over the messages
    of the busiest machine; and for the bytes whatever is slowest, what leaves the busiest machine, what enters it, or
    its processor, as packets are handled while others travel.

    The algorithms of M workers:

    - ``direct``: everybody sends to everybody in one round, as pvtree's engines do. An all-reduce of more than
      ``straight_bytes`` takes two: each adds up its share of the places, then tells it to all.
    - ``ring``: M - 1 rounds, each worker passing on what came before; an all-reduce takes 2 (M - 1) of B / M bytes.
    - ``recursive doubling``: log2 M rounds with partners ever farther away; an all-gather doubles what each has, an
      all-reduce sends all B bytes each time (and two more rounds if M is no power of two), a broadcast doubles the
      number of those who know.

    An all-to-all is always direct.
    """

    bits_per_second: float = 1e9
    latency: float = 50e-6  # seconds one way, with the switch and both network stacks
    # Processor seconds to send or to receive a message and a byte. Measured in benchmarks/virtual_time.py: 17 us and,
    # where software cuts the packets, 1.3 ns; network cards that do it save about half of that.
    per_message: float = 20e-6
    per_byte: float = 0.6e-9
    allgather_by: str = "direct"
    allreduce_by: str = "direct"
    broadcast_by: str = "direct"
    straight_bytes: int = 1024

    def __post_init__(self) -> None:
        if not (self.bits_per_second > 0 and isfinite(self.bits_per_second)):
            raise InvalidParameterError(f"bits_per_second is {self.bits_per_second}; give a positive number.")
        for name in ("latency", "per_message", "per_byte"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise InvalidParameterError(f"{name} is {value}; give seconds, 0 or more.")
        for name in ("allgather_by", "allreduce_by", "broadcast_by"):
            if getattr(self, name) not in ALGORITHMS:
                raise InvalidParameterError(f"{name} is {getattr(self, name)!r}; use one of {', '.join(ALGORITHMS)}.")

    @classmethod
    def parse(cls, text: str, latency: float | None = None) -> Network:
        """From a rate such as "1gbit", "100mbit" or "2.5gbit"; ``latency`` in seconds one way."""
        match = RATE.fullmatch(text.strip())
        if match is None or float(match[1]) == 0:
            raise InvalidParameterError(
                f"network is {text!r}; give a rate in bits per second such as '100mbit', '1gbit' or '2.5gbit'."
            )
        rate = float(match[1]) * UNITS[match[2].lower()]
        return cls(rate) if latency is None else cls(rate, latency=latency)

    def allgather(self, sizes: Sequence[int]) -> float:
        """Seconds until everybody has everybody's buffer; ``sizes`` are their bytes."""
        n_workers, total = len(sizes), sum(sizes)
        if n_workers == 1:
            return 0.0
        if self.allgather_by == "ring":  # the largest buffer is on some link in every round
            return self._rounds(n_workers - 1, max(sizes))
        if self.allgather_by == "recursive doubling":
            n_rounds = ceil(log2(n_workers))
            return self._rounds(n_rounds, (total - min(sizes)) / n_rounds)
        sent = [(n_workers - 1) * size for size in sizes]
        return self._direct(n_workers, sent, [total - size for size in sizes])

    def alltoall(self, sizes: np.ndarray) -> float:
        """Seconds until everybody has what is meant for it; ``sizes[i, j]`` bytes go from i to j."""
        between = np.array(sizes, np.float64)  # (senders, receivers)
        if len(between) == 1:
            return 0.0
        np.fill_diagonal(between, 0.0)
        return self._direct(len(between), between.sum(axis=1).tolist(), between.sum(axis=0).tolist())

    def allreduce(self, n_bytes: int, n_workers: int) -> float:
        """Seconds until everybody has the sum of all buffers of ``n_bytes``."""
        if n_workers == 1:
            return 0.0
        if self.allreduce_by == "ring":
            return self._rounds(2 * (n_workers - 1), n_bytes / n_workers)
        if self.allreduce_by == "recursive doubling":
            n_whole = n_workers.bit_length() - 1
            return self._rounds(n_whole + (0 if n_workers == 1 << n_whole else 2), n_bytes)
        if n_bytes <= self.straight_bytes:
            return self.allgather([n_bytes] * n_workers)
        share = [(n_workers - 1) * n_bytes / n_workers] * n_workers
        return 2 * self._direct(n_workers, share, share)

    def broadcast(self, n_bytes: int, n_workers: int) -> float:
        """Seconds until everybody has the root's buffer."""
        if n_workers == 1:
            return 0.0
        if self.broadcast_by == "ring":
            return self._rounds(n_workers - 1, n_bytes)
        if self.broadcast_by == "recursive doubling":
            return self._rounds(ceil(log2(n_workers)), n_bytes)
        return self._direct(n_workers, [(n_workers - 1) * n_bytes, 0], [0, n_bytes])  # the root, and any other

    def of_traffic(self, n_bytes: float, n_calls: float, n_workers: int) -> float:
        """An estimate from a ledger: ``n_bytes`` sent by each worker in ``n_calls`` collectives, all taken as gathers.

        Takes workers to send alike; a large all-reduce needs one more round than is counted here.
        """
        if n_workers == 1 or n_calls == 0:
            return 0.0
        rounds, messages = {
            "direct": (1, 2 * (n_workers - 1)),
            "ring": (n_workers - 1, 2 * (n_workers - 1)),
            "recursive doubling": (ceil(log2(n_workers)), 2 * ceil(log2(n_workers))),
        }[self.allgather_by]
        return n_calls * (rounds * self.latency + messages * self.per_message) + self._transfer(n_bytes, n_bytes)

    def _direct(self, n_workers: int, sent: Sequence[float], received: Sequence[float]) -> float:
        """One round in which everybody writes to everybody, if only that there is nothing to say."""
        busiest = max(self._transfer(out, into) for out, into in zip(sent, received, strict=True))
        return self.latency + 2 * (n_workers - 1) * self.per_message + busiest

    def _rounds(self, n_rounds: int, n_bytes: float) -> float:
        """Rounds in which every worker sends one message of so many bytes and receives one."""
        return n_rounds * (self.latency + 2 * self.per_message + self._transfer(n_bytes, n_bytes))

    def _transfer(self, sent: float, received: float) -> float:
        """Seconds of one machine's bytes: by its link, or by its processor if that is slower."""
        on_wire = max(sent, received) * 8 / (self.bits_per_second * PAYLOAD_SHARE)
        return max(on_wire, (sent + received) * self.per_byte)
