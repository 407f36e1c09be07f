"""What the tests of the Dask engine share: clusters of real processes, and what their workers can be asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster

from pvtree.comm import dask as engine


@contextmanager
def open_cluster(n_workers: int, **options: Any) -> Iterator[Client]:
    """Workers that are processes with a single thread each, and are started again when they are killed."""
    quiet = {"distributed.logging.distributed": "error"}
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def addresses_of(client: Client) -> list[str]:
    return sorted(client.nthreads())


def run(client: Client, function: Any, addresses: list[str], *, timeout: float = 60.0) -> list[Any]:
    return engine.run(client, function, {address: () for address in addresses}, timeout=timeout)


def pid_of(client: Client, address: str) -> int:
    return client.run(os.getpid, workers=[address])[address]


def left_behind(dask_worker: Any = None) -> tuple[list[str], list[str]]:
    """Of finished runs: boxes for their messages, and tasks."""
    return list(dask_worker.extensions.get("pvtree", {})), [str(key) for key in dask_worker.state.tasks]
