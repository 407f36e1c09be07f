"""The numbers that more than one module relies on, each with its reason."""

from __future__ import annotations

import numpy as np

# A block holds 16 features side by side: 16 x 256 words of 8 bytes are 32 KB, which stay in the L1 cache
# while a node's rows are added up, and one row of a block never crosses a cache line.
# (These are numpy integers because numba compiles a function anew for every Python integer it is given literally.)
BLOCK = np.int64(16)
# uint8 bins: bin 0 is "missing" (for categories also "unseen"), 1..255 are ordered values or categories.
N_BINS = np.int64(256)
# Words between two lanes of a block's packed histogram. Not 256: then equal bins of all lanes would share the low
# bits of their addresses, which processors take for the same address (half again as slow on sparse columns).
LANE_STRIDE = np.int64(264)
MISSING_BIN = np.int64(0)
# The most rows that a packed word ever takes: its count field has room for them.
MAX_CAPACITY = 8192
COUNT_BITS = MAX_CAPACITY.bit_length()

ZERO, ONE, NONE = np.int64(0), np.int64(1), np.int64(-1)
GRADIENT, ENTROPY = 0, 1  # criterion: second-order (and variance) gain, or information gain of class counts
