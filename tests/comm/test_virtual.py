"""Virtual machines: the conformance tests, clocks against hand-computed times, and models equal to those of threads."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from conformance import Conformance
from pvtree.comm import Cluster, Network, local, virtual
from pvtree.comm.network import PAYLOAD_SHARE
from pvtree.errors import InvalidParameterError
from pvtree.parameters.params import Params
from pvtree.training.train import train

# A byte takes a microsecond on the wire, and a tenth of a microsecond of the processor at each end.
LINKS = Network(8e6 / PAYLOAD_SHARE, latency=1e-3, per_message=1e-4, per_byte=1e-7)
FREE = Network(1e30, latency=0.0, per_message=0.0, per_byte=0.0)
LATENCY, MESSAGE, BYTE = 1e-3, 1e-4, 1e-6


class FakeClock:
    """A clock that advances only when its thread says so."""

    def __init__(self):
        self.seconds = defaultdict(float)

    def __call__(self):
        return self.seconds[threading.get_ident()]

    def spend(self, seconds):
        self.seconds[threading.get_ident()] += seconds


class TestVirtual(Conformance):
    """Use a clock that counts sleeping as computing, so that tests can keep a worker busy by sleeping."""

    sizes = (1, 5)

    def run(self, function, size, *, timeout=60.0):
        return virtual.run(function, size, Cluster("1gbit", cores=0.5), timeout=timeout, thread_clock=time.perf_counter)


# The network


@pytest.mark.parametrize(
    ("by", "allgather", "allreduce", "broadcast"),
    [
        # 4 workers: gathers of 10, 20, 30 and 40 bytes; a reduction and a broadcast of 2000.
        ("stepwise", LATENCY + 6 * MESSAGE + 120 * BYTE, 2 * (LATENCY + 6 * MESSAGE + 1500 * BYTE),
         LATENCY + 6 * MESSAGE + 6000 * BYTE),
        ("direct", LATENCY + 6 * MESSAGE + 120 * BYTE, 2 * (LATENCY + 6 * MESSAGE + 1500 * BYTE),
         LATENCY + 6 * MESSAGE + 6000 * BYTE),
        ("ring", 3 * (LATENCY + 2 * MESSAGE + 40 * BYTE), 6 * (LATENCY + 2 * MESSAGE + 500 * BYTE),
         3 * (LATENCY + 2 * MESSAGE + 2000 * BYTE)),
        ("recursive doubling", 2 * (LATENCY + 2 * MESSAGE) + 90 * BYTE, 2 * (LATENCY + 2 * MESSAGE + 2000 * BYTE),
         2 * (LATENCY + 2 * MESSAGE + 2000 * BYTE)),
    ],
)  # fmt: skip
def test_seconds_by_hand(by, allgather, allreduce, broadcast):
    links = replace(LINKS, allgather_by=by, allreduce_by=by, broadcast_by=by)
    assert links.allgather([10, 20, 30, 40]) == pytest.approx(allgather)
    assert links.allreduce(2000, 4) == pytest.approx(allreduce)
    assert links.broadcast(2000, 4) == pytest.approx(broadcast)


def test_seconds_of_the_busiest_link_or_processor():
    sizes = np.array([[900, 10, 20], [30, 900, 40], [500, 60, 900]])  # what stays at home costs nothing
    round_of_3 = LATENCY + 4 * MESSAGE
    assert LINKS.alltoall(sizes) == pytest.approx(round_of_3 + 560 * BYTE)  # leaves 2
    assert LINKS.alltoall(sizes.T) == pytest.approx(round_of_3 + 560 * BYTE)  # enters 2
    slow = replace(LINKS, per_byte=10 * BYTE)
    assert slow.alltoall(sizes) == pytest.approx(round_of_3 + (560 + 60) * 10 * BYTE)
    assert LINKS.allreduce(1024, 3) == pytest.approx(round_of_3 + 2 * 1024 * BYTE)  # a short one goes straight to all
    odd = replace(LINKS, allreduce_by="recursive doubling")
    assert odd.allreduce(100, 3) == pytest.approx(3 * (LATENCY + 2 * MESSAGE + 100 * BYTE))


def test_many_machines_take_steps():
    """8 machines: two steps of two messages each. In the second they send what they have from three places."""
    two_steps = 2 * (LATENCY + 4 * MESSAGE)
    sizes = [10, 20, 30, 40, 50, 60, 70, 80]
    # Bytes that leave: machine 7 sends its 80 twice, then those of 5, 6 and 7 and those of 6 and 7.
    assert LINKS.allgather(sizes) == pytest.approx(two_steps + (160 + 210 + 150) * BYTE)
    assert LINKS.allreduce(500, 8) == pytest.approx(two_steps + 7 * 500 * BYTE)
    assert LINKS.broadcast(500, 8) == pytest.approx(two_steps + 4 * 500 * BYTE)
    assert LINKS.choose(500, 8) == pytest.approx(two_steps + 4 * 500 * BYTE)
    # By 3: distances 1, 4, 7 and 2, 5 leave in the first step; 3 to 5 and 6, 7 in the second. Only machine 0 sends.
    between = np.zeros((8, 8))
    between[0] = [0, 1, 2, 4, 8, 16, 32, 64]
    # Then machine 1 passes 8 and 64 on, machine 2 16, and machine 0 sends 4 and 32.
    assert LINKS.alltoall(between, 3) == pytest.approx(two_steps + (1 + 8 + 64 + 2 + 16 + 8 + 64) * BYTE)
    assert LINKS.alltoall(between) == pytest.approx(LATENCY + 14 * MESSAGE + 127 * BYTE)
    shares = np.full((8, 8), 250.0)
    assert LINKS.allreduce(2000, 8) == pytest.approx(LINKS.alltoall(shares, 3) + LINKS.allgather([250] * 8))


def test_of_traffic_agrees_with_the_collectives():
    for by, n_bytes in (("stepwise", 500), ("direct", 500), ("ring", 500), ("recursive doubling", 500)):
        links = replace(LINKS, allgather_by=by)
        sent_by_each = 7 * n_bytes
        assert links.of_traffic(10 * sent_by_each, 10, 8) == pytest.approx(10 * links.allgather([n_bytes] * 8))
        assert links.of_traffic(1e9, 10, 1) == 0.0


def test_one_machine_needs_no_network():
    assert LINKS.allgather([9]) == LINKS.alltoall(np.array([[9]])) == LINKS.allreduce(9, 1) == 0.0
    assert LINKS.broadcast(9, 1) == 0.0


def test_rates_are_read():
    rates = {"1gbit": 1e9, "100mbit": 1e8, "2.5 Gbit/s": 2.5e9, "10gbit": 1e10, "64kbit": 64e3}
    for text, rate in rates.items():
        assert Network.parse(text) == Network(rate)
    assert Network.parse("1gbit", latency=0.01) == Network(1e9, latency=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network.parse("fast"), r"network is 'fast'; give a rate .*such as '100mbit'"),
        (lambda: Network.parse("0gbit"), r"network is '0gbit'"),
        (lambda: Network(-1.0), r"bits_per_second is -1.0; give a positive"),
        (lambda: Network(latency=float("nan")), r"latency is nan; give seconds"),
        (lambda: Network(allreduce_by="tree"), r"allreduce_by is 'tree'; use one of stepwise, direct, ring"),
        (lambda: Cluster("1gb"), r"network is '1gb'"),
        (lambda: Cluster(cores=0), r"cores is 0; give the cores of one machine"),
        (lambda: Cluster(Network(), latency=1.0), r"latency is given twice"),
        (lambda: virtual.run(lambda comm: None, 1, Cluster(cores=4096)), r"cores is 4096, but a single worker"),
        (
            lambda: local.run(
                lambda comm: train(np.zeros((2, 1)), np.zeros(2), Params(), comm=comm, cluster=Cluster()), 2
            ),
            r"cluster is given together with comm, whose 2 workers are real",
        ),
    ],
)
def test_wrong_parameters_are_told_in_a_sentence(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


# Clocks


def test_clocks_by_hand():
    """After each collective: the latest clock plus the network's time."""
    clock, steps = FakeClock(), []

    def go(comm):
        def step(verb, seconds):
            clock.spend(seconds)
            before = comm.clock
            verb()
            steps.append((comm.rank, before, comm.clock))

        step(lambda: comm.allgather(np.zeros(comm.rank, np.uint8), "rows"), 0.1 * comm.rank)
        step(lambda: comm.alltoall([np.zeros(comm.rank, np.uint8)] * 3, "rows"), 0.3 - 0.1 * comm.rank)
        step(lambda: comm.allreduce(np.zeros(250), "scores"), 0.01)
        step(lambda: comm.broadcast(np.zeros(500, np.uint8), "scores", 1), 0.0)
        clock.spend(comm.rank)
        return comm.clock, comm.compute_seconds, comm.network_seconds, comm.traffic["scores"].seconds

    results = virtual.run(go, 3, Cluster(LINKS), thread_clock=clock)
    network = [
        LINKS.allgather([0, 1, 2]),
        LINKS.alltoall(np.arange(3).repeat(3).reshape(3, 3)),
        LINKS.allreduce(2000, 3),
        LINKS.broadcast(500, 3),
    ]
    ends = np.cumsum([0.2 + network[0], 0.3 + network[1], 0.01 + network[2], network[3]])
    for rank in range(3):
        befores, afters = np.array([step[1:] for step in steps if step[0] == rank]).T
        np.testing.assert_allclose(afters, ends)
        own = [0.1 * rank, 0.3 - 0.1 * rank, 0.01, 0.0]
        np.testing.assert_allclose(befores, np.concatenate(([0.0], ends[:-1])) + own)
        now, computing, on_network, in_scores = results[rank]
        assert now == pytest.approx(ends[-1] + rank)
        assert computing == pytest.approx(sum(own) + rank)
        assert on_network == pytest.approx(sum(network))
        assert in_scores == pytest.approx(network[2] + network[3])  # the ledger is in virtual seconds too


def test_adding_up_is_shared(monkeypatch):
    clock = FakeClock()
    add = local.reduce_by_rank
    monkeypatch.setattr(local, "reduce_by_rank", lambda given, op: (clock.spend(4.0), add(given, op))[1])

    def go(comm):
        comm.allreduce(np.zeros(1), "scores")
        return comm.clock, comm.compute_seconds

    assert virtual.run(go, 4, Cluster(FREE), thread_clock=clock) == [(1.0, 1.0)] * 4
    # On half a core each, all four parts are added up on two cores.
    assert virtual.run(go, 4, Cluster(FREE, cores=0.5), thread_clock=clock) == [(2.0, 1.0)] * 4


def test_machines_that_share_cores():
    clock = FakeClock()

    def go(comm):
        times = []
        for seconds in ([1, 1, 1, 1], [4, 0, 0, 0], [3, 1, 0, 2]):
            before = comm.clock
            clock.spend(seconds[comm.rank])
            comm.allgather(np.zeros(100, np.uint8), "rows")
            times.append(comm.clock - before)
        return times

    cluster = Cluster(LINKS, cores=0.5)
    on_network = replace(LINKS, per_message=2 * MESSAGE, per_byte=0.2 * BYTE).allgather([100] * 4)
    for times in virtual.run(go, 4, cluster, thread_clock=clock):
        np.testing.assert_allclose(times, np.array([2.0, 4.0, 3.0]) + on_network)


def test_half_a_core_for_one_machine():
    clock = FakeClock()

    def go(comm):
        clock.spend(1.0)
        before = comm.clock
        comm.allreduce(np.zeros(9), "scores")
        clock.spend(2.0)
        return before, comm.clock, comm.compute_seconds

    assert virtual.run(go, 1, Cluster(LINKS, cores=0.5), thread_clock=clock) == [(2.0, 6.0, 3.0)]


def test_nothing_counts_where_nothing_is_counted():
    clock = FakeClock()

    def go(comm):
        clock.spend(1.0)
        with comm.uncounted():
            clock.spend(10.0)
            comm.allgather(np.zeros(9), "metrics")
            clock.spend(10.0)
        clock.spend(2.0)
        comm.allgather(np.zeros(0), "rows")
        return comm.clock, comm.compute_seconds

    expected = pytest.approx(3.0 + LINKS.allgather([0, 0])), 3.0
    assert virtual.run(go, 2, Cluster(LINKS), thread_clock=clock) == [expected] * 2


def test_blocks_run_on_as_many_cores_as_the_machine_has():
    clock, seen = FakeClock(), []

    def block(start, stop, *scratch):
        seen.append((start, stop, *scratch))
        clock.spend(stop - start + 2.0 * (start <= 4 < stop))  # place 4 is in the second of three blocks

    def go(comm):
        with comm.make_team(64) as team:
            team.for_blocks(block, 12, min_block=1)
            clock.spend(0.5)
            team.for_blocks_with("abc", block, 12)
            team.start_others(lambda thread: clock.spend(100.0), work=10**9)
        return comm.clock, team.n_threads

    def on(cores):
        seen.clear()
        return virtual.run(go, 2, Cluster(FREE, cores=cores), thread_clock=clock)

    assert on(0.5) == on(1.9) == [(28.5, 1)] * 2  # in any number of pieces
    assert on(3.9) == [(12.5, 3)] * 2  # the longest block of three, twice
    assert seen == [(0, 4), (4, 8), (8, 12), (0, 4, "a"), (4, 8, "b"), (8, 12, "c")] * 2


# Trainings


@pytest.mark.parametrize("learner", ["voting", "data", "attribute"])
def test_the_model_is_that_of_a_cluster_without_clocks(learner):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 12))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=600) > 0).astype(np.float64)
    params = Params(objective="binary", n_estimators=3, num_leaves=8, tree_learner=learner, n_workers=3, top_k=3)
    expected = train(X, y, params)
    for cluster in (Cluster("10mbit", latency=0.01), Cluster(cores=4)):
        result = train(X, y, params, cluster=cluster)
        np.testing.assert_array_equal(result.model.predict_raw(X), expected.model.predict_raw(X))
        assert result.traffic.total_bytes == expected.traffic.total_bytes
        n_calls = sum(phase.calls for phase in result.traffic.by_phase.values())
        assert sum(result.timings.values()) > n_calls * cluster.links().latency
