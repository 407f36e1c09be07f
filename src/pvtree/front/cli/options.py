"""The options of ``pvtree train`` for the estimators' parameters, made from their constructors and rules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from pvtree.front.cli.columns import ColumnSets, Signs

TASKS = ("classification", "regression", "ranking")
ENSEMBLES = ("gbdt", "forest", "tree")
ESTIMATORS = {
    ("classification", "gbdt"): "GBDTClassifier",
    ("regression", "gbdt"): "GBDTRegressor",
    ("ranking", "gbdt"): "GBDTRanker",
    ("classification", "forest"): "RandomForestClassifier",
    ("regression", "forest"): "RandomForestRegressor",
    ("classification", "tree"): "DecisionTreeClassifier",
    ("regression", "tree"): "DecisionTreeRegressor",
}


class NumberOrWord(click.ParamType):
    """A number, or a word that the parameter's rule checks later."""

    name = "value"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        return value


class NumbersOrBalanced(click.ParamType):
    """Numbers separated by commas, or the word 'balanced', about which the estimator decides."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value == "balanced":
            return value
        try:
            return [int(number) if number.strip().isdigit() else float(number) for number in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers; separate them by commas, such as 1,2.5.", param, ctx)


TYPES = {
    "int": click.INT, "int | None": click.INT, "float": click.FLOAT, "float | None": click.FLOAT, "str": click.STRING,
    "bool": click.BOOL,
}  # fmt: skip
SPECIAL = {
    "max_features": NumberOrWord(),
    "top_k": NumberOrWord(),
    "ballot_rows": NumberOrWord(),
    "random_state": click.INT,
    "objective": click.STRING,
    "class_weight": NumbersOrBalanced(),
    "label_gain": NumbersOrBalanced(),
    **dict.fromkeys(("feature_contri", "cegb_penalty_feature_coupled", "max_bin_by_feature"), NumbersOrBalanced()),
    "monotone_constraints": Signs(),
    "interaction_constraints": ColumnSets(),
}
# What a parameter accepts on the command line, if that is less than in Python.
ALLOWED = {
    "categorical_feature": "auto, names or numbers of columns separated by commas, or nothing for none",
    "monotone_constraints": "a sign for each column, such as 1,-1,0, or for some, such as age:1,3:-1",
    "interaction_constraints": "sets of names or numbers of columns, such as 0,1;2,3",
    "objective": "the name of an objective",
    "class_weight": "balanced, or a number greater than 0 for each class in ascending order, such as 1,2.5",
    "label_gain": "2 to 31 numbers of at least 0 that do not fall, such as 0,1,3,7",
    **dict.fromkeys(
        ("feature_contri", "cegb_penalty_feature_coupled"), "a number of at least 0 for each column, such as 1,0.5"
    ),
    "max_bin_by_feature": "an integer from 2 to 255 for each column, such as 255,16",
    "random_state": "an integer of at least 0",
    "max_features": "sqrt, log2, none, an integer of at least 1, or a fraction such as 0.5",
}


def parameter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for every parameter of every estimator; None means that it was not given."""
    for name, parameter in reversed(all_parameters().items()):
        command = make_option(name, parameter)(command)
    return command


def make_option(name: str, parameter: inspect.Parameter) -> Callable[..., Any]:
    from pvtree.parameters.rules import RULES

    rule, flag = RULES[name], f"--{name.replace('_', '-')}"
    allowed, default = ALLOWED.get(name, rule.allowed), default_text(name)
    if parameter.annotation == "bool":
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, help=f"{rule.meaning} Default: {default}.")
    text = f"{rule.meaning} Allowed: {allowed}. Default: {default}."
    names = ("--workers", flag) if name == "n_workers" else (flag,)
    kind = SPECIAL.get(name) or TYPES.get(str(parameter.annotation), click.STRING)
    known = re.findall(r"'(\w+)'", rule.allowed)

    def complete(_ctx: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return click.option(*names, name, type=kind, default=None, help=text, shell_complete=complete)


def all_parameters() -> dict[str, inspect.Parameter]:
    found: dict[str, inspect.Parameter] = {}
    for estimator in ESTIMATORS.values():
        for name, parameter in parameters_of(estimator).items():
            if name != "eval_metric":  # train has its own option, which may be repeated
                found.setdefault(name, parameter)
    return found


def parameters_of(estimator: str) -> dict[str, inspect.Parameter]:
    from pvtree.front import estimators

    signature = inspect.signature(getattr(estimators, estimator).__init__)
    return {name: parameter for name, parameter in signature.parameters.items() if name != "self"}


def default_text(name: str) -> str:
    """The default; if estimators differ, the default of each."""
    defaults = {
        of: str(parameters[name].default)
        for of, parameters in ((of, parameters_of(estimator)) for of, estimator in ESTIMATORS.items())
        if name in parameters
    }
    used_by: dict[str, list[str]] = {}
    for (task, ensemble), default in defaults.items():
        is_common = len({other for (_, kind), other in defaults.items() if kind == ensemble}) == 1
        label = ensemble if is_common else f"{task} {ensemble}"
        labels = used_by.setdefault(default, [])
        labels.extend([label] * (label not in labels))
    if len(used_by) == 1:
        return next(iter(used_by))
    return ", ".join(f"{default} ({' or '.join(labels)})" for default, labels in used_by.items())


def estimator_class(task: str, ensemble: str, given: Mapping[str, Any]) -> type:
    """The estimator for a task. Raise if a given parameter is not its own."""
    from pvtree.front import estimators

    if (task, ensemble) not in ESTIMATORS:
        raise click.UsageError(f"--task {task} does not support --ensemble {ensemble}; use --ensemble gbdt.")
    estimator = ESTIMATORS[task, ensemble]
    for name in given:
        if name not in parameters_of(estimator):
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} does not apply to --task {task} --ensemble {ensemble}; leave it out.")
    kind: type = getattr(estimators, estimator)
    return kind


def python_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the estimator's constructor."""
    values = dict(given)
    if values.get("max_features") == "none":
        values["max_features"] = None
    if "categorical_feature" in values and values["categorical_feature"] != "auto":
        listed = [column.strip() for column in values["categorical_feature"].split(",") if column.strip()]
        values["categorical_feature"] = [int(column) if column.isdigit() else column for column in listed]
    return values
