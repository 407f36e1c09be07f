"""The first section: what was trained, how well it does, how long it took and how to use it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from inspect import signature
from typing import Any

from pvtree.comm.traffic import format_bytes
from pvtree.front.report.intervals import estimates
from pvtree.front.report.page import Section
from pvtree.front.report.subject import Subject

USE = """import pvtree

model = pvtree.load("model.json")  # after estimator.save("model.json")
model.predict(X)"""
KINDS = {"gbdt": "gradient boosting", "forest": "random forest"}


def section(subject: Subject) -> Section:
    estimator, model = subject.estimator, subject.model
    found = Section("summary", "Summary")
    leaves = [tree.n_leaves for tree in model.trees]
    facts: list[tuple[str, object]] = [
        ("Estimator", type(estimator).__name__),
        ("Task", f"{model.objective}, {KINDS[model.ensemble]}"),
        ("Trained on", f"{trained_rows(subject):,} rows, {model.n_features:,} columns"),
        ("Trees", f"{len(model.trees):,} with up to {max(leaves, default=0):,} leaves"),
    ]
    if subject.classes:
        facts.insert(2, ("Classes", ", ".join(subject.classes)))
    if estimator.best_iteration_:
        facts.append(("Best iteration", estimator.best_iteration_))
    if estimator.timings_:
        facts.append(("Time", ", ".join(f"{seconds:.2f} s {step}" for step, seconds in estimator.timings_.items())))
    facts += how(estimator)
    facts += [
        ("Versions", f"pvtree {version('pvtree')}, Python {platform.python_version()}"),
        ("SHA-256 of the model", hashlib.sha256(model.to_json().encode()).hexdigest()),
    ]
    found.facts(facts)
    if subject.rows is not None:
        rows = [(each.name, each.value, f"{each.low:.4g} to {each.high:.4g}") for each in estimates(subject)]
        found.table(["metric", "value", "95 % interval"], rows, f"On the {len(subject.rows):,} rows of this report.")
    if changed := changed_parameters(estimator):
        found.heading("Parameters that differ from the defaults")
        found.facts([(name, repr(value)) for name, value in changed.items()])
    found.heading("Use the model")
    found.code(USE)
    return found


def how(estimator: Any) -> list[tuple[str, object]]:
    """The strategy and the workers, where several trained."""
    traffic = getattr(estimator, "traffic_", None)
    if traffic is None or traffic.n_workers == 1:
        return []
    return [
        ("Strategy", estimator.tree_learner),
        ("Workers", traffic.n_workers),
        ("Sent", f"{format_bytes(traffic.bytes_per_tree)} per worker and tree"),
    ]


def trained_rows(subject: Subject) -> int:
    return max((int(tree.count[0]) for tree in subject.model.trees), default=0)


def changed_parameters(estimator: Any) -> Mapping[str, Any]:
    """Constructor arguments that are not the defaults."""
    defaults = {name: each.default for name, each in signature(type(estimator)).parameters.items()}
    return {
        name: value
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in defaults or repr(value) != repr(defaults[name])
    }
