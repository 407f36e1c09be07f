"""Parameters: one table says what each means and allows; checks, errors and docs come from it.

The estimators keep what the user wrote; fit turns it into a frozen ``Params``, all that the trainer reads.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.parameters.aliases import objective_named
from pvtree.parameters.constraint_texts import sets_of, signs_of

INT64_MAX = 2**63 - 1  # kernels have no larger integers


@dataclass(frozen=True)
class Params:
    """Validated parameters of one training."""

    ensemble: str = "gbdt"  # "gbdt" | "forest"; a decision tree is a forest of one tree without bootstrap
    objective: str | Callable[..., Any] = "regression"
    n_classes: int = 1  # 1 for regression and ranking
    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31  # 0 = no limit
    max_depth: int = -1  # -1 = no limit
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    reg_alpha: float = 0.0
    reg_lambda: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    subsample_freq: int = 0
    colsample_bytree: float = 1.0
    colsample_bynode: float = 1.0
    max_bin: int = 255
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    criterion: str = "gradient"  # "gradient" | "entropy" | "variance"
    bootstrap: bool = False
    seed: int = 0  # 0 .. 2**63 - 1
    n_threads: int = 1
    verbosity: int = 1
    lambdarank_truncation_level: int = 30
    tree_learner: str = "serial"
    top_k: int | str = 20  # "auto" with exact voting
    election_size: float = 2.0
    quantized_bins: float = 0.1
    audit: int = 0  # 0 = off
    n_workers: int = 1
    packs_histograms: bool = True  # False: plain words on the wire, to compare with
    early_stopping_rounds: int = 0  # 0 = off
    monotone_constraints: tuple[int, ...] = ()  # 1, -1 or 0 of each column; () = none
    interaction_constraints: tuple[tuple[int, ...], ...] = ()  # sets of columns; () = none


@dataclass(frozen=True)
class Rule:
    """What a parameter means and which values it takes; ``allowed`` completes "<name> must be ..."."""

    meaning: str
    allowed: str
    has_type: Callable[[Any], bool]
    in_range: Callable[[Any], bool] = lambda value: True

    def check(self, name: str, value: Any) -> None:
        if not self.has_type(value):
            raise InvalidTypeError(f"{name} must be {self.allowed}, got {_shown(value)}.")
        if not self.in_range(value):
            is_whole = self.allowed.startswith("an integer") and _is_integer(value)
            below = " below 2**63" if is_whole and value > INT64_MAX else ""
            raise InvalidParameterError(f"{name} must be {self.allowed}{below}, got {_shown(value)}.")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value.bit_length() > 200:  # Python writes no integer of more than 4,300 digits
        return f"an integer of {value.bit_length()} bits"
    return textwrap.shorten(repr(value), 60, placeholder="...")


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is larger than any float
        return False


def integer(meaning: str, low: int, high: int | None = None, also: str = "") -> Rule:
    """``also`` names one value outside the range and what it stands for: "-1 for no limit"."""
    allowed = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    extra = int(also.split()[0]) if also else low
    top = INT64_MAX if high is None else high
    if also:
        allowed += f" or {also}"
    return Rule(meaning, allowed, _is_integer, lambda v: low <= v <= top or v == extra)


def positive(meaning: str) -> Rule:
    return Rule(meaning, "a finite number greater than 0", _is_real, lambda v: _is_finite(v) and v > 0)


def non_negative(meaning: str) -> Rule:
    return Rule(meaning, "a finite number of at least 0", _is_real, lambda v: _is_finite(v) and v >= 0)


def fraction(meaning: str) -> Rule:
    return Rule(meaning, "a number greater than 0 and at most 1", _is_real, lambda v: 0 < v <= 1)


def one_of(meaning: str, *names: str, note: str = "") -> Rule:
    allowed = " or ".join(repr(name) for name in names) + note
    return Rule(meaning, allowed, lambda v: isinstance(v, str), lambda v: v in names)


def optional(rule: Rule) -> Rule:
    return Rule(
        rule.meaning,
        f"{rule.allowed} or None",
        lambda v: v is None or rule.has_type(v),
        lambda v: v is None or rule.in_range(v),
    )


def objective(*names: str) -> Rule:
    """A named objective of the estimator, None for its default, or a function of the user's own."""
    allowed = " or ".join(repr(name) for name in names) + ", None, or a function f(y_true, y_pred[, weight])"
    return Rule(
        "The loss to minimise, by this name or LightGBM's or XGBoost's; a function returns (gradient, hessian) of its "
        "raw predictions.",
        allowed,
        lambda v: v is None or isinstance(v, str) or callable(v),
        lambda v: not isinstance(v, str) or objective_named(v, names) is not None,
    )


_MAX_FEATURES = Rule(
    "How many features each split may look at, drawn anew for every node.",
    "'sqrt', 'log2', an integer of at least 1, a fraction greater than 0.0 and at most 1.0, or None for all",
    lambda v: v is None or isinstance(v, str) or _is_real(v),
    lambda v: v in (None, "sqrt", "log2") or (not isinstance(v, str) and (v >= 1 if _is_integer(v) else 0 < v <= 1)),
)

_SEED = Rule(
    "The seed of every random choice, such as how gradients are rounded; None is a fixed seed as well, so that two "
    "fits always agree.",
    "an integer of at least 0, a numpy RandomState or Generator, or None",
    lambda v: v is None or _is_integer(v) or isinstance(v, np.random.RandomState | np.random.Generator),
    lambda v: not _is_integer(v) or 0 <= v < 2**63,
)

_CATEGORICAL = Rule(
    "Columns that hold categories, beside text, and no others; 'auto' for those whose type says so, None for none.",
    "'auto', None, or a list of column indices or names",
    lambda v: v is None or isinstance(v, str) or _is_list_of_columns(v),
    lambda v: not isinstance(v, str) or v == "auto",
)


def _is_list_of_columns(value: Any) -> bool:
    return (
        isinstance(value, list | tuple | np.ndarray)
        and getattr(value, "ndim", 1) > 0
        and all(_is_integer(v) or isinstance(v, str) for v in value)
    )


_MONOTONE = Rule(
    "1 for columns that predictions may only rise with, -1 for those that they may only fall with, 0 for others.",
    "a list of 1, -1 or 0 for each column, a dict of these by column index or name, a text like '(1,0,-1)', or None",
    lambda v: (
        v is None
        or isinstance(v, str)
        or (_is_list_of_columns([*v] if isinstance(v, Mapping) else v) and _are_integers(_signs(v)))
    ),
    lambda v: v is None or all(sign in (-1, 0, 1) for sign in _signs(_read(v, signs_of, [None]))),
)

_INTERACTIONS = Rule(
    "Sets of columns that may meet: all splits above a leaf are by columns of one set. Columns in no set are not used.",
    "a list of lists of column indices or names, none of them empty, a text like '[0,1],[2]', or None",
    lambda v: v is None or isinstance(v, str) or (isinstance(v, list | tuple) and all(map(_is_list_of_columns, v))),
    lambda v: v is None or all(len(columns) > 0 for columns in _read(v, sets_of, [[]])),
)


def _read(given: Any, parse: Callable[[str], Any], wrong: Any) -> Any:
    """A text as what it stands for, or as something that is out of range."""
    if not isinstance(given, str):
        return given
    try:
        return parse(given)
    except ValueError:
        return wrong


def _are_integers(values: list[Any]) -> bool:
    return all(map(_is_integer, values))


def _signs(given: Any) -> list[Any]:
    return list(given.values() if isinstance(given, Mapping) else given)


TREE_LEARNERS = ("auto", "serial", "voting", "exact_voting", "data", "quantized", "attribute", "feature")
SEPARATE_LEARNERS = ("svore", "yu")  # make iterations of boosting of whole trees that workers grow alone
PARTITION_LEARNERS = ("voting", *SEPARATE_LEARNERS)  # make other trees where rows are spread in another way

RULES: dict[str, Rule] = {
    "n_estimators": integer("The number of boosting iterations, or of a forest's trees.", 1),
    "learning_rate": positive("How much of each tree is added to the model."),
    "num_leaves": integer("The largest number of leaves of a tree.", 2, also="-1 for no limit"),
    "max_depth": integer("The largest number of splits above a leaf.", 1, also="-1 for no limit"),
    "min_child_samples": integer("The least number of rows in a leaf.", 1),
    "min_child_weight": non_negative("The least sum of hessians in a leaf; in forests, of row weights."),
    "reg_alpha": non_negative("L1 regularisation of leaf values."),
    "reg_lambda": non_negative("L2 regularisation of leaf values."),
    "min_split_gain": non_negative("The least gain that a split must bring."),
    "subsample": fraction("The fraction of rows drawn without replacement every subsample_freq iterations."),
    "subsample_freq": integer("How many iterations one draw of rows serves; 0 turns subsample off.", 0),
    "colsample_bytree": fraction("The fraction of features drawn for each tree."),
    "colsample_bynode": fraction("The fraction of features drawn for each node."),
    "max_bin": integer("The largest number of bins of a feature, beside the bin of missing values.", 2, 255),
    "criterion": one_of("The gain that a split must bring.", "entropy", "variance"),
    "max_features": _MAX_FEATURES,
    "bootstrap": Rule(
        "Whether each tree is grown on rows drawn with replacement.",
        "True or False",
        lambda v: isinstance(v, bool | np.bool_),
    ),
    "objective": objective("regression", "binary", "multiclass", "lambdarank"),
    "eval_metric": Rule(
        "What is measured on eval_set, with the eval_metric of fit before it; None for the objective's own metric.",
        "a metric's name, a function, a list of these, or None",
        lambda v: v is None or isinstance(v, str | list | tuple) or callable(v),
    ),
    "random_state": _SEED,
    "n_jobs": Rule(
        "The number of threads; None and -1 are all cores, -2 all but one.",
        "an integer other than 0 or None",
        lambda v: v is None or _is_integer(v),
        lambda v: v != 0,
    ),
    "verbosity": integer("How much is printed: below 1 nothing but warnings.", -1),
    "early_stopping_rounds": optional(
        integer("Stop when an evaluation metric has not improved for so many iterations.", 1)
    ),
    "categorical_feature": _CATEGORICAL,
    "monotone_constraints": _MONOTONE,
    "interaction_constraints": _INTERACTIONS,
    "importance_type": one_of(
        "What feature_importances_ counts: the splits on a feature or their gains.", "split", "gain"
    ),
    "lambdarank_truncation_level": integer("Pairs with a document above this rank are learnt from.", 1),
    "tree_learner": one_of(
        "How workers find splits together: alone, by voting (PV-Tree, or with a proof that makes it exact), or by the "
        "baselines of its paper. 'auto' is 'serial' on one worker and 'exact_voting' on several, which give the same "
        "model; with svore and yu workers grow trees of their own, whose best or mean is added.",
        *TREE_LEARNERS,
        *SEPARATE_LEARNERS,
    ),
    "n_workers": integer("The number of virtual machines that share the data; serial needs one.", 1, 1024),
    "top_k": Rule(
        "How many features each worker votes for, with tree_learner='voting' or 'exact_voting'.",
        "an integer of at least 1, or with tree_learner='exact_voting' also 'auto' for what sends the fewest bytes",
        lambda v: _is_integer(v) or isinstance(v, str),
        lambda v: v == "auto" if isinstance(v, str) else v >= 1,
    ),
    "audit": integer(
        "With tree_learner='voting': every so many trees, count the splits that are proven best; 0 for never.", 0
    ),
    "election_size": Rule(
        "How many times top_k features are elected, with tree_learner='voting' or 'exact_voting'.",
        "a finite number of at least 1",
        _is_real,
        lambda v: _is_finite(v) and v >= 1,
    ),
    "quantized_bins": fraction("The share of the bins that is exchanged, with tree_learner='quantized'."),
}


def check_values(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    for name, value in values.items():
        if name in rules:
            rules[name].check(name, value)


def parameter_docs(init: Callable[..., Any], rules: Mapping[str, Rule]) -> str:
    """The "Parameters" section of a docstring, from a constructor's signature and the table."""
    lines = ["Parameters", "----------"]
    for parameter in inspect.signature(init).parameters.values():
        if parameter.name in rules:
            rule = rules[parameter.name]
            lines.append(f"{parameter.name} : {rule.allowed}, default={parameter.default!r}")
            # An attribute's name ends with _, which Sphinx would take for a link.
            lines.append("    " + re.sub(r"\b\w+_(?!\w)", r"``\g<0>``", rule.meaning))
    return "\n".join(lines)


def make_params(values: Mapping[str, Any], n_features: int, **settled: Any) -> Params:
    """Params from an estimator's checked parameters; ``settled`` are the fields that the data decides."""
    known = {field.name for field in fields(Params)}
    chosen = {name: value for name, value in values.items() if name in known} | settled
    chosen["tree_learner"] = learner_for(chosen.get("tree_learner", "serial"), chosen.get("n_workers", 1))
    if chosen["tree_learner"] == "serial":
        chosen["n_workers"] = 1
    if chosen.get("num_leaves") == -1:
        chosen["num_leaves"] = 0
    chosen["early_stopping_rounds"] = chosen.get("early_stopping_rounds") or 0
    for name in ("monotone_constraints", "interaction_constraints"):  # by name and index: only the data settles them
        chosen[name] = settled.get(name, ())
    chosen["seed"] = _seed(values.get("random_state"))
    chosen["n_threads"] = n_threads(values.get("n_jobs"))
    if "max_features" in values:
        chosen["colsample_bynode"] = _n_split_features(values["max_features"], n_features) / n_features
    return Params(**{name: plain(value) for name, value in chosen.items()})


def learner_for(tree_learner: str, n_workers: int) -> str:
    """The strategy that a value of ``tree_learner`` stands for on so many workers (docs/adr/0022)."""
    if tree_learner == "feature":  # LightGBM's word
        return "attribute"
    if tree_learner == "auto":
        return "exact_voting" if n_workers > 1 else "serial"
    return tree_learner


def refuse_serial(tree_learner: str, n_workers: int) -> None:
    """Who asks for one worker does not get several."""
    if tree_learner == "serial" and n_workers > 1:
        raise InvalidParameterError(
            f"tree_learner='serial' trains on one worker, but there are {n_workers}; leave tree_learner out for the "
            "model of one machine, or use 'voting' for the least traffic."
        )


def plain(value: Any) -> Any:
    """numpy scalars become Python's: they would travel into model files and kernel signatures otherwise."""
    return value.item() if isinstance(value, np.generic) else value


def _n_split_features(max_features: Any, n_features: int) -> int:
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        root = math.sqrt(n_features) if max_features == "sqrt" else math.log2(n_features)
        return max(1, int(root))
    if not _is_integer(max_features):
        return max(1, int(max_features * n_features))
    if max_features > n_features:
        raise InvalidParameterError(
            f"max_features must be at most the number of columns of X, {n_features}, got {max_features}."
        )
    return int(max_features)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return 0 if random_state is None else int(random_state)


def n_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: the cores that this process may use."""
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    import joblib  # a dependency of scikit-learn; knows affinity masks and container limits

    n_cores: int = joblib.cpu_count()
    return n_cores if n_jobs is None else max(1, n_cores + 1 + int(n_jobs))
