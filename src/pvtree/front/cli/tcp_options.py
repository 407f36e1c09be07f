"""The options of ``pvtree train`` for workers that meet over TCP, whatever has started them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pvtree.front.cli.data_options import PATH

if TYPE_CHECKING:
    from pvtree.comm.tcp import TCPCommunicator


@dataclass(frozen=True)
class TCPOptions:
    """Where to meet the other workers, as given on the command line."""

    rendezvous: str | None = None
    rank: int | None = None
    size: int | None = None
    host: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_authority: str | None = None

    def check(self) -> None:
        files = (self.tls_certificate, self.tls_key, self.tls_authority)
        if any(files) and not all(files):
            raise click.UsageError("TLS needs --tls-certificate, --tls-key and --tls-authority; give all three.")
        if self.rendezvous is None and any(each is not None for each in (self.rank, self.size, self.host, *files)):
            raise click.UsageError("--rank, --size, --host and --tls-* are for workers that meet; give --rendezvous.")

    def connect(self, timeout: float) -> TCPCommunicator:
        from pvtree.comm import tcp

        assert self.rendezvous is not None
        tls = None
        if self.tls_certificate and self.tls_key and self.tls_authority:
            tls = tcp.TLS(self.tls_certificate, self.tls_key, self.tls_authority)
        return tcp.connect(self.rendezvous, self.rank, self.size, host=self.host, tls=tls, timeout=timeout)


def tcp_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--tls-authority", type=PATH, metavar="FILE", help="Certificate that has signed all workers'."),
        click.option("--tls-key", type=PATH, metavar="FILE", help="Private key of the certificate."),
        click.option("--tls-certificate", type=PATH, metavar="FILE", help="Certificate of this worker, for TLS."),
        click.option("--host", metavar="ADDRESS", help="Where other workers reach this one; by default found out."),
        click.option("--size", type=click.IntRange(min=1), help="Number of workers at --rendezvous."),
        click.option("--rank", type=click.IntRange(min=0), help="This worker's number, counted from 0."),
        click.option(
            "--rendezvous",
            metavar="URL",
            help="Meet other workers: file:///FOLDER that all see, or env:// for MASTER_ADDR, MASTER_PORT, RANK, "
            "WORLD_SIZE (or Slurm's) and PVTREE_SECRET.",
        ),
    ):
        command = option(command)
    return command
