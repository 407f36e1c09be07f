"""What an engine's driver sends to its workers: the estimator and the options of fit, free of what stays behind."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pvtree.front.estimators.eval_arguments import EvalArguments
from pvtree.front.scikit_learn import clone
from pvtree.parameters.params import make_params

if TYPE_CHECKING:
    from pvtree.front.estimators.fit import Fitting
    from pvtree.front.estimators.fit_options import FitOptions


def sendable(estimator: Fitting, options: FitOptions) -> tuple[Any, FitOptions]:
    """An estimator that is not fitted, and checked options without rows and connections."""
    unfitted = clone(estimator)
    # The user's generator advances here, once per fit as in memory, and not in copies on the workers.
    unfitted.set_params(random_state=make_params({"random_state": estimator.random_state}, n_features=1).seed)
    asked = options.evaluation
    return unfitted, replace(
        options,
        evaluation=EvalArguments(
            eval_metric=asked.eval_metric, eval_at=asked.eval_at, eval_class_weight=asked.eval_class_weight
        ),
        client=None,
        # Workers may run in another folder.
        checkpoint=None if options.checkpoint is None else os.path.abspath(os.fsdecode(options.checkpoint)),
    )
