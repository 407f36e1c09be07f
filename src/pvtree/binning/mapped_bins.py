"""Bins in a file instead of memory, for training rows whose bins exceed it: the system reads and drops their pages."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from pvtree.errors import InvalidParameterError


def make_bins(shape: tuple[int, int], folder: str | None) -> np.ndarray:
    """Zeros of uint8: in memory, or in a file of this folder, which has no name and so disappears with the process."""
    if folder is None or 0 in shape:
        return np.zeros(shape, np.uint8)
    n_bytes = shape[0] * shape[1]
    try:
        with tempfile.TemporaryFile(prefix="pvtree-bins-", dir=Path(folder)) as file:
            # All of the room at once: if the disk were full later, writing to the mapping would end the process.
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, np.uint8, "r+", shape=shape)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = f"free {n_bytes / 1e9:.1f} GB there" if is_full else "make it a folder that can be written to"
        raise InvalidParameterError(
            f"bins_folder={folder!r} cannot take the bins: {error.strerror or error}; {remedy}, or name another one."
        ) from None


def is_mapped(bins: np.ndarray) -> bool:
    return isinstance(bins, np.memmap)


def read_ahead(bins: np.ndarray, first_block: int, last_block: int) -> None:
    """Let the system read these blocks of mapped bins while others are worked on."""
    mapping, block_bytes = bins._mmap, bins.shape[1]  # type: ignore[attr-defined]
    begin = first_block * block_bytes // mmap.PAGESIZE * mmap.PAGESIZE
    end = min(last_block, len(bins)) * block_bytes
    if begin < end and hasattr(mmap, "MADV_WILLNEED"):
        mapping.madvise(mmap.MADV_WILLNEED, begin, end - begin)
