"""Every item of every phase is done once, with more threads than cores, late helpers, or no helper at all."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from pvtree.kernels.growing.work_sharing import (
    KIND,
    SYNC_SIZE,
    all_done,
    finish_item,
    let_helpers_go,
    may_go,
    publish,
    take,
    wait_a_moment,
)
from pvtree.kernels.intrinsics import atomic_add
from pvtree.kernels.jit import njit

N_PHASES = 60_000
SIZES = np.array([1, 1, 2, 7], np.int64)  # items of a phase, in turn; the last one is what threads fight for


@njit
def share_phases(sync, sizes, n_phases, done, wrong, leads, n_own):  # type: ignore[no-untyped-def]
    """The loop of growing a tree with items that only note who was where: done[phase, item] counts."""
    phase, n_waits = np.int64(-1), np.int64(0)
    while True:
        item = take(sync)
        if item >= 0:
            kind = sync[KIND]
            n_items = sizes[kind % len(sizes)]
            if item >= n_items:
                atomic_add(wrong, 0, 1)
            else:
                atomic_add(done, kind * sizes.max() + item, 1)
            # Nobody may be here before all of the last phase is done.
            if kind > 0 and done[(kind - 1) * sizes.max()] == 0:
                atomic_add(wrong, 0, 1)
            n_own += 1
            finish_item(sync)
            n_waits = np.int64(0)
        elif leads and all_done(sync):
            phase += 1
            if phase == n_phases:
                let_helpers_go(sync)
                return n_own
            publish(sync, phase, sizes[phase % len(sizes)])
        elif not leads and may_go(sync):
            return n_own
        else:
            n_waits = wait_a_moment(n_waits)


def run(n_helpers: int, leader_waits: float = 0.0, helpers_wait: float = 0.0) -> tuple[np.ndarray, int, list[int]]:
    sync = np.zeros(SYNC_SIZE, np.int64)
    done, wrong = np.zeros(N_PHASES * int(SIZES.max()), np.int64), np.zeros(1, np.int64)
    shares: list[int] = []

    def work(leads: bool, wait: float) -> None:
        time.sleep(wait)
        shares.append(share_phases(sync, SIZES, np.int64(N_PHASES), done, wrong, leads, np.int64(0)))

    threads: list[Any] = [threading.Thread(target=work, args=(True, leader_waits), daemon=True)]
    threads += [threading.Thread(target=work, args=(False, helpers_wait), daemon=True) for _ in range(n_helpers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    return done.reshape(N_PHASES, -1), int(wrong[0]), shares


@pytest.mark.parametrize(
    ("n_helpers", "leader_waits", "helpers_wait"),
    [(0, 0, 0), (1, 0.02, 0), (7, 0.02, 0), (3, 0, 0.002), (2, 0, 0.3)],
    ids=["alone", "pair", "more than cores", "late helpers", "after the end"],
)
def test_every_item_is_done_once_and_phases_follow_each_other(
    n_helpers: int, leader_waits: float, helpers_wait: float
) -> None:
    done, wrong, shares = run(n_helpers, leader_waits, helpers_wait)
    expected = np.arange(SIZES.max()) < SIZES[np.arange(N_PHASES) % len(SIZES), None]
    np.testing.assert_array_equal(done, expected)
    assert wrong == 0
    assert sum(shares) == expected.sum()
    if n_helpers == 0:
        assert len(shares) == 1


def test_a_ticket_is_void_once_its_phase_is_empty() -> None:
    sync = np.zeros(SYNC_SIZE, np.int64)
    assert take(sync) == -1 and all_done(sync)
    publish(sync, np.int64(2), np.int64(3))
    assert [take(sync) for _ in range(5)] == [0, 1, 2, -1, -1]
    assert not all_done(sync)
    for _ in range(3):
        finish_item(sync)
    assert all_done(sync) and not may_go(sync)
    let_helpers_go(sync)
    assert may_go(sync)
