"""Rows on Dask workers that the test chooses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client

from dask_functions import addresses_of


def place_rows(client: Client, values: Any, lengths: Sequence[int], workers: list[str] | None = None) -> Any:
    """A Dask collection whose partitions, of these lengths, lie on the workers in turn."""
    workers = addresses_of(client) if workers is None else workers
    bounds = np.cumsum([0, *lengths])
    blocks = [values[start:stop] for start, stop in pairwise(bounds)]
    if isinstance(values, pd.DataFrame | pd.Series):
        frames = [dd.from_pandas(block, npartitions=1, sort=False) for block in blocks]
        return dd.concat([client.persist(f, workers=[w]) for f, w in zip(frames, cycle(workers), strict=False)])
    name = f"rows-{os.urandom(8).hex()}"
    keys = [(name, i, *(0 for _ in values.shape[1:])) for i in range(len(blocks))]
    futures = [
        client.submit(np.copy, block, key=key, workers=[worker])
        for key, block, worker in zip(keys, blocks, cycle(workers), strict=False)
    ]
    chunks = (tuple(lengths), *((width,) for width in values.shape[1:]))
    return da.Array(dict(zip(keys, futures, strict=True)), name, chunks, values.dtype)
