"""``pvtree plan``: what a tree will cost on a cluster by strategy, and which to use, before anything is trained."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace

from pvtree.comm.network import Network
from pvtree.comm.traffic import format_bytes
from pvtree.errors import InvalidParameterError, public
from pvtree.planning import calibration
from pvtree.planning.workload import STRATEGIES, Setting, memory_of, sent_by, spread_bytes, work_of

# The quantized baseline is shown but never recommended: more rows do not make up for its loss (Theorem 4.2).
RECOMMENDED = ("serial", "attribute", "data", "voting")
CLOSE = 1.1  # fewer machines are preferred if they take at most this many times the least seconds
_PERCENT = round(100 * (CLOSE - 1))
MOST_TIMES = 4  # plans consider up to this many times the given machines
# (least rows of a machine in a leaf, names on its ballot): with fewer rows a machine knows less, so it names more.
VOTES_BY_ROWS = ((10_000, 10), (100, 20), (0, 40))


@dataclass(frozen=True)
class Option:
    """One strategy on the given machines; figures are per machine and tree."""

    strategy: str
    n_bytes: float
    n_calls: int
    compute_seconds: float
    network_seconds: float
    memory_bytes: int
    fits: bool
    setup_seconds: float  # once, before the first tree, to send columns to their machines

    @property
    def seconds(self) -> float:
        return self.compute_seconds + self.network_seconds


@dataclass(frozen=True)
class Choice:
    """The best strategy for a number of machines."""

    n_workers: int
    strategy: str
    top_k: int
    seconds: float  # per tree
    setup_seconds: float  # before the first tree

    def of_trees(self, n_trees: int) -> float:
        """The seconds of a training of ``n_trees`` trees, without reading and binning."""
        return self.setup_seconds + n_trees * self.seconds


@dataclass(frozen=True)
class Plan:
    """The result of ``plan``; ``str()`` gives the table and the recommendation."""

    setting: Setting
    network: Network
    n_cores: float
    options: tuple[Option, ...]  # by strategy, on the machines given
    best: Choice | None  # on the machines given; None if nothing fits their memory
    scaling: tuple[Choice, ...]  # by number of machines, where something fits
    recommended: Choice | None
    n_trees: int

    def __str__(self) -> str:
        return f"{_table(self)}\n\n{' '.join(_sentences(self))}"


@public
def plan(
    rows: float,
    attributes: float,
    machines: int = 8,
    network: str | Network = "1gbit",
    leaves: int = 63,
    *,
    bins: float = 255,
    top_k: int | None = None,
    election_size: float = 2.0,
    latency: float | None = None,
    cores: float = 1.0,
    trees: int = 100,
    memory_per_machine: float | None = None,
    speeds: calibration.Speeds | None = None,
) -> Plan:
    """Predict bytes, collectives, seconds and memory of one tree for each strategy, and recommend one.

    Parameters
    ----------
    rows, attributes : int
        The size of the data. Must be at least 1.
    machines : int, default=8
        The number of machines. Must be at least 1.
    network : str or Network, default="1gbit"
        The network between machines, such as "1gbit" or "10gbit".
    leaves : int, default=63
        The number of leaves of a tree. Must be at least 2.
    bins : float, default=255
        The number of bins of the average attribute. Must be from 2 to 255.
    top_k : int or None, default=None
        The number of names on a ballot; None chooses it by the rows per leaf. Must be at least 1.
    election_size : float, default=2.0
        The number of elected attributes, as a multiple of top_k. Must be at least 1.
    latency : float or None, default=None
        The seconds that a message takes at least; None for the network's own. Not used if network is a Network.
    cores : float, default=1.0
        The cores of each machine. Must be positive.
    trees : int, default=100
        The number of trees. Must be at least 1.
    memory_per_machine : float or None, default=None
        Bytes; strategies that need more are ruled out. Must be positive.
    speeds : Speeds or None, default=None
        This machine's speeds. None uses those measured before, or measures them for about a minute.

    Returns
    -------
    Plan
    """
    n_rows, n_features = _count("rows", rows), _count("attributes", attributes)
    n_workers, n_leaves, n_trees = _count("machines", machines), _count("leaves", leaves, 2), _count("trees", trees)
    _check(bins, cores, election_size, memory_per_machine)
    links = Network.parse(network, latency) if isinstance(network, str) else network
    k = None if top_k is None else _count("top_k", top_k)
    base = Setting(n_rows, n_features, n_workers, min(n_leaves, max(2, n_rows)), bins, k or 1, election_size)
    return _Planner(base, k, links, cores, memory_per_machine, astuple(speeds or calibration.speeds()), n_trees).plan()


def votes_for(n_rows: int, n_leaves: int, n_workers: int, n_features: int) -> int:
    """k by the rows that a machine has in an average leaf, but never so large that everything is elected."""
    in_leaf = n_rows / (n_leaves * n_workers)
    k = next(k for least, k in VOTES_BY_ROWS if in_leaf >= least)
    return max(1, min(k, n_features // 4)) if n_features > 4 else 1


@dataclass(frozen=True)
class _Planner:
    base: Setting
    top_k: int | None
    network: Network
    n_cores: float
    memory: float | None
    speeds: tuple[float, ...]
    n_trees: int

    def plan(self) -> Plan:
        n_workers, n_trees = self.base.n_workers, self.n_trees
        sizes = sorted({n_workers, *(2**i for i in range(int(math.log2(MOST_TIMES * n_workers)) + 1))})
        choices = [choice for choice in map(self.choose, sizes) if choice is not None]
        scaling = tuple({choice.n_workers: choice for choice in choices}.values())
        least = min((choice.of_trees(n_trees) for choice in scaling), default=0.0)
        recommended = next((choice for choice in scaling if choice.of_trees(n_trees) <= CLOSE * least), None)
        return Plan(
            setting=self.setting(n_workers),
            network=self.network,
            n_cores=self.n_cores,
            options=self.options(self.setting(n_workers)),
            best=self.choose(n_workers),
            scaling=scaling,
            recommended=recommended,
            n_trees=n_trees,
        )

    def setting(self, n_workers: int) -> Setting:
        base = self.base
        k = self.top_k or votes_for(base.n_rows, base.n_leaves, n_workers, base.n_features)
        return replace(base, n_workers=n_workers, top_k=k)

    def options(self, setting: Setting) -> tuple[Option, ...]:
        return tuple(self.option(strategy, setting) for strategy in STRATEGIES)

    def option(self, strategy: str, setting: Setting) -> Option:
        sent, memory = sent_by(strategy, setting), memory_of(strategy, setting)
        spread = spread_bytes(strategy, setting)
        return Option(
            strategy,
            sent.n_bytes,
            sent.n_calls,
            work_of(strategy, setting).seconds(self.speeds, self.n_cores),
            self.network.of_traffic(sent.n_bytes, sent.n_calls, setting.n_workers),
            memory,
            self.memory is None or memory <= self.memory,
            self.network.of_traffic(spread, 1, setting.n_workers) if spread else 0.0,
        )

    def choose(self, n_workers: int) -> Choice | None:
        """The fastest strategy that fits into memory, or None; one machine alone is serial."""
        setting = self.setting(n_workers)
        names = RECOMMENDED if n_workers > 1 else ("serial",)
        fitting = [each for each in (self.option(name, setting) for name in names) if each.fits]
        if not fitting:
            return None
        best = min(fitting, key=lambda option: option.seconds + option.setup_seconds / self.n_trees)
        # If serial is the fastest of several machines, the others are of no use.
        n_used = 1 if best.strategy == "serial" else n_workers
        return Choice(n_used, best.strategy, setting.top_k, best.seconds, best.setup_seconds)


def _check(bins: float, cores: float, election_size: float, memory: float | None) -> None:
    if not 2 <= bins <= 255:
        raise InvalidParameterError(f"bins must be a number from 2 to 255, got {bins}.")
    if not (cores > 0 and math.isfinite(cores)):
        raise InvalidParameterError(f"cores must be a positive number, got {cores}.")
    if not 1.0 <= election_size < math.inf:
        raise InvalidParameterError(f"election_size must be a number of at least 1, got {election_size}.")
    if memory is not None and not memory > 0:
        raise InvalidParameterError(f"memory_per_machine must be a positive number of bytes, got {memory}.")


def _count(name: str, value: float, least: int = 1) -> int:
    if not (math.isfinite(value) and value == int(value) and value >= least):
        raise InvalidParameterError(f"{name} must be a whole number of at least {least}, got {value}.")
    return int(value)


# What is printed


def _table(of: Plan) -> str:
    header = ("strategy", "sent", "collectives", "computing", "network", "seconds", "memory", "")
    lines = [header]
    for each in of.options:
        lines.append(
            (each.strategy, format_bytes(each.n_bytes), str(each.n_calls), format_seconds(each.compute_seconds),
             format_seconds(each.network_seconds), format_seconds(each.seconds), format_bytes(each.memory_bytes),
             "" if each.fits else "does not fit")
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
    s = of.setting
    title = (
        f"{s.n_rows:,} rows x {s.n_features:,} attributes, {s.n_leaves} leaves, {s.n_bins:g} bins, "
        f"{_machines(s.n_workers)} of {of.n_cores:g} core{'s' * (of.n_cores != 1)} at "
        f"{of.network.bits_per_second / 1e9:g} Gbit/s, k = {s.top_k}; per machine and tree:"
    )
    return "\n".join((title, "", *rows))


def _sentences(of: Plan) -> list[str]:
    s = of.setting
    if of.best is None or of.recommended is None:
        smallest = min(each.memory_bytes for each in of.options if each.strategy in RECOMMENDED)
        return [
            f"Nothing fits into the memory of {_machines(s.n_workers)}: the smallest strategy needs "
            f"{format_bytes(smallest)} on each; use more machines or larger ones."
        ]
    found = []
    best, chosen = of.best, of.recommended
    found.append(
        f"Recommended on {_machines(s.n_workers)}: {_named(best)}, {format_seconds(best.seconds)} per tree and "
        f"{format_seconds(best.of_trees(of.n_trees))} for {of.n_trees} trees."
    )
    found.append(_about_machines(of, chosen))
    if best.setup_seconds:
        found.append(
            f"attribute keeps columns on machines: data that comes by rows takes {format_seconds(best.setup_seconds)} "
            "to spread before the first tree (counted above)."
        )
    if best.strategy == "voting":
        in_leaf = s.n_rows / (s.n_leaves * s.n_workers)
        found.append(f"k = {best.top_k}: a machine has about {in_leaf:,.0f} rows in a leaf.")
    quantized = next(each for each in of.options if each.strategy == "quantized")
    if quantized.fits and quantized.seconds < best.seconds:
        found.append("quantized would be faster, but more rows do not make up for what its coarse bins lose.")
    return found


def _about_machines(of: Plan, chosen: Choice) -> str:
    fastest = min(of.scaling, key=lambda choice: choice.of_trees(of.n_trees))
    tried = f"Of 1 to {MOST_TIMES * of.setting.n_workers} machines"
    if fastest.n_workers == 1:
        return f"{tried}, one alone is the fastest."
    best = f"{fastest.n_workers} would be the fastest ({_named(fastest)}, {format_seconds(fastest.seconds)} per tree)"
    if chosen == fastest:
        return f"{tried}, {best}, by more than {_PERCENT} %."
    return (
        f"{tried}, {best}; {chosen.n_workers} are the fewest within {_PERCENT} % of that ({_named(chosen)}, "
        f"{format_seconds(chosen.seconds)} per tree)."
    )


def _machines(n: int) -> str:
    return f"{n} machine{'s' * (n != 1)}"


def _named(choice: Choice) -> str:
    return f"voting with k = {choice.top_k}" if choice.strategy == "voting" else choice.strategy


def format_seconds(seconds: float) -> str:
    """Seconds for people: 0.8 ms, 1.2 s, 3.5 min, 2.1 h."""
    if seconds < 1.0:
        return f"{1e3 * seconds:.1f} ms" if seconds < 0.1 else f"{1e3 * seconds:.0f} ms"
    for unit, size in (("s", 60.0), ("min", 60.0)):
        if seconds < 2 * size:
            return f"{seconds:.1f} {unit}"
        seconds /= size
    return f"{seconds:.1f} h"
