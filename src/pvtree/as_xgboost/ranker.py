"""XGBoost's ranker: queries may be a column of X, and weights may belong to queries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pvtree.as_xgboost.estimators import XGBModel
from pvtree.errors import InvalidDataError
from pvtree.front.estimators import GBDTRanker
from pvtree.front.estimators.eval_arguments import one_each, paired, set_pairs
from pvtree.reading.tables import Table
from pvtree.reading.targets import read_queries


class XGBRanker(XGBModel, GBDTRanker):  # type: ignore[misc]
    """``GBDTRanker`` with XGBoost's defaults."""

    _estimator_type = "ranker"

    def _hessian_scale(self, n_classes: int) -> float:
        return 0.5

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
        eval_at: Any = (32,),
        **arguments: Any,
    ) -> Self:
        """Fit with XGBoost's arguments.

        Parameters
        ----------
        X, y
            The training rows. A column ``qid`` of X holds the query ids.
        group, qid
            The queries, as in ``GBDTRanker.fit``, if X has no such column.
        eval_set, eval_group, eval_qid
            The sets to evaluate and their queries.
        eval_at : list of int, default=(32,)
            The ranks at which NDCG is measured. At least 1.
        **arguments
            Other arguments of ``XGBRegressor.fit``.
        """
        X, qid = _with_queries(X, group, qid, "X")
        if arguments.get("sample_weight") is not None:
            arguments["sample_weight"] = of_rows(arguments["sample_weight"], group, qid, len(np.asarray(y)))
        pairs = set_pairs(paired(eval_set, arguments.pop("eval_X", None), arguments.pop("eval_y", None)))
        if any(_has_queries(X_eval) for X_eval, _ in pairs):
            groups = one_each(eval_group, len(pairs), "eval_group")
            qids = one_each(eval_qid, len(pairs), "eval_qid")
            split = [
                _with_queries(X_eval, groups[i], qids[i], f"X of eval_set {i}") for i, (X_eval, _) in enumerate(pairs)
            ]
            pairs = [(X_eval, y_eval) for (X_eval, _), (_, y_eval) in zip(split, pairs, strict=True)]
            eval_qid = [queries for _, queries in split]
        if (weights := arguments.get("sample_weight_eval_set")) is not None and len(weights) == len(pairs):
            sizes, ids = one_each(eval_group, len(pairs), "eval_group"), one_each(eval_qid, len(pairs), "eval_qid")
            arguments["sample_weight_eval_set"] = [
                None if weight is None else of_rows(weight, sizes[i], ids[i], len(np.asarray(pairs[i][1])))
                for i, weight in enumerate(weights)
            ]
        return super().fit(
            X, y, group=group, qid=qid, eval_set=pairs or None, eval_group=eval_group, eval_qid=eval_qid,
            eval_at=eval_at, **arguments,
        )  # fmt: skip

    def score(self, X: Any, y: Any) -> float:
        """The last metric of ``eval_metric``, or NDCG, of ``predict(X)``.

        The column ``qid`` of X holds the queries; all rows are one query without it.
        """
        from pvtree.objectives.metrics import get_metric

        last = (self._own_metrics() or ["ndcg"])[-1]
        if callable(last):
            return float(last(np.asarray(y), self.predict(X))[1])
        n_rows = len(np.asarray(y))
        qid = np.asarray(X["qid"]) if _has_queries(X) else np.zeros(n_rows, np.int64)
        queries = read_queries(None, qid, n_rows)
        sizes = np.array([n_rows]) if queries is None else queries.sizes
        metric = get_metric(f"{last}@32" if last in ("ndcg", "map", "pre") else last, self._task(2))
        return float(metric(np.asarray(y, np.float64), np.ascontiguousarray(self._raw(X).T), None, sizes))

    def _features(self, X: Any) -> Any:
        """Drop the column of query ids, which is not a feature. X may come with it or without."""
        is_feature = "qid" in (self.model_.feature_names or ())
        return _without_queries(X) if _has_queries(X) and not is_feature else X


def of_rows(weight: Any, group: Any, qid: Any, n_rows: int) -> Any:
    """XGBoost's weights of queries, one for each row; weights of rows stay."""
    if len(weight) == n_rows or (group is None and qid is None):
        return weight
    queries = read_queries(group, qid, n_rows)
    sizes = None if queries is None else queries.sizes
    return np.repeat(np.asarray(weight), sizes) if sizes is not None and len(sizes) == len(weight) else weight


def _has_queries(X: Any) -> bool:
    """Whether a table of pandas, Dask, polars or Arrow has a column qid. Arrow's ``columns`` are values, not names."""
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return not isinstance(X, Table) and names is not None and "qid" in list(names)


def _without_queries(X: Any) -> Any:
    if hasattr(X, "drop_columns"):
        return X.drop_columns(["qid"])
    return X.drop(columns="qid") if hasattr(X, "iloc") else X.drop("qid")


def _with_queries(X: Any, group: Any, qid: Any, what: str) -> tuple[Any, Any]:
    """X without the column of query ids, and the query ids."""
    if not _has_queries(X):
        return X, qid
    if group is not None or qid is not None:
        raise InvalidDataError(
            f"The column 'qid' of {what} already holds the queries; drop that column, or leave out group and qid."
        )
    return _without_queries(X), X["qid"]
