"""XGBoost's global settings, and a Booster's parameters in the form of XGBoost's ``save_config``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pvtree.as_xgboost.results import METRIC_NAMES
from pvtree.errors import InvalidParameterError
from pvtree.front.estimators.eval_arguments import listed_metrics

if TYPE_CHECKING:
    from pvtree.model.model import Model

KIND = "scikit_learn"  # the attribute of XGBoost's files that names the kind of estimator
_SETTINGS: dict[str, Any] = {"verbosity": 1, "use_rmm": False, "nthread": 0}


def set_config(**new_config: Any) -> None:
    """Change global settings. They are kept for scripts that set them and have no effect here."""
    for name in new_config:
        if name not in _SETTINGS:
            raise InvalidParameterError(f"{name} is no global setting; use one of {', '.join(_SETTINGS)}.")
    _SETTINGS.update(new_config)


def get_config() -> dict[str, Any]:
    """The global settings."""
    return dict(_SETTINGS)


@contextmanager
def config_context(**new_config: Any) -> Iterator[None]:
    """Change global settings within a ``with`` block."""
    before = get_config()
    set_config(**new_config)
    try:
        yield
    finally:
        _SETTINGS.update(before)


def build_info() -> dict[str, Any]:
    """How the library was built: without GPUs."""
    return {"USE_CUDA": False, "USE_NCCL": False, "USE_OPENMP": False, "USE_RMM": False, "DEBUG": False}


def saved_kind(text: str | None) -> str | None:
    """Whether a classifier, a regressor or a ranker saved the model; None if a Booster did."""
    try:
        kind = json.loads(text or "null")["_estimator_type"]
    except (ValueError, TypeError, KeyError):
        return None
    return kind if kind in ("classifier", "regressor", "ranker") else None


def other_methods(params: Mapping[str, Any]) -> list[str]:
    """What to say about ways of growing trees that are not here."""
    method, updater = params.get("tree_method"), params.get("updater")
    return [
        f"{name}={value!r} is taken as 'hist', which is the only one here."
        for name, value in (("tree_method", method), ("updater", updater))
        if value is not None and value not in ("hist", "auto", "grow_quantile_histmaker")
    ]


def described(params: Mapping[str, Any], model: Model | None) -> dict[str, Any]:
    """The learner's part of ``save_config``: those entries of XGBoost's that have a meaning here, as texts."""
    texts = {name: str(value) for name, value in params.items() if not callable(value) and value is not None}
    threads = next((texts[name] for name in ("nthread", "n_jobs", "num_threads") if name in texts), "0")
    n_outputs = 1 if model is None else model.n_outputs
    n_classes = str(n_outputs) if model is not None and model.objective == "multiclass" else "0"
    return {
        "generic_param": {"device": "cpu", "nthread": threads, "seed": texts.get("seed", "0")},
        "gradient_booster": {
            "name": "gbtree",
            "gbtree_model_param": {
                "num_parallel_tree": str(1 if model is None else model.n_parallel_trees),
                "num_trees": str(0 if model is None else len(model.trees)),
            },
            "gbtree_train_param": {"tree_method": texts.get("tree_method", "auto"), "process_type": "default"},
            "tree_train_param": {"interaction_constraints": "", "monotone_constraints": "()"} | texts,
        },
        "learner_model_param": {
            "base_score": "0.5" if model is None else _base(model),
            "num_class": n_classes,
            "num_feature": str(0 if model is None else model.n_features),
            "num_target": "1",
        },
        "metrics": [
            {"name": METRIC_NAMES.get(name, name)}
            for name in listed_metrics(params.get("eval_metric")) or ()
            if isinstance(name, str)
        ],
        "objective": {"name": texts.get("objective", "" if model is None else model.objective)},
    }


def _base(model: Model) -> str:
    from pvtree.objectives.losses import predictions

    base = predictions(model.objective, model.init_score[None, :]).ravel()
    return f"{float(base[-1]):.9g}"
