"""Strangers at the ports of workers over TCP, and the ports that a process listens at."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from struct import pack

import numpy as np

from pvtree.comm import tcp_line
from pvtree.comm.tcp_greeting import CHALLENGE, GREETING, MAGIC


def say(address, *messages, reads=True):
    """What a gate answers to these bytes until it hangs up."""
    with socket.create_connection(address, timeout=20) as sock:
        with suppress(OSError):  # it has hung up in the middle of a message
            for message in messages:
                sock.sendall(message)
        return hear(sock) if reads else b""


def hear(sock):
    heard = b""
    with suppress(OSError):
        while part := sock.recv(1000):
            heard += part
    return heard


GARBAGE = np.random.default_rng(0).bytes(100_000)
FALSE_RANK = GREETING.pack(MAGIC, 2, bytes(32), bytes(32))
ANNOUNCED = tcp_line.FRAME_HEAD.pack(tcp_line.LETTER, 2_000_000_000) + bytes(GREETING.size)


def attack(address, recorded):
    """Garbage, a false rank, a greeting that was sent before, 2 GB announced: each gets a challenge and no more."""
    for message in (GARBAGE, FALSE_RANK, ANNOUNCED, pack("<I", 2**31) * 1000, *recorded):
        assert len(say(address, message)) == CHALLENGE.size


def attack_together(addresses, arrived):
    """The same without recorded greetings, all at once: gates answer when all workers have come.

    Calls ``arrived`` when strangers stand at every gate; returns how many bytes each of them was told.
    """
    with ExitStack() as stack:
        sockets = []
        for address in addresses:
            for message in (GARBAGE[:1000], FALSE_RANK, ANNOUNCED):
                sockets.append(stack.enter_context(socket.create_connection(address, timeout=60)))
                sockets[-1].sendall(message)
        arrived()
        return [len(hear(sock)) for sock in sockets]


def listening_ports(pid: int) -> set[tuple[str, int]]:
    """The addresses at which a process on this machine listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            host, port = fields[1].split(":")
            found.add((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return found
