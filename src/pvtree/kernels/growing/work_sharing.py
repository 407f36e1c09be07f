"""Threads inside one kernel share numbered items of work by a ticket; no thread waits for one that is late."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.intrinsics import atomic_add, atomic_load, atomic_store, yield_processor
from pvtree.kernels.jit import njit

# The leader publishes a phase of n items, and every thread that is there takes the next number. A helper that comes
# late, or never, does no harm: the leader takes all items itself, so no schedule of threads leads to a deadlock.

# Words of the ``sync`` array, a cache line apart so that waiting for one does not slow the others.
TICKET, DONE, QUIT, KIND, COME, GONE = 0, 16, 32, 48, 64, 80
SYNC_SIZE = 96
_SPINS = 2000  # about a microsecond of polling before the processor is offered to others


@njit
def publish(sync, kind, n_items):
    """Open a phase. The ticket holds n_items in its high half and the next number in its low half."""
    atomic_store(sync, DONE, 0)
    sync[KIND] = kind
    atomic_store(sync, TICKET, np.int64(n_items) << 32)


@njit
def take(sync):
    """The next item's number, or -1 if the phase has none left."""
    ticket = atomic_load(sync, TICKET)
    if (ticket & 0xFFFFFFFF) >= (ticket >> 32):
        return -1
    # Both halves come back from the one atomic step, so the number is valid for the phase it was taken in.
    ticket = atomic_add(sync, TICKET, 1)
    number = ticket & 0xFFFFFFFF
    return number if number < (ticket >> 32) else -1


@njit
def finish_item(sync):
    atomic_add(sync, DONE, 1)


@njit
def all_done(sync):
    return atomic_load(sync, DONE) == (atomic_load(sync, TICKET) >> 32)


@njit
def let_helpers_go(sync):
    """End the work and wait until all helpers that came have gone; one that comes later finds nothing to do."""
    atomic_store(sync, QUIT, 1)
    while atomic_load(sync, GONE) < atomic_load(sync, COME):
        yield_processor()


@njit
def abandon(sync):
    """End the work in the middle of a phase; nobody takes the items that are left."""
    atomic_store(sync, TICKET, 0)
    let_helpers_go(sync)


@njit
def come(sync):
    atomic_add(sync, COME, 1)


@njit
def go(sync):
    """A helper's last touch of anything shared."""
    atomic_add(sync, GONE, 1)


@njit
def may_go(sync):
    return atomic_load(sync, QUIT) != 0


@njit
def wait_a_moment(n_waits):
    """Return at once for about a microsecond, then offer the processor to others each time."""
    if n_waits > _SPINS:
        yield_processor()
    return n_waits + 1
