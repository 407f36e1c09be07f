"""Single leaves and thresholds of a model, and models with other leaves: what LightGBM's Booster reads and changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.model.linear_leaves import refuse_linear
from pvtree.model.model import Model


class MissingTreeError(InvalidDataError, IndexError):
    """A tree or leaf that the model does not have."""


def _leaf_node(model: Model, tree: int, leaf: int) -> int:
    if not 0 <= tree < len(model.trees):
        raise MissingTreeError(f"The model has {len(model.trees)} trees, so there is no tree {tree}; count from 0.")
    leaves = np.flatnonzero(model.trees[tree].feature < 0)
    if not 0 <= leaf < len(leaves):
        raise MissingTreeError(f"Tree {tree} has {len(leaves)} leaves, so there is no leaf {leaf}; count from 0.")
    return int(leaves[leaf])


def _base(model: Model, tree: int) -> float:
    """The initial score belongs to the first tree of each output, as in LightGBM's files."""
    return float(model.init_score[tree]) if model.ensemble == "gbdt" and tree < model.n_outputs else 0.0


def leaf_output(model: Model, tree: int, leaf: int) -> float:
    node = _leaf_node(model, tree, leaf)
    return float(model.trees[tree].value[node, 0]) + _base(model, tree)


def with_leaf_output(model: Model, tree: int, leaf: int, value: float) -> Model:
    """The model with another value in one leaf."""
    refuse_linear(model, "set_leaf_output")
    node = _leaf_node(model, tree, leaf)
    values = np.array(model.trees[tree].value)
    values[node] = float(value) - _base(model, tree)
    trees = list(model.trees)
    trees[tree] = replace(trees[tree], value=values)
    return replace(model, trees=tuple(trees))


def shuffled(model: Model, first: int, stop: int, seed: int = 17) -> Model:
    """The model with the iterations from ``first`` to ``stop`` in random order; -1 stands for the last."""
    stop = model.n_iterations if stop < 0 else min(stop, model.n_iterations)
    order = np.arange(model.n_iterations)
    part = order[max(first, 0) : stop]
    np.random.default_rng(seed).shuffle(part)
    per = model.trees_per_iteration
    return replace(model, trees=tuple(model.trees[i * per + k] for i in order for k in range(per)))


def thresholds_of(model: Model, feature: int) -> np.ndarray:
    """Every number that a split of the feature compares with, tree by tree."""
    found = []
    for tree in model.trees:
        own = tree.feature == feature
        if (tree.cat_set[own] >= 0).any():
            raise InvalidDataError(
                "Cannot compute split value histogram for the categorical feature, which doesn't have thresholds; use "
                "a numeric one."
            )
        found.append(tree.threshold[own])
    return np.concatenate([np.empty(0), *found])


Gradients = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # scores (n_outputs, n) -> gradient and hessian


def refitted(
    model: Model, X: np.ndarray, gradients: Gradients, decay: float, shrinkage: float, l1: float, l2: float
) -> Model:
    """The model with the leaves' values fitted to other rows, tree by tree: decay * old + (1 - decay) * new.

    A leaf without rows keeps its value.
    """
    refuse_linear(model, "refit")
    leaves = model.predict_leaf(X)
    scores = np.repeat(model.init_score[:, None], len(leaves), axis=1)
    trees = []
    for number, tree in enumerate(model.trees):
        output = number % model.n_outputs
        if output == 0:
            grad, hess = gradients(scores)
        nodes = np.flatnonzero(tree.feature < 0)
        own = leaves[:, number]
        total, weight = (np.bincount(own, each[output], minlength=len(nodes)) for each in (grad, hess))
        step = -np.sign(total) * np.maximum(np.abs(total) - l1, 0.0) / np.maximum(weight + l2, 1e-15)
        has_rows = np.bincount(own, minlength=len(nodes)) > 0
        value = np.array(tree.value)
        old = value[nodes, 0]
        value[nodes, 0] = np.where(has_rows, decay * old + (1 - decay) * shrinkage * step, old)
        scores[output] += value[nodes, 0][own]
        trees.append(replace(tree, value=value))
    return replace(model, trees=tuple(trees))
