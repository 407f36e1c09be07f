"""How long a collective takes on a network: from latency, bandwidth, processor time and the collective's algorithm.

Each machine has one full-duplex link to a switch. Virtual machines and plans use this model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite, log2

import numpy as np

from pvtree.comm.steps import Step, gather_steps, swap_radix, swap_steps
from pvtree.errors import InvalidParameterError

ALGORITHMS = ("stepwise", "direct", "ring", "recursive doubling")
# An Ethernet frame of MTU 1500 takes 1538 bytes on the wire and carries 1448 bytes of TCP data.
PAYLOAD_SHARE = 1448 / 1538
UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
RATE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]?)bit(?:/s|ps)?", re.IGNORECASE)


@dataclass(frozen=True)
class Network:
    """Equal machines on one switch that is never the bottleneck.

    In a round every machine sends and receives at once. It takes the latency, plus the time to handle the messages of
    the busiest machine, plus the time for its bytes. The latter is the slowest of three: bytes that leave, bytes that
    enter, and its processor, because packets are handled while others travel.

    The algorithms for M workers:

    - ``stepwise``: as pvtree's engines do. Few workers send directly; from 6 on, each sends to a few others in each
      round, who pass on what they have (Bruck's algorithm, comm/steps.py). An all-reduce of more than
      ``straight_bytes`` is an all-to-all, in which each worker sums up its share of the buffer, and an all-gather.
    - ``direct``: every worker sends to every other in one round. An all-reduce of more than ``straight_bytes`` takes
      two rounds: each worker sums up its share of the buffer, then sends it to all.
    - ``ring``: M - 1 rounds, in which each worker passes on what it has received; an all-reduce of B bytes takes
      2 (M - 1) rounds of B / M bytes.
    - ``recursive doubling``: log2 M rounds with partners ever farther away. Each round of an all-gather doubles what
      each worker has. Each round of an all-reduce sends all B bytes; two more are needed if M is not a power of two.
      Each round of a broadcast doubles the number of workers that have the buffer.

    An all-to-all is direct, or stepwise if its messages are few enough to be passed on. A choice takes the steps of a
    stepwise all-gather, and each of its messages has the size of one buffer.

    Parameters
    ----------
    bits_per_second : float, default=1e9
        The rate of each link. Greater than 0.
    latency : float, default=50e-6
        Seconds one way, including the switch and both network stacks. At least 0.
    per_message : float, default=20e-6
        Processor seconds to send or receive one message. At least 0.
    per_byte : float, default=0.6e-9
        Processor seconds to send or receive one byte. At least 0.
    allgather_by, allreduce_by, broadcast_by : str, default="stepwise"
        The algorithm of each collective: "stepwise", "direct", "ring" or "recursive doubling".
    straight_bytes : int, default=1024
        A stepwise or direct all-reduce of up to this many bytes is an all-gather.
    """

    bits_per_second: float = 1e9
    latency: float = 50e-6
    # benchmarks/virtual_time.py measures 17 us per message. Per byte it measures 1.3 ns where software splits data into
    # packets; network cards that do it save about half of that.
    per_message: float = 20e-6
    per_byte: float = 0.6e-9
    allgather_by: str = "stepwise"
    allreduce_by: str = "stepwise"
    broadcast_by: str = "stepwise"
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
        """Make a network of a rate such as "1gbit", "100mbit" or "2.5gbit"; ``latency`` is in seconds one way."""
        match = RATE.fullmatch(text.strip())
        if match is None or float(match[1]) == 0:
            raise InvalidParameterError(
                f"network is {text!r}; give a rate in bits per second such as '100mbit', '1gbit' or '2.5gbit'."
            )
        rate = float(match[1]) * UNITS[match[2].lower()]
        return cls(rate) if latency is None else cls(rate, latency=latency)

    def allgather(self, sizes: Sequence[int]) -> float:
        """Seconds until every worker has all buffers; ``sizes`` are their bytes."""
        n_workers, total = len(sizes), sum(sizes)
        if n_workers == 1:
            return 0.0
        if self.allgather_by == "ring":  # in every round some link carries the largest buffer
            return self._rounds(n_workers - 1, max(sizes))
        if self.allgather_by == "recursive doubling":
            n_rounds = ceil(log2(n_workers))
            return self._rounds(n_rounds, (total - min(sizes)) / n_rounds)
        if self.allgather_by == "stepwise":
            return self._gather(np.array(sizes, np.float64))
        sent = [(n_workers - 1) * size for size in sizes]
        return self._direct(n_workers, sent, [total - size for size in sizes])

    def alltoall(self, sizes: np.ndarray, radix: int | None = None) -> float:
        """Seconds until every worker has what is meant for it; ``sizes[i, j]`` bytes go from i to j.

        With ``radix`` they are passed on in the steps of ``swap_steps``; None for one round.
        """
        between = np.array(sizes, np.float64)  # (senders, receivers)
        if len(between) == 1:
            return 0.0
        np.fill_diagonal(between, 0.0)
        if radix is not None:
            return self._swap(between, radix)
        return self._direct(len(between), between.sum(axis=1).tolist(), between.sum(axis=0).tolist())

    def allreduce(self, n_bytes: int, n_workers: int) -> float:
        """Seconds until every worker has the sum of all buffers, each of ``n_bytes``."""
        if n_workers == 1:
            return 0.0
        if self.allreduce_by == "ring":
            return self._rounds(2 * (n_workers - 1), n_bytes / n_workers)
        if self.allreduce_by == "recursive doubling":
            n_whole = n_workers.bit_length() - 1
            return self._rounds(n_whole + (0 if n_workers == 1 << n_whole else 2), n_bytes)
        if self.allreduce_by == "stepwise":
            if n_bytes <= self.straight_bytes:
                return self._gather(np.full(n_workers, float(n_bytes)))
            shares = np.full((n_workers, n_workers), n_bytes / n_workers)
            radix = swap_radix(n_workers, 1 << int(n_bytes).bit_length())
            return self.alltoall(shares, radix) + self._gather(shares[0])
        if n_bytes <= self.straight_bytes:
            sent = [(n_workers - 1.0) * n_bytes] * n_workers
            return self._direct(n_workers, sent, sent)
        share = [(n_workers - 1) * n_bytes / n_workers] * n_workers
        return 2 * self._direct(n_workers, share, share)

    def broadcast(self, n_bytes: int, n_workers: int) -> float:
        """Seconds until every worker has the root's buffer."""
        if n_workers == 1:
            return 0.0
        if self.broadcast_by == "ring":
            return self._rounds(n_workers - 1, n_bytes)
        if self.broadcast_by == "recursive doubling":
            return self._rounds(ceil(log2(n_workers)), n_bytes)
        if self.broadcast_by == "stepwise":
            return self._gather(np.concatenate(([float(n_bytes)], np.zeros(n_workers - 1))))
        return self._direct(n_workers, [(n_workers - 1) * n_bytes, 0], [0, n_bytes])  # the root, and any other

    def choose(self, n_bytes: int, n_workers: int) -> float:
        """Seconds until every worker has the best of all records, of which each has ``n_bytes``."""
        return sum(
            self._step(step, np.full((len(step), n_workers), float(n_bytes))) for step in gather_steps(n_workers)
        )

    def of_traffic(self, n_bytes: float, n_calls: float, n_workers: int) -> float:
        """Estimate seconds from a ledger: each worker sent ``n_bytes`` in ``n_calls`` collectives.

        Assumes that all collectives are gathers and that all workers send equally much. A large all-reduce needs one
        more round than is counted here.
        """
        if n_workers == 1 or n_calls == 0:
            return 0.0
        steps = gather_steps(n_workers)
        rounds, messages = {
            "stepwise": (len(steps), 2 * sum(map(len, steps))),
            "direct": (1, 2 * (n_workers - 1)),
            "ring": (n_workers - 1, 2 * (n_workers - 1)),
            "recursive doubling": (ceil(log2(n_workers)), 2 * ceil(log2(n_workers))),
        }[self.allgather_by]
        return n_calls * (rounds * self.latency + messages * self.per_message) + self._transfer(n_bytes, n_bytes)

    def _gather(self, sizes: np.ndarray) -> float:
        """A stepwise all-gather: block i of a worker is that of the worker i places before it."""
        n_workers, total = len(sizes), 0.0
        twice = np.concatenate(([0.0], np.cumsum(np.concatenate((sizes, sizes)))))
        worker = np.arange(n_workers) + n_workers
        for step in gather_steps(n_workers):
            total += self._step(step, np.stack([twice[worker + 1] - twice[worker + 1 - len(s.blocks)] for s in step]))
        return total

    def _swap(self, between: np.ndarray, radix: int) -> float:
        """A stepwise all-to-all: what has to go x places has come as many as its digits of earlier steps say."""
        n_workers, total, done = len(between), 0.0, 1
        worker = np.arange(n_workers)
        for step in swap_steps(n_workers, radix):
            sent = np.zeros((len(step), n_workers))
            for i, each in enumerate(step):
                for x in each.blocks:
                    origin = (worker - x % done) % n_workers
                    sent[i] += between[origin, (origin + x) % n_workers]
            total += self._step(step, sent)
            done *= radix
        return total

    def _step(self, step: tuple[Step, ...], sent: np.ndarray) -> float:
        """One round: ``sent[i, m]`` bytes go from worker m in the i-th message of the step."""
        received = sum(np.roll(each, message.away) for each, message in zip(sent, step, strict=True))
        busiest = max(map(self._transfer, sent.sum(axis=0).tolist(), np.asarray(received).tolist()))
        return self.latency + 2 * len(step) * self.per_message + busiest

    def _direct(self, n_workers: int, sent: Sequence[float], received: Sequence[float]) -> float:
        """One round in which every worker sends every other a message, which may be empty."""
        busiest = max(self._transfer(out, into) for out, into in zip(sent, received, strict=True))
        return self.latency + 2 * (n_workers - 1) * self.per_message + busiest

    def _rounds(self, n_rounds: int, n_bytes: float) -> float:
        """Rounds in which every worker sends one message of this many bytes and receives one."""
        return n_rounds * (self.latency + 2 * self.per_message + self._transfer(n_bytes, n_bytes))

    def _transfer(self, sent: float, received: float) -> float:
        """Seconds for one machine's bytes: of its link, or of its processor if that is slower."""
        on_wire = max(sent, received) * 8 / (self.bits_per_second * PAYLOAD_SHARE)
        return max(on_wire, (sent + received) * self.per_byte)
