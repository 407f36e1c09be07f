"""The trainings behind each table and figure of the paper, and the figures that the paper reports."""

from __future__ import annotations

from itertools import chain

from trainings import Training

MADE = ("LTR", "CTR")
MACHINES = {"LTR": 8, "CTR": 32}  # of table 2, figure 1 and figure 3
MACHINE_NUMBERS = {"LTR": (2, 4, 8, 16), "CTR": (8, 16, 32, 128)}  # of figure 2
FEW_AND_MANY = {"LTR": (4, 16), "CTR": (16, 128)}  # machines of table 4
VOTING_SIZES = (1, 5, 10, 20, 40)
TOP_K = 20
REAL_MACHINES = 8

# Rows to train and to test on, attributes, and where they are from (table 1).
PAPER_DATA = {
    "LTR": (11_000_000, 1_000_000, 1_200, "private"),
    "CTR": (235_000_000, 31_000_000, 800, "KDD Cup 2012, track 2"),
}
# Convergence time in seconds (table 2).
PAPER_SECONDS = {
    "LTR": {"serial": 28690, "data": 32260, "attribute": 14660, "voting": 5825},
    "CTR": {"serial": 154112, "data": 9209, "attribute": 26928, "voting": 5349},
}
# Seconds and accuracy by k (table 4).
PAPER_BY_SIZE = {
    ("LTR", 4): ((11256, 0.7905), (9906, 0.7909), (9065, 0.7909), (8323, 0.7909), (9529, 0.7909)),
    ("LTR", 16): ((8211, 0.7882), (8131, 0.7893), (8496, 0.7897), (10320, 0.7906), (12529, 0.7909)),
    ("CTR", 16): ((9131, 0.7535), (9947, 0.7538), (9912, 0.7538), (10309, 0.7538), (10877, 0.7538)),
    ("CTR", 128): ((1806, 0.7533), (1745, 0.7536), (2077, 0.7537), (2133, 0.7537), (2564, 0.7538)),
}


def paper_by_machines(task: str) -> dict[int, int]:
    """PV-Tree's seconds on different numbers of machines, from tables 2 and 4: figure 2 itself prints none."""
    at_top_k = VOTING_SIZES.index(TOP_K)
    found = {m: PAPER_BY_SIZE[task, m][at_top_k][0] for m in FEW_AND_MANY[task]}
    return dict(sorted({**found, MACHINES[task]: PAPER_SECONDS[task]["voting"]}.items()))


def comparison(task: str) -> list[Training]:
    """Table 2 and figure 1."""
    others = (Training(task, learner, MACHINES[task]) for learner in ("attribute", "data", "quantized", "voting"))
    return [Training(task, "serial", 1), *others]


def voting_sizes(task: str, n_workers: int) -> list[Training]:
    """A line of table 4."""
    return [Training(task, "voting", n_workers, top_k) for top_k in VOTING_SIZES]


def machine_numbers(task: str) -> list[Training]:
    """Figure 2."""
    return [Training(task, "voting", n_workers) for n_workers in MACHINE_NUMBERS[task]]


def boosters(task: str) -> list[Training]:
    """Figure 3."""
    return [Training(task, learner, MACHINES[task]) for learner in ("voting", "svore", "yu")]


def of_made_task(task: str) -> list[Training]:
    """All of them, each once."""
    by_size = chain.from_iterable(voting_sizes(task, n_workers) for n_workers in FEW_AND_MANY[task])
    return list(dict.fromkeys(chain(comparison(task), by_size, machine_numbers(task), boosters(task))))


def of_real_task(task: str, n_features: int) -> list[Training]:
    """Every algorithm once. With few attributes, the usual k would elect all of them."""
    top_k = max(1, min(TOP_K, n_features // 10))
    learners = ("attribute", "data", "quantized", "voting", "svore", "yu")
    return [Training(task, "serial", 1), *(Training(task, learner, REAL_MACHINES, top_k) for learner in learners)]
