"""Hosts that share a machine but not a network: namespaces, joined by a bridge, with links of a given rate.

Everything, including the bridge, is named after this process and lives in separate namespaces. The machine's own
network is not touched, and removing the namespaces removes everything.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

SUBNET = "10.213.0"  # seen inside the namespaces only
CONTROL = f"{SUBNET}.254"  # where mpiexec runs: the bridge's own address, whose link has no limit
INTERFACE = "eth0"  # of every host
LEAST_BURST = 2 * 1514  # bytes: a bucket must hold a packet
BURST_SECONDS = 100e-6  # what a timer may be late by: shorter and the rate is not reached, longer and bytes are free
QUEUE_BYTES = 1 << 24  # no packet is dropped; an overflowing switch is not part of the benchmark
# TCP hands packets over to be cut later, as network cards do. Single ones cost this machine's few cores more time than
# a link of 1 Gbit/s takes; larger ones would not fit into the bucket of that rate, which holds 12,500 bytes.
UNCUT_SEGMENTS = 8
PATIENCE = 0.05  # seconds between two looks at whether processes have ended

# In place of ssh: runs a command on the host that an address stands for. MPI passes data through shared memory wherever
# it can, so each host has a name, a /dev/shm and (for MPICH's UCX) an IPC namespace of its own.
ENTER = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
address=$1
shift
exec ip netns exec {prefix}-"$address" unshare --uts --mount --ipc sh -c \\
    "hostname h${{address##*.}} && mount -t tmpfs tmpfs /dev/shm && exec $*"
"""


class NetworkError(Exception):
    """The hosts could not be created, or a program on one of them failed."""


def why_not() -> str | None:
    """A sentence that says why hosts cannot be created here, or None."""
    if not sys.platform.startswith("linux"):
        return "Hosts are Linux network namespaces, which this system does not have; run it on Linux."
    if os.geteuid() != 0:
        return "Making network namespaces and limiting their rate needs root; run it again as root."
    for program in ("ip", "tc", "unshare", "mount", "hostname"):
        if shutil.which(program) is None:
            return f"The program {program!r} is missing; install the packages iproute2, util-linux and hostname."
    if mpiexec() is None:
        return "mpiexec is missing; install it with pip install 'pvtree[mpi]'."
    return None


def mpiexec() -> str | None:
    """Prefers the mpiexec of this Python environment."""
    return shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


class Network:
    """``n_hosts`` hosts with one link each; a context manager that always removes everything."""

    def __init__(self, n_hosts: int, folder: Path) -> None:
        self.addresses = [f"{SUBNET}.{host + 1}" for host in range(n_hosts)]
        self.prefix = f"pvtree{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.folder = folder  # for the script and for what programs print
        self.enter = folder / "enter"
        self._started: list[subprocess.Popen] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Network:
        for name in (signal.SIGTERM, signal.SIGHUP):  # so that being ended tidies up too
            self._handlers[name] = signal.signal(name, lambda *_: sys.exit(1))
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _build(self) -> None:
        self.enter.write_text(ENTER.format(prefix=self.prefix))
        self.enter.chmod(0o755)
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "set", "lo", "up")
        run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.switch, "address", "add", f"{CONTROL}/24", "dev", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for host, address in enumerate(self.addresses):
            space, port = self._space(address), f"port{host}"
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "link", "add", INTERFACE, "netns", space, "type", "veth", "peer", port, "netns", self.switch)
            run("ip", "-n", space, "address", "add", f"{address}/24", "dev", INTERFACE)
            run("ip", "-n", space, "link", "set", INTERFACE, "up")
            run("ip", "-n", space, "link", "set", INTERFACE, "gso_max_segs", str(UNCUT_SEGMENTS))
            run("ip", "-n", self.switch, "link", "set", port, "master", "bridge", "up")
            # Whatever core packets come from, one passes them on: else they overtake each other, and TCP sends again.
            for where, interface in ((space, INTERFACE), (self.switch, port)):
                core = 1 << host % usable_cores()
                queue = f"/sys/class/net/{interface}/queues/rx-0/rps_cpus"
                run("ip", "netns", "exec", where, "sh", "-c", f"echo {core:x} > {queue}")
            # Most systems choose cubic, some another; a route may name it where a namespace must not set its own.
            route = ["route", "replace", f"{SUBNET}.0/24", "dev", INTERFACE, "src", address, "congctl", "cubic"]
            run("ip", "-n", space, *route)

    def _space(self, address: str) -> str:
        return f"{self.prefix}-{address}"

    def set_rate(self, bits_per_second: float) -> None:
        """Limit every link in both directions: out of the host at its end, into it at the bridge's.

        By a token bucket (tbf): a packet leaves when its bytes are due, and what is larger than the bucket is cut. htb
        would let a packet of any size through at once and wait afterwards, so that short messages would cost no time;
        netem is often not built in.
        """
        burst = max(LEAST_BURST, int(bits_per_second / 8 * BURST_SECONDS))
        bucket = ["tbf", "rate", f"{bits_per_second:.0f}bit", "burst", f"{burst}b", "limit", f"{QUEUE_BYTES}b"]
        for host, address in enumerate(self.addresses):
            run("tc", "-n", self._space(address), "qdisc", "replace", "dev", INTERFACE, "root", *bucket)
            run("tc", "-n", self.switch, "qdisc", "replace", "dev", f"port{host}", "root", *bucket)

    def mpi(self, command: Sequence[str], environment: Mapping[str, str], limit: float) -> None:
        """Run one MPI rank on every host."""
        start = [
            "ip", "netns", "exec", self.switch, str(mpiexec()), "-localhost", CONTROL, "-launcher", "ssh",
            "-launcher-exec", str(self.enter), "-hosts", ",".join(self.addresses), "-n", str(len(self.addresses)),
        ]  # fmt: skip
        self._run([[*start, *command]], environment, limit)

    def on_each(self, command: Sequence[str], environment: Mapping[str, str], limit: float) -> None:
        """Run a program on every host, with the host's number as its last argument."""
        starts = [[str(self.enter), address, *command, str(i)] for i, address in enumerate(self.addresses)]
        self._run(starts, environment, limit)

    def _run(self, commands: Sequence[Sequence[str]], environment: Mapping[str, str], limit: float) -> None:
        """Wait until all have ended. If one fails or exceeds the time limit, raise an error with its output."""
        printed = self.folder / "printed"
        with printed.open("w") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            for command in commands:
                started = subprocess.Popen(command, env=dict(environment), start_new_session=True, **streams)
                self._started.append(started)
        deadline = time.monotonic() + limit
        try:
            while any(process.poll() is None for process in self._started):
                if any(process.poll() for process in self._started):
                    time.sleep(1.0)  # for the others to say what they know
                    break
                if time.monotonic() > deadline:
                    raise NetworkError(f"The programs did not end in {limit:.0f} s:\n{last_lines(printed)}")
                time.sleep(PATIENCE)
            if any(process.poll() != 0 for process in self._started):
                raise NetworkError(f"A program on a host has failed:\n{last_lines(printed)}")
        finally:
            self._end_processes()

    def _end_processes(self) -> None:
        for process in self._started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._started.clear()
        for _ in range(100):  # what mpiexec has started, and what that has started
            pids = [pid for space in self._existing() for pid in run("ip", "netns", "pids", space).split()]
            if not pids:
                return
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(PATIENCE)

    def _existing(self) -> list[str]:
        mine = {self.switch, *map(self._space, self.addresses)}
        return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.split()[0] in mine]

    def close(self) -> None:
        self._handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not stop it
        try:
            self._end_processes()
            for space in self._existing():
                run("ip", "netns", "delete", space)
        finally:
            for name, handler in self._handlers.items():
                signal.signal(name, handler)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NetworkError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def last_lines(path: Path, count: int = 25) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


def sent_bytes() -> int:
    """Bytes sent so far by the host that this process runs on."""
    return int(Path(f"/sys/class/net/{INTERFACE}/statistics/tx_bytes").read_text())
