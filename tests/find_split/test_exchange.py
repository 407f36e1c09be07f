"""Sealed messages: arrays arrive as they were sent, and workers that decided differently all find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.comm import Communicator, Solo, local
from pvtree.errors import DivergedError
from pvtree.find_split.exchange import SEAL_BYTES, Exchange
from pvtree.growing.frontier_records import split_dtype
from thoroughness import examples

SETTINGS = examples(15)


def on_workers(work: Callable[[Exchange, int], Any], size: int = 3) -> list[Any]:
    """work(exchange, rank) of every worker; a DivergedError is a result, so that each worker tells its own."""

    def run(comm: Communicator) -> Any:
        try:
            return work(Exchange(comm), comm.rank)
        except DivergedError as error:
            return error

    return local.run(run, size, timeout=20)


MEETINGS: dict[str, Callable[[Exchange], Any]] = {
    "allgather": lambda exchange: exchange.allgather(np.arange(4), "ballots"),
    "empty allgather": lambda exchange: exchange.allgather(np.empty(0), "rows"),
    "alltoall": lambda exchange: exchange.alltoall([np.zeros(m, np.uint8) for m in range(3)], "histograms"),
    "choose": lambda exchange: exchange.choose(np.arange(4), "splits", np.maximum),
    "check": lambda exchange: exchange.check(),
}
A, B = np.arange(4), np.arange(4) + 0.5


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize(
    ("decisions", "others"),
    [
        ([A], [A, A]),  # one took a decision more
        ([A], []),
        ([A], [B]),
        ([A], [np.append(A[:3], 4)]),  # only the last number differs
        ([A, B], [B, A]),  # in another order
        ([A, B, A], [B, B, A]),  # long ago
        ([np.zeros(2)], [np.array([0.0, -0.0])]),  # bits, not values
    ],
)
@pytest.mark.parametrize("odd", [0, 2])
def test_a_different_decision_is_found_by_all_at_the_next_meeting(
    meeting: str, decisions: list[np.ndarray], others: list[np.ndarray], odd: int
) -> None:
    def work(exchange: Exchange, rank: int) -> None:
        exchange.allgather(np.zeros(3), "splits")  # nothing is decided yet
        for decision in others if rank == odd else decisions:
            exchange.decide(decision)
        MEETINGS[meeting](exchange)

    errors = on_workers(work)
    assert all(isinstance(error, DivergedError) for error in errors)
    for rank, error in enumerate(errors):
        strangers = [str(m) for m in range(3) if (m == odd) != (rank == odd)]
        assert f"Worker {rank} of 3" in str(error)
        named = strangers[:1] if meeting == "choose" else strangers  # of equal seals only one is known
        assert f"than worker(s) {', '.join(named)};" in str(error)


@pytest.mark.parametrize("meeting", MEETINGS)
def test_the_same_decisions_are_no_news(meeting: str) -> None:
    """However they lie in memory."""

    def work(exchange: Exchange, rank: int) -> None:
        for i in range(4):
            table = np.arange(12).reshape(3, 4) + i
            exchange.decide(table if rank else np.asfortranarray(table), table[:, ::2])
            MEETINGS[meeting](exchange)

    assert not any(isinstance(result, DivergedError) for result in on_workers(work))


def test_nothing_is_compared_before_the_next_meeting() -> None:
    def work(exchange: Exchange, rank: int) -> str:
        exchange.decide(np.array([rank]))
        return "still here"

    assert on_workers(work) == ["still here"] * 3


DTYPES = [np.uint8, np.uint16, np.uint32, np.int64, np.float64, split_dtype(3, True), split_dtype(2, False)]


@SETTINGS
@given(
    dtype=st.sampled_from(DTYPES),
    item=st.sampled_from([(), (1,), (3,), (2, 2)]),
    lengths=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    seed=st.integers(0, 2**32),
)
def test_gathered_arrays_keep_dtype_and_shape(dtype: Any, item: tuple[int, ...], lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    given = [rng.integers(0, 256, (n, *item, dtype.itemsize), np.uint8).view(dtype).reshape(n, *item) for n in lengths]

    def work(exchange: Exchange, rank: int) -> list[np.ndarray]:
        exchange.decide(np.ones(2))
        received = exchange.allgather(given[rank], "ballots")
        for array in received:
            assert array.flags.writeable and array.flags.aligned
        return received

    for received in on_workers(work):
        for array, original in zip(received, given, strict=True):
            assert array.dtype == dtype and array.shape == original.shape
            assert array.tobytes() == original.tobytes()


def test_arrays_with_gaps_are_gathered_too() -> None:
    table = np.arange(24).reshape(4, 6)

    def work(exchange: Exchange, rank: int) -> list[np.ndarray]:
        return exchange.allgather(table[:, rank::3], "ballots")

    for received in on_workers(work):
        assert_array_equal(np.stack(received), [table[:, rank::3] for rank in range(3)])


@SETTINGS
@given(st.lists(st.integers(0, 20), min_size=9, max_size=9))
def test_messages_reach_their_receivers(lengths: list[int]) -> None:
    sizes = np.array(lengths).reshape(3, 3)

    def message(sender: int, to: int) -> np.ndarray:
        return np.full(sizes[sender, to], 10 * sender + to, np.uint8)

    def work(exchange: Exchange, rank: int) -> list[np.ndarray]:
        return exchange.alltoall([message(rank, to) for to in range(3)], "histograms")

    for rank, received in enumerate(on_workers(work)):
        for sender, array in enumerate(received):
            assert_array_equal(array, message(sender, rank))
            assert array.dtype == np.uint8 and array.flags.writeable


@pytest.mark.parametrize("size", [3, 8])
def test_the_best_of_all_records_is_chosen(size: int) -> None:
    def work(exchange: Exchange, rank: int) -> tuple[np.ndarray, int]:
        exchange.decide(np.arange(3))
        chosen = exchange.choose(np.array([rank, -rank, 7]), "splits", np.maximum)
        return chosen, exchange.comm.traffic["splits"].bytes

    n_messages = {3: 2, 8: 4}[size]  # 8 workers pass on what they know
    for chosen, n_bytes in on_workers(work, size):
        assert_array_equal(chosen, [size - 1, 0, 7])
        assert n_bytes == n_messages * (3 * 8 + 4 * SEAL_BYTES)


def test_a_seal_costs_eight_bytes_a_message() -> None:
    def work(exchange: Exchange, rank: int) -> int:
        exchange.allgather(np.zeros(5), "ballots")
        exchange.alltoall([np.zeros(7, np.uint8)] * 3, "histograms")
        exchange.check()
        return exchange.comm.traffic.total().bytes

    assert on_workers(work) == [2 * (40 + SEAL_BYTES) + 2 * (7 + SEAL_BYTES) + 2 * SEAL_BYTES] * 3


def test_alone_there_is_nobody_to_ask() -> None:
    exchange = Exchange(Solo())
    exchange.decide(np.arange(3))
    exchange.check()
    assert exchange.comm.traffic.total().calls == 0
    (own,) = exchange.allgather(np.arange(3.0).reshape(1, 3), "splits")
    assert_array_equal(own, [[0.0, 1.0, 2.0]])
