"""Data like the paper's two tasks, from a seed: learning to rank (1200 numeric attributes) and clicks (800, most of
them binary or discrete, 5 % positives).

A generator makes blocks of BLOCK_ROWS rows, each from its own seed, so rows do not depend on how many are generated at
once or before, and their number is unlimited. Effects in the tails of an attribute are invisible to a histogram of few
bins; attributes with common factors make local votes differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BLOCK_ROWS = 4096  # in whole queries
QUERY_ROWS = (60, 141)  # rows of a query, but for the last of a block, which takes what is left
LABEL_SHARES = (0.55, 0.25, 0.12, 0.06, 0.02)  # labels 0 to 4: most documents are irrelevant
POSITIVES = 0.05
N_FACTORS = 50
LOADING = 0.6  # correlation of an attribute with its factor
TAILS = (0.4, 0.1, 0.03, 0.01)  # shares of the rows beyond a step


@dataclass(frozen=True)
class Rows:
    """Some rows of a task."""

    X: np.ndarray  # float32 (n_rows, n_features)
    y: np.ndarray  # float32 (n_rows,)
    group: np.ndarray | None  # int64 (n_queries,) sizes, of rankings


class Effects:
    """A function of some attributes with mean 0 and variance 1: lines, steps in the tails, bends and products."""

    def __init__(self, rng: np.random.Generator, columns: np.ndarray) -> None:
        self.columns = columns
        self.weight = rng.uniform(0.5, 1.5, len(columns)) / np.sqrt(1.0 + np.arange(len(columns)) / 8.0)
        self.sign = rng.choice([-1.0, 1.0], len(columns))
        self.kind = rng.permutation(len(columns)) % 6
        self.partner = rng.permutation(columns)
        self.mean, self.scale = 0.0, 1.0

    def fit(self, Z: np.ndarray) -> None:
        total = self._sum(Z)
        self.mean, self.scale = float(total.mean()), float(total.std())

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        return (self._sum(Z) - self.mean) / self.scale

    def _sum(self, Z: np.ndarray) -> np.ndarray:
        total = np.zeros(len(Z))
        for column, weight, sign, kind, partner in zip(
            self.columns, self.weight, self.sign, self.kind, self.partner, strict=True
        ):
            z = sign * Z[:, column].astype(np.float64)
            if kind < len(TAILS):  # a step of variance 1
                share = TAILS[kind]
                total += weight * (z > normal_quantile(1.0 - share)) / np.sqrt(share * (1.0 - share))
            elif kind == len(TAILS):
                total += weight * z
            else:
                total += weight * (np.abs(z) + 0.7 * z * (Z[:, partner] > 0.0))
        return total


class MadeTask:
    """Blocks of rows; subclasses define the distribution of attributes and labels."""

    name: str
    metric: str
    kind: str

    def __init__(self, n_features: int, n_informative: int, seed: int) -> None:
        self.n_features, self.seed = n_features, seed
        rng = self._rng(0)
        self.factor = rng.integers(0, N_FACTORS, n_features)
        self.effects = Effects(rng, rng.choice(n_features, n_informative, replace=False))
        self._prepare(rng)
        Z = self._normals(self._rng(1), BLOCK_ROWS * 8)
        self.effects.fit(Z)
        self._fit_labels(self._rng(2), Z)

    def rows(self, first: int, n_rows: int) -> Rows:
        """``n_rows`` rows (in whole blocks) from block ``first`` on."""
        count = n_blocks(n_rows)
        X = np.empty((count * BLOCK_ROWS, self.n_features), np.float32)
        y, groups = np.empty(len(X), np.float32), []
        for i in range(count):
            block = self.block(first + i)
            at = slice(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS)
            X[at], y[at] = block.X, block.y
            groups.append(block.group)
        return Rows(X, y, None if groups[0] is None else np.concatenate(groups))

    def block(self, index: int) -> Rows:
        rng = self._rng(3, index)
        Z = self._normals(rng, BLOCK_ROWS)
        y, group = self._labels(rng, Z)
        self._give_margins(Z)
        return Rows(Z, y.astype(np.float32), group)

    def _rng(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.n_features, *key])

    def _normals(self, rng: np.random.Generator, n_rows: int) -> np.ndarray:
        """Standard normals; attributes of the same factor are correlated."""
        factors = rng.standard_normal((n_rows, N_FACTORS), np.float32)
        Z = rng.standard_normal((n_rows, self.n_features), np.float32)
        Z *= np.float32(np.sqrt(1.0 - LOADING**2))
        Z += np.float32(LOADING) * factors[:, self.factor]
        return Z

    def _prepare(self, rng: np.random.Generator) -> None:
        """Draw what all rows have in common."""

    def _fit_labels(self, rng: np.random.Generator, Z: np.ndarray) -> None:
        raise NotImplementedError

    def _labels(self, rng: np.random.Generator, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        raise NotImplementedError

    def _give_margins(self, Z: np.ndarray) -> None:
        raise NotImplementedError


class Ranking(MadeTask):
    """Learning to rank: grades depend on effects of the document, the difficulty of the query, and noise."""

    name, metric, kind = "LTR", "NDCG@10", "ranking"
    noise = 1.0

    def __init__(self, n_features: int = 1200, seed: int = 2016) -> None:
        super().__init__(n_features, min(40, n_features // 2), seed)

    def _fit_labels(self, rng: np.random.Generator, Z: np.ndarray) -> None:
        self.limits = np.quantile(self._relevance(rng, Z, query_sizes(rng, len(Z))), np.cumsum(LABEL_SHARES)[:-1])

    def _labels(self, rng: np.random.Generator, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        group = query_sizes(rng, len(Z))
        return np.searchsorted(self.limits, self._relevance(rng, Z, group)), group

    def _relevance(self, rng: np.random.Generator, Z: np.ndarray, group: np.ndarray) -> np.ndarray:
        easiness = 0.4 * np.repeat(rng.standard_normal(len(group)), group)
        return self.effects(Z) + easiness + self.noise * rng.standard_normal(len(Z))

    def _give_margins(self, Z: np.ndarray) -> None:
        """Every fourth attribute is skewed, and every fourth one integer, as word counts are."""
        np.exp(Z[:, 1::4], out=Z[:, 1::4])
        Z[:, 3::4] = np.round(8.0 * Z[:, 3::4])


class Clicks(MadeTask):
    """Click prediction: binary labels whose log-odds follow the effects; seven in ten attributes are binary too."""

    name, metric, kind = "CTR", "AUC", "binary"
    strength = 1.3

    def __init__(self, n_features: int = 800, seed: int = 2016) -> None:
        super().__init__(n_features, min(80, n_features // 2), seed)

    def _prepare(self, rng: np.random.Generator) -> None:
        turn = rng.permutation(self.n_features) % 20
        self.binary = np.flatnonzero(turn < 14)
        self.discrete = np.flatnonzero((turn >= 14) & (turn < 17))
        # Shares of ones, from rare to frequent; values of a discrete attribute.
        self.rarity = normal_quantiles(1.0 - 10.0 ** rng.uniform(-2.5, -0.5, len(self.binary)))
        self.fineness = rng.uniform(0.8, 4.0, len(self.discrete)).astype(np.float32)

    def _fit_labels(self, rng: np.random.Generator, Z: np.ndarray) -> None:
        self._discretise(Z)
        self.effects.fit(Z)
        log_odds = self.strength * self.effects(Z)
        low, high = -20.0, 20.0
        for _ in range(60):  # the share of positives rises with the bias
            self.bias = (low + high) / 2.0
            low, high = (low, self.bias) if logistic(log_odds + self.bias).mean() > POSITIVES else (self.bias, high)

    def _labels(self, rng: np.random.Generator, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        self._discretise(Z)
        return rng.random(len(Z)) < logistic(self.strength * self.effects(Z) + self.bias), None

    def _discretise(self, Z: np.ndarray) -> None:
        Z[:, self.binary] = Z[:, self.binary] > self.rarity
        Z[:, self.discrete] = np.round(self.fineness * Z[:, self.discrete])

    def _give_margins(self, Z: np.ndarray) -> None:
        """Attributes that are neither binary nor discrete are rates and counts."""


def query_sizes(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    sizes = rng.integers(*QUERY_ROWS, n_rows // QUERY_ROWS[0] + 1)
    ends = np.cumsum(sizes)
    n_whole = int(np.searchsorted(ends, n_rows - QUERY_ROWS[0], side="right"))
    return np.append(sizes[:n_whole], n_rows - (ends[n_whole - 1] if n_whole else 0))


def n_blocks(n_rows: int) -> int:
    return max(1, -(-n_rows // BLOCK_ROWS))


def logistic(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def normal_quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)


def normal_quantiles(shares: np.ndarray) -> np.ndarray:
    return np.array([normal_quantile(float(share)) for share in shares], np.float32)
