"""Tests that every communicator must pass. An engine's test file makes a subclass that runs its workers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pvtree.comm import PHASES, Communicator
from pvtree.comm.traffic import report
from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidParameterError,
    InvalidTypeError,
    PeerFailedError,
    WorkerTimeoutError,
)
from thoroughness import checkered

SIZES = (1, 2, 3, 5, 8)
DTYPES = (np.uint8, np.uint16, np.uint32, np.int64, np.uint64, np.float64)
OPS = {"sum": np.sum, "max": np.max, "min": np.min}
SOON = 10.0  # seconds: far below the time limits of these tests, and enough on a machine that compiles meanwhile
ODD_CALLS = {
    "alltoall": lambda comm: comm.alltoall([np.zeros(1)] * 3, "rows"),
    "allreduce": lambda comm: comm.allreduce(np.zeros(1), "rows"),
    "broadcast": lambda comm: comm.broadcast(np.zeros(1), "rows"),
    "phase": lambda comm: comm.allgather(np.zeros(1), "scores"),
    "dtype": lambda comm: comm.allgather(np.zeros(1, np.int64), "rows"),
    "item": lambda comm: comm.allgather(np.zeros((1, 2)), "rows"),
    "returned": lambda comm: None,
}
WRONG_CALLS = [
    (lambda comm: comm.allgather(np.zeros(1), "votes"), InvalidParameterError, "'votes'.*use one of bins,"),
    (lambda comm: comm.allreduce(np.zeros(1), "rows", "mean"), InvalidParameterError, "op='mean'; use one"),
    (lambda comm: comm.alltoall([np.zeros(1)], "rows"), InvalidParameterError, "1 buffers for 2 workers"),
    (lambda comm: comm.alltoall([np.zeros(1), np.zeros(1, int)], "rows"), InvalidTypeError, "differ in dtype"),
    (lambda comm: comm.broadcast(np.zeros(1), "rows", 2), InvalidParameterError, "root=2; use a rank"),
    (lambda comm: comm.broadcast(None, "rows", comm.rank), InvalidTypeError, "not NoneType"),
    (lambda comm: comm.allgather([1, 2], "rows"), InvalidTypeError, "not list"),
    (lambda comm: comm.allgather(np.array([None]), "rows"), InvalidTypeError, "not dtype object"),
    (lambda comm: comm.allreduce(np.zeros((2, 2)).T[:1], "rows"), InvalidTypeError, "is not contiguous"),
]


def values(sender: int, receiver: int, n: int, dtype: Any) -> np.ndarray:
    """Data from a sender to a receiver. Any bit may be set, so that no loss on the way goes unnoticed."""
    words = np.random.default_rng([sender, receiver, n]).integers(0, 2**64, n, np.uint64)
    if dtype == np.float64:
        return np.ldexp((words >> 11).astype(np.float64), -30)
    return words.astype(dtype)


def texts_of(ranks: set[int], folder: Path, seconds: float = SOON) -> dict[str, str]:
    """What workers wrote, when these ranks have: ``run`` may raise while some are still writing."""
    deadline = time.monotonic() + seconds
    while True:
        texts = {path.name: path.read_text() for path in folder.iterdir()}
        is_whole = all(texts.values()) and texts.keys() >= set(map(str, ranks))
        if is_whole or time.monotonic() > deadline:
            return texts
        time.sleep(0.01)


class Conformance:
    """Collected in its subclasses only, because its name does not begin with Test."""

    # Numbers of workers. How many steps a collective takes, and who sends to whom, does not depend on the engine, so
    # one engine meets all numbers, and others fewer.
    sizes: tuple[int, ...] = SIZES

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "size" in metafunc.fixturenames:
            metafunc.parametrize("size", self.sizes)

    def run(self, function: Callable[[Communicator], Any], size: int, *, timeout: float = 60.0) -> list[Any]:
        """Run the function on ``size`` workers; return the results by rank, or raise the first exception."""
        raise NotImplementedError

    # What arrives.

    def test_rank_and_size(self, size):
        assert self.run(lambda comm: (comm.rank, comm.size), size) == [(rank, size) for rank in range(size)]

    def test_allgather(self, size):
        """Worker m gives m items, worker 0 none."""

        def gather(comm):
            return [comm.allgather(values(comm.rank, 0, comm.rank * 3, dtype), "ballots") for dtype in DTYPES]

        for results in self.run(gather, size):
            for dtype, result in zip(DTYPES, results, strict=True):
                assert len(result) == size
                for sender, part in enumerate(result):
                    assert part.dtype == dtype
                    np.testing.assert_array_equal(part, values(sender, 0, sender * 3, dtype))

    def test_alltoall(self, size):
        def length(sender, receiver):
            return (5 * sender + 3 * receiver) % 4

        calls = [(dtype, about) for dtype in DTYPES for about in (None, 0)]  # 0: 8 workers pass messages on

        def send(comm):
            to_each = {
                dtype: [values(comm.rank, to, length(comm.rank, to), dtype) for to in range(size)] for dtype in DTYPES
            }
            return [comm.alltoall(to_each[dtype], "histograms", about) for dtype, about in calls]

        for receiver, results in enumerate(self.run(send, size)):
            for (dtype, _), result in zip(calls, results, strict=True):
                assert len(result) == size
                for sender, part in enumerate(result):
                    assert part.dtype == dtype
                    np.testing.assert_array_equal(part, values(sender, receiver, length(sender, receiver), dtype))

    def test_allreduce(self, size):
        def given(rank, dtype, shape):
            buffer = values(rank, 0, int(np.prod(shape)), dtype).reshape(shape)
            # Floats are quarters below 2^50, so that sums are exact in any order.
            return np.asarray(np.floor(buffer % 2.0**20 * 4) / 4 if dtype == np.float64 else buffer, dtype)

        shapes = ((), (0,), (7,), (2, 3, 5))
        calls = list(product(OPS, (np.int64, np.uint64, np.float64, np.uint8), shapes))

        def reduce(comm):
            return [comm.allreduce(given(comm.rank, dtype, shape), "scores", op) for op, dtype, shape in calls]

        for results in self.run(reduce, size):
            for (op, dtype, shape), result in zip(calls, results, strict=True):
                assert result.dtype == dtype
                assert result.shape == shape
                kwargs = {"dtype": dtype} if op == "sum" else {}  # wraps around like the dtype itself
                expected = OPS[op](np.stack([given(rank, dtype, shape) for rank in range(size)]), axis=0, **kwargs)
                np.testing.assert_array_equal(result, expected)

    def test_reduced_floats_are_the_same_bits_everywhere(self):
        def reduce(comm):
            return comm.allreduce(np.random.default_rng(comm.rank).normal(size=1000) * 10.0**comm.rank, "scores")

        results = self.run(reduce, 5)
        assert {result.tobytes() for result in results} == {results[0].tobytes()}

    def test_broadcast(self, size):
        calls = [
            (root, np.asarray(values(root, 0, int(np.prod(shape)), dtype).reshape(shape)))
            for root in {0, size - 1}
            for dtype, shape in ((np.uint16, (2, 3)), (np.float64, (0,)), (np.int64, ()))
        ]

        def send(comm):
            return [comm.broadcast(sent if comm.rank == root else None, "splits", root) for root, sent in calls]

        for results in self.run(send, size):
            for (_, sent), result in zip(calls, results, strict=True):
                assert result.dtype == sent.dtype
                assert result.shape == sent.shape
                np.testing.assert_array_equal(result, sent)

    def test_choose(self, size):
        """At each place the record with the largest gain, ties to the lowest feature; worker 0 may have the best."""
        kind = np.dtype([("gain", np.float64), ("feature", np.int32)])

        def given(rank):
            records = np.zeros(12, kind)
            records["gain"] = (np.arange(12) * (rank + 3)) % 5
            records["feature"] = rank
            return records

        def better(a, b):
            wins = (a["gain"] > b["gain"]) | ((a["gain"] == b["gain"]) & (a["feature"] < b["feature"]))
            return np.where(wins, a, b)

        def go(comm):
            mine = given(comm.rank)
            chosen = comm.choose(mine, "splits", better)
            mine["gain"] = -1
            return chosen, comm.choose(mine[:0], "splits", better), comm.traffic["splits"]

        everybody = np.stack([given(rank) for rank in range(size)])
        best = everybody["gain"].argmax(axis=0)  # the first of equals
        sent = {1: 0, 2: 1, 3: 2, 5: 4, 8: 4}[size] * 12 * kind.itemsize
        for chosen, none, traffic in self.run(go, size):
            np.testing.assert_array_equal(chosen, everybody[best, np.arange(12)])
            assert len(none) == 0
            assert (traffic.bytes, traffic.calls) == (sent, 2)

    def test_items_keep_their_shape(self):
        """Only the number of items, the first dimension, is the sender's choice."""

        def send(comm):
            gathered = comm.allgather(np.full((comm.rank, 2, 3), comm.rank, np.uint32), "ballots")
            swapped = comm.alltoall([np.full((to, 4), comm.rank, np.uint32) for to in range(3)], "ballots")
            return [part.shape for part in gathered], [part.shape for part in swapped]

        for rank, shapes in enumerate(self.run(send, 3)):
            assert shapes == ([(0, 2, 3), (1, 2, 3), (2, 2, 3)], [(rank, 4)] * 3)

    def test_received_arrays_belong_to_the_receiver(self, size):
        """Sender and receiver overwrite all their buffers at once; neither may see the other's changes."""

        def exchange(comm):
            wrong = 0
            for step in range(20):
                mine = np.full(50, comm.rank + step, np.int64)
                others = [mine.copy() for _ in range(size)]
                steps = [
                    (comm.allgather(mine, "rows"), [sender + step for sender in range(size)]),
                    (comm.alltoall(others, "rows"), [sender + step for sender in range(size)]),
                    ([comm.allreduce(mine, "rows")], [sum(range(size)) + step * size]),
                    ([comm.broadcast(mine, "rows", size - 1)], [size - 1 + step]),
                ]
                mine[:] = -1
                for buffer in others:
                    buffer[:] = -1
                for received, expected in steps:
                    wrong += sum(not (part == value).all() for part, value in zip(received, expected, strict=True))
                    for part in received:
                        part[:] = -2
            return wrong

        assert self.run(exchange, size) == [0] * size

    def test_a_buffer_may_change_as_soon_as_the_call_returns(self):
        """Receivers that read late still find what was sent."""

        def exchange(comm):
            mine = np.full(200_000, comm.rank, np.uint8)
            kept = [
                (comm.allgather(mine, "rows"), mine.fill(9)),
                (comm.alltoall([np.full(200_000, comm.rank, np.uint8)] * 3, "rows"), mine.fill(comm.rank)),
                (comm.allgather(mine, "rows"), mine.fill(9)),
                ([comm.broadcast(mine, "rows")] * 3, mine.fill(0)),
            ]
            return [[set(part.tolist()) for part in received] for received, _ in kept]

        expected = [[{0}, {1}, {2}]] * 3 + [[{9}] * 3]
        assert self.run(exchange, 3) == [expected] * 3

    def test_many_calls_keep_their_order(self, size):
        """Workers are late at random, and each result must belong to its call."""

        def exchange(comm):
            late, plan = random.Random(comm.rank), random.Random(0)
            wrong = 0
            for step in range(120):
                if late.random() < 0.1:
                    time.sleep(late.random() * 0.002)
                here = np.array([1000 * step + comm.rank], np.int64)
                expected = [1000 * step + rank for rank in range(size)]
                verb = plan.choice(["allgather", "alltoall", "allreduce", "broadcast"])
                if verb == "allgather":
                    wrong += [int(part[0]) for part in comm.allgather(here, "bins")] != expected
                elif verb == "alltoall":
                    wrong += [int(part[0]) for part in comm.alltoall([here] * size, "rows")] != expected
                elif verb == "allreduce":
                    wrong += int(comm.allreduce(here, "scores")[0]) != sum(expected)
                else:
                    root = plan.randrange(size)
                    wrong += int(comm.broadcast(here, "splits", root)[0]) != expected[root]
            return wrong

        assert self.run(exchange, size) == [0] * size

    @settings(
        derandomize=True,  # ranks of MPI draw for themselves, and must draw the same
        deadline=None,
        max_examples=15,
        suppress_health_check=[HealthCheck.differing_executors],  # every engine runs it: that is the purpose
    )
    @given(
        size=st.sampled_from(SIZES),
        seed=st.integers(0, 2**32 - 1),
        dtype=st.sampled_from(DTYPES),
        longest=st.sampled_from([0, 1, 17, 3000]),
    )
    def test_two_gathers_make_a_swap_and_back(self, size, seed, dtype, longest):
        """alltoall twice brings every buffer home, whatever the lengths are."""

        def exchange(comm):
            rng = np.random.default_rng([seed, comm.rank])
            mine = [values(seed, to, int(rng.integers(0, longest + 1)), dtype) for to in range(size)]
            back = comm.alltoall(comm.alltoall(mine, "rows"), "rows")
            return all(np.array_equal(sent, part) for sent, part in zip(mine, back, strict=True))

        assert self.run(exchange, size) == [True] * size

    # What it costs.

    def test_bytes_of_gathers(self, size):
        def send(comm):
            comm.allgather(np.zeros((comm.rank + 1, 3), np.uint16), "ballots")
            comm.alltoall([np.zeros(10 + to, np.float64) for to in range(size)], "histograms")
            comm.broadcast(np.zeros(11, np.uint8) if comm.rank == 0 else None, "splits")
            return [comm.traffic[phase].bytes for phase in ("ballots", "histograms", "splits")]

        to_all = sum(8 * (10 + to) for to in range(size))
        assert self.run(send, size) == [
            [6 * (rank + 1) * (size - 1), to_all - 8 * (10 + rank), 11 * (size - 1) if rank == 0 else 0]
            for rank in range(size)
        ]

    def test_bytes_that_are_passed_on(self):
        """Of 8 workers by 3: a message that goes x places is sent once for each digit of x that is not zero."""

        def send(comm):
            comm.alltoall([np.zeros((to - comm.rank) % 8 + 1, np.uint8) for to in range(8)], "rows", about=1)
            return comm.traffic["rows"].bytes

        assert self.run(send, 8) == [2 + 3 + 4 + 2 * 5 + 2 * 6 + 7 + 2 * 8] * 8

    def test_bytes_of_reductions(self, size):
        """All workers together send exactly 2 B (M-1) bytes; each sends an M-th of that, up to rounding."""
        lengths = (0, 1, 7, 8, 1000)

        def send(comm):
            sent = []
            for n_bytes in lengths:
                before = comm.traffic["scores"].bytes
                comm.allreduce(np.zeros(n_bytes, np.uint8), "scores", "max")
                sent.append(comm.traffic["scores"].bytes - before)
            return sent

        for n_bytes, sent in zip(lengths, zip(*self.run(send, size), strict=True), strict=True):
            assert sum(sent) == 2 * n_bytes * (size - 1)
            assert all(abs(n - sum(sent) / size) < 2 for n in sent)

    def test_ledger_has_calls_and_waiting_by_phase(self):
        def send(comm, n_first):
            for _ in range(n_first):
                comm.allreduce(np.zeros(3), "metrics")
            for phase in PHASES:
                comm.allreduce(np.zeros(3), phase)
            if comm.rank == 0:
                time.sleep(0.3)
            comm.allgather(np.zeros(3), "rows")
            return comm.traffic

        # If workers take turns, a worker does not wait while another sleeps unless it is its turn. Whose turn it is
        # depends on whether the number of calls before was odd or even.
        prompt = [self.run(lambda comm, n=n: send(comm, n), 2)[1] for n in range(2)]
        assert [prompt[0][phase].calls for phase in PHASES] == [1 + (phase == "rows") for phase in PHASES]
        assert prompt[0].total().calls == len(PHASES) + 1
        waited = max(prompt, key=lambda traffic: traffic["rows"].seconds)
        assert 0.1 < waited["rows"].seconds <= waited.total().seconds < 5
        assert waited["rows"].seconds > 2 * waited["bins"].seconds

    def test_report_adds_up_all_workers_and_costs_nothing(self):
        def send(comm):
            comm.allgather(np.zeros(100, np.uint8), "bins")
            before_trees = comm.traffic.snapshot()
            for _ in range(4):
                comm.allgather(np.zeros(10 * comm.rank, np.uint8), "ballots")
                comm.allreduce(np.zeros(3, np.uint8), "scores")
            before = comm.traffic.total()
            made = report(comm, before_trees, n_trees=2)
            return before == comm.traffic.total(), made

        results = self.run(send, 3)
        assert all(unchanged for unchanged, _ in results)
        assert len({str(made) for _, made in results}) == 1
        made = results[0][1]
        n_ballots, n_scores, n_bins = 4 * 2 * 30, 4 * 2 * 3 * 2, 3 * 2 * 100
        assert made.bytes_per_tree == pytest.approx((n_ballots + n_scores) / 3 / 2)
        assert made.total_bytes == n_ballots + n_scores + n_bins
        assert made.calls_per_tree == 4.0
        assert (made.before_trees, made.bytes_before_trees) == ({"bins": n_bins}, n_bins / 3)
        assert {phase: (cost.bytes, cost.calls) for phase, cost in made.by_phase.items() if cost.calls} == {
            "bins": (n_bins, 1),
            "ballots": (n_ballots, 4),
            "scores": (n_scores, 4),
        }
        assert made.seconds_waiting == pytest.approx(sum(cost.seconds for cost in made.by_phase.values()))

    # What goes wrong.

    @pytest.mark.parametrize(("others", "guilty"), checkered(["wait", "come later", "have returned"], [0, 2]))
    def test_first_exception_ends_all_workers(self, guilty, others, tmp_path):
        def fail(comm):
            try:
                comm.allgather(np.zeros(1), "bins")
                if comm.rank == guilty:
                    time.sleep(0.0 if others == "come later" else 0.1)
                    raise KeyError("broken shard")
                if others == "have returned":
                    return
                time.sleep(0.1 if others == "come later" else 0.0)
                comm.allgather(np.zeros(1), "ballots")
            except PeerFailedError as error:
                (tmp_path / str(comm.rank)).write_text(str(error))  # a file, as workers may be other processes
                raise

        start = time.monotonic()
        with pytest.raises(KeyError, match="broken shard") as caught:
            self.run(fail, 4)
        assert time.monotonic() - start < SOON
        assert caught.type is KeyError
        assert caught.value.rank == guilty
        assert any(f"worker {guilty} of 4" in note for note in caught.value.__notes__)
        messages = texts_of(set() if others == "have returned" else {0, 1, 2, 3} - {guilty}, tmp_path)
        assert len(messages) == 3 or others == "have returned"
        assert all(f"worker {guilty} raised the KeyError" in message for message in messages.values())

    def test_exception_while_nobody_waits(self):
        def fail(comm):
            raise ZeroDivisionError(comm.rank)

        with pytest.raises(ZeroDivisionError) as caught:
            self.run(fail, 3)
        assert caught.value.args == (caught.value.rank,)

    def test_interrupt_ends_all_workers(self):
        def interrupt(comm):
            if comm.rank == 0:
                raise KeyboardInterrupt
            comm.allgather(np.zeros(1), "bins")

        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            self.run(interrupt, 3)
        assert time.monotonic() - start < SOON

    @pytest.mark.parametrize(("odd", "guilty"), checkered(ODD_CALLS, [0, 1]))
    def test_different_calls_are_an_error(self, odd, guilty, tmp_path):
        self.check_diverged(lambda comm: comm.allgather(np.zeros(1), "rows"), ODD_CALLS[odd], guilty, tmp_path)

    def test_different_reductions_are_an_error(self, tmp_path):
        def add(comm):
            return comm.allreduce(np.zeros(4), "rows")

        def send(comm):
            return comm.broadcast(np.zeros(1), "rows", 0)

        self.check_diverged(add, lambda comm: comm.allreduce(np.zeros(4), "rows", "max"), 1, tmp_path)
        self.check_diverged(add, lambda comm: comm.allreduce(np.zeros((2, 2)), "rows"), 2, tmp_path)
        self.check_diverged(send, lambda comm: comm.broadcast(np.zeros(1), "rows", 1), 2, tmp_path)

    def check_diverged(self, call, odd, guilty, folder):
        """One worker makes another call, and the two others learn of it at once."""

        def go(comm):
            try:
                comm.allreduce(np.zeros(1), "bins")
                (odd if comm.rank == guilty else call)(comm)
            except CommunicationError:
                (folder / str(comm.rank)).write_text("told")
                raise

        start = time.monotonic()
        with pytest.raises(DivergedError, match=r"Worker \d reached .* while worker \d reached .*; all workers"):
            self.run(go, 3)
        assert time.monotonic() - start < SOON
        others = {0, 1, 2} - {guilty}
        assert texts_of(others, folder).keys() >= set(map(str, others))
        for path in folder.iterdir():
            path.unlink()

    @pytest.mark.parametrize("missing", [0, 1])
    def test_missing_worker_is_named(self, missing, tmp_path):
        def go(comm):
            comm.allgather(np.zeros(1), "bins")
            if comm.rank == missing:
                texts_of({0, 1, 2} - {missing}, tmp_path, 3.0)  # on MPI, each sees only its own
            try:
                comm.allgather(np.zeros(1), "ballots")
            except CommunicationError:
                (tmp_path / str(comm.rank)).write_text("told")
                raise

        with pytest.raises(WorkerTimeoutError, match=rf"waited 2 s for worker {missing} of 3 at allgather.*'ballots'"):
            self.run(go, 3, timeout=2)

    def test_among_many_the_name_of_a_missing_worker_travels(self, tmp_path):
        """Most of 8 workers wait for one that waits itself; nobody blames that one."""

        def go(comm):
            try:
                comm.allgather(np.zeros(1), "bins")
                if comm.rank == 5:
                    texts_of(set(range(8)) - {5}, tmp_path, 3.0)
                comm.allgather(np.zeros(1), "ballots")
            except CommunicationError as error:
                (tmp_path / str(comm.rank)).write_text(str(error))
                raise

        with pytest.raises(WorkerTimeoutError, match=r"waited 2 s for worker 5 of 8 at allgather.*'ballots'"):
            self.run(go, 8, timeout=2)
        messages = texts_of(set(range(8)) - {5}, tmp_path)
        messages.pop("5", None)
        assert len(messages) == 7
        for message in messages.values():
            assert "2 s for worker 5 of 8 at" in message or "WorkerTimeoutError about worker 5 " in message, message

    def test_among_many_the_name_of_a_failed_worker_travels(self, tmp_path):
        def go(comm):
            try:
                comm.alltoall([np.zeros(1)] * 8, "rows", about=0)
                if comm.rank == 6:
                    raise KeyError("broken shard")
                comm.alltoall([np.zeros(1)] * 8, "rows", about=0)
            except PeerFailedError as error:
                (tmp_path / str(comm.rank)).write_text(str(error))
                raise

        start = time.monotonic()
        with pytest.raises(KeyError, match="broken shard"):
            self.run(go, 8)
        assert time.monotonic() - start < SOON
        messages = texts_of(set(range(8)) - {6}, tmp_path)
        assert len(messages) == 7
        assert all("worker 6 raised the KeyError" in message for message in messages.values())

    def test_slow_but_in_time(self):
        def go(comm):
            time.sleep(0.1 * comm.rank)
            comm.allgather(np.zeros(1), "ballots")
            time.sleep(0.1 * comm.rank)
            return comm.rank

        assert self.run(go, 3, timeout=2) == [0, 1, 2]

    def test_wrong_arguments_are_refused_and_change_nothing(self):
        def go(comm):
            for call, error, message in WRONG_CALLS:
                with pytest.raises(error, match=message):
                    call(comm)
            return int(comm.allreduce(np.ones(1), "rows")[0])

        assert self.run(go, 2) == [2, 2]
