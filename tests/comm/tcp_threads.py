"""Workers over TCP in threads of one process: real sockets, which start faster than processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pvtree.comm import Communicator, tcp
from pvtree.errors import PeerFailedError


class Table:
    """The rendezvous of threads: each lays down a text and waits until all have."""

    def __init__(self, size: int) -> None:
        self._texts = [""] * size
        self._barrier = threading.Barrier(size)

    def place(self, rank: int) -> tcp.Engine:
        def allgather(text: str) -> list[str]:
            self._texts[rank] = text
            self._barrier.wait(20)
            return self._texts

        return tcp.Engine(rank, len(self._texts), allgather)


def run(
    function: Callable[[Communicator], Any], size: int, *, timeout: float = 60.0, tls: tcp.TLS | None = None
) -> list[Any]:
    """The results by rank, or the first error that does not merely report another worker's."""
    table, results, errors = Table(size), [None] * size, []

    def work(rank: int) -> None:
        try:
            with tcp.connect(table.place(rank), host="127.0.0.1", timeout=timeout, tls=tls) as comm:
                results[rank] = function(comm)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, PeerFailedError))
    return results
