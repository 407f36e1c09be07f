"""Helpers for tests of the Dask engine: clusters of real processes, and questions to their workers."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, Worker
from distributed.security import Security

from pvtree.comm import dask as engine

# Each worker is a process that starts with everything imported, because tests kill and start many of them.
PROCESSES = multiprocessing.get_context("forkserver")
PRELOADED = ["distributed.client", "distributed.http.worker", "pvtree.comm.dask", "pytest", "hypothesis"]


class Cluster:
    """A scheduler in this process, and workers in processes of their own, with one thread each."""

    def __init__(self, client: Client, folder: Path, options: dict[str, Any]) -> None:
        self.client = client
        self._arguments = (client.scheduler.address, str(folder), options)
        self._processes: list[Any] = []

    def start(self, n_workers: int) -> None:
        """Start this many more workers, after the dead ones have been removed."""
        self._processes = [process for process in self._processes if process.is_alive()]
        started = [PROCESSES.Process(target=serve, args=self._arguments, daemon=True) for _ in range(n_workers)]
        for process in started:
            process.start()
        self._processes += started
        living = {process.pid for process in self._processes}
        wait_until(lambda: living == set(self.pids().values()), 60, "the workers do not start")

    def pids(self) -> dict[str, int]:
        """Processes by address."""
        return self.client.run(os.getpid, on_error="ignore")

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


@contextmanager
def open_cluster(n_workers: int, folder: Path, security: Security | None = None) -> Iterator[Cluster]:
    PROCESSES.set_forkserver_preload(PRELOADED)
    options = {} if security is None else {"security": security}
    with (
        LocalCluster(
            n_workers=0,
            protocol="tcp" if security is None else "tls",
            dashboard_address=":0",
            silence_logs=50,
            local_directory=folder,
            **options,
        ) as scheduler,
        Client(scheduler, **options) as client,
    ):
        cluster = Cluster(client, folder, options)
        try:
            cluster.start(n_workers)
            yield cluster
        finally:
            cluster.stop()


def serve(scheduler: str, folder: str, options: dict[str, Any]) -> None:
    """Run a worker's process."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    async def live() -> None:
        async with Worker(scheduler, nthreads=1, local_directory=folder, **options) as worker:
            await worker.finished()

    asyncio.run(live())


def addresses_of(client: Client) -> list[str]:
    return sorted(client.nthreads())


def run(client: Client, function: Any, addresses: list[str], *, timeout: float = 60.0) -> list[Any]:
    return engine.run(client, function, {address: () for address in addresses}, timeout=timeout)


def left_behind(dask_worker: Any = None) -> tuple[list[str], list[str]]:
    """What finished runs have left behind: mailboxes and tasks."""
    return list(dask_worker.extensions.get("pvtree", {})), [str(key) for key in dask_worker.state.tasks]


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
