"""A trained ensemble as immutable data: training makes it, prediction runs it, and files hold it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, public
from pvtree.model.labels import Scalar, plain_labels
from pvtree.model.predictor import Predictor, Rows, as_rows, team_for
from pvtree.model.tree import Tree
from pvtree.reading.tables import Columns
from pvtree.reading.zeros import zeros_as_missing

if TYPE_CHECKING:
    from pvtree.model.contributions import Explainer


@public
@dataclass(frozen=True, eq=False)
class Model:
    """A trained ensemble.

    Its methods take categorical columns of X as bin numbers, which ``encode`` makes. Missing and unseen categories
    are 0 or NaN.
    """

    trees: tuple[Tree, ...]  # with one value per leaf, tree t adds to output t % n_outputs, otherwise to all
    objective: str  # "custom" for callables
    ensemble: str  # "gbdt": sum of the trees; "forest": their mean
    n_features: int
    n_outputs: int
    init_score: np.ndarray  # float64 (n_outputs,)
    feature_names: tuple[str, ...] | None = None
    classes: tuple[Scalar, ...] | None = None
    # By feature: bin b stands for categories[feature][b - 1].
    categories: Mapping[int, tuple[Scalar, ...]] = field(default_factory=dict)
    n_parallel_trees: int = 1  # of a gbdt: trees that an iteration adds to each output
    zero_as_missing: bool = False  # whether numbers that are 0 count as missing
    target_sizes: tuple[int, ...] = ()  # of a forest for several columns of classes: how many classes each has

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        init_score = np.array(self.init_score, np.float64).reshape(-1)
        init_score.flags.writeable = False
        put("init_score", init_score)
        put("trees", tuple(self.trees))
        put("n_features", int(self.n_features))
        put("n_outputs", int(self.n_outputs))
        put("n_parallel_trees", int(self.n_parallel_trees))
        if self.feature_names is not None:
            put("feature_names", tuple(map(str, self.feature_names)))
        if self.classes is not None:
            put("classes", plain_labels(self.classes))
        put("categories", {int(f): plain_labels(self.categories[f]) for f in sorted(self.categories)})

    @property
    def trees_per_iteration(self) -> int:
        if self.ensemble == "gbdt":
            return self.n_outputs * self.n_parallel_trees
        return self.n_outputs // self.trees[0].n_values if self.trees else 1

    @property
    def n_iterations(self) -> int:
        return len(self.trees) // self.trees_per_iteration

    def predict_raw(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> np.ndarray:
        """Raw scores: the initial score plus the sum (gbdt) or the mean (forest) of the trees.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
            Rows with categories as bin numbers, as ``encode`` gives them.
        n_iterations : int or None, default=None
            The number of iterations to use; None for all. Must be at least 0.
        start : int, default=0
            The first iteration to use; a negative number means 0.
        n_threads : int, default=1
            The number of threads. Must be at least 1.

        Returns
        -------
        ndarray of float64, shape (n, n_outputs)
            In boosting, only a range that starts at iteration 0 includes the initial score, so the scores of
            consecutive ranges add up to those of all iterations.
        """
        X = self._rows(X)
        first, end = self._tree_range(n_iterations, start)
        scores = self._first_scores(len(X), start)
        with team_for(len(X), end - first, n_threads) as team:
            self._predictor.add_outputs(X, scores, first, end, team)
        return self._result(scores, end - first)

    def add_trees(self, X: Any, scores: np.ndarray, n_threads: int = 1) -> None:
        """Add the outputs of all trees of a gbdt to ``scores``, float64 (n_outputs, n), one tree after the other."""
        X = self._rows(X)
        with team_for(len(X), len(self.trees), n_threads) as team:
            self._predictor.add_outputs(X, scores, 0, len(self.trees), team)

    def staged_raw(
        self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1
    ) -> Iterator[np.ndarray]:
        """Yield what ``predict_raw`` returns after 1, 2, ... iterations; parameters as of ``predict_raw``."""
        X = self._rows(X)
        first, end = self._tree_range(n_iterations, start)
        return self._stages(X, first, end, self._first_scores(len(X), start), n_threads)

    def _stages(self, X: Rows, first: int, end: int, scores: np.ndarray, n_threads: int) -> Iterator[np.ndarray]:
        step = self.trees_per_iteration
        with team_for(len(X), step, n_threads) as team:
            for tree in range(first, end, step):
                self._predictor.add_outputs(X, scores, tree, tree + step, team)
                yield self._result(scores.copy(), tree + step - first)

    def predict_leaf(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> np.ndarray:
        """The leaf of each row in each tree, int32 (n, n_trees): its number among the tree's leaves in level order.

        Parameters are those of ``predict_raw``.
        """
        X = self._rows(X)
        first, end = self._tree_range(n_iterations, start)
        with team_for(len(X), end - first, n_threads) as team:
            return self._predictor.leaves(X, first, end, team)

    def predict_contrib(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> Any:
        """SHAP values, float64 (n, n_outputs * (n_features + 1)); parameters as of ``predict_raw``.

        For each output they are every feature's contribution to the raw score of a row, then the expected score of a
        training row. They sum to ``predict_raw``. A sparse X gives a sparse matrix, CSC if X is CSC and CSR otherwise;
        with several outputs, a list of these.
        """
        from pvtree.model.contributions import contributions

        X = self._rows(X)
        first, end = self._tree_range(n_iterations, start)
        return contributions(self, X, first, end, n_threads, self._base(start))

    def encode(self, X: Any) -> Any:
        """Turn an X that estimators accept into what the methods here take.

        Parameters
        ----------
        X : array-like, DataFrame, Arrow table or sparse matrix
            Rows with the columns that the model was trained on.

        Returns
        -------
        ndarray or sparse rows
            The same rows, with categories as bin numbers.
        """
        from pvtree.reading.inputs import read_like

        return read_like(X, self.columns, "The model")

    @property
    def columns(self) -> Columns:
        """The columns that X must have."""
        return Columns(self.n_features, self.feature_names, self.categories)

    def ordered_categories(self) -> frozenset[int]:
        """The categorical features whose bins the trees compare with thresholds."""
        features: set[int] = set()
        for tree in self.trees if self.categories else ():
            features.update(np.unique(tree.feature[(tree.feature >= 0) & (tree.cat_set < 0)]).tolist())
        return frozenset(features & self.categories.keys())

    def column_name(self, feature: int, unnamed: str = "Column_{}") -> str:
        """A feature's name, or its number in the form ``unnamed`` if the columns have no names."""
        return unnamed.format(feature) if self.feature_names is None else self.feature_names[feature]

    def column_names(self, unnamed: str = "Column_{}") -> list[str]:
        return [self.column_name(feature, unnamed) for feature in range(self.n_features)]

    def feature_importance(self, kind: str = "split") -> np.ndarray:
        """The importance of each feature, float64 (n_features,).

        Parameters
        ----------
        kind : {"split", "gain"}, default="split"
            The number of splits on a feature, or the sum of their gains.
        """
        if kind not in ("split", "gain"):
            raise InvalidParameterError(
                f'importance kind {kind!r} is unknown; use "split" for the number of splits '
                'or "gain" for the sum of their gains.'
            )
        importance = np.zeros(self.n_features)
        for tree in self.trees:
            inner = tree.feature >= 0
            weights = tree.gain[inner] if kind == "gain" else None
            features, place = np.unique(tree.feature[inner], return_inverse=True)
            importance[features] += np.bincount(place, weights, minlength=len(features))
        return importance

    def tree_text(self, number: int) -> str:
        """Tree ``number`` as text, a line per node, indented by its depth; the first tree is 0."""
        from pvtree.model.tree_text import tree_text

        return tree_text(self, number)

    # The file formats are imported inside methods: they build models, so they depend on this module.
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; the file at ``path`` is replaced in one step or left as it was.

        Parameters
        ----------
        path : str or path-like
            A name that ends with .pvtree gives a binary file, which is smaller and is loaded much faster. Any other
            name gives JSON. Both hold the model to the last bit.
        """
        from pvtree.model import binary_file, json_file

        is_binary = os.fspath(path).endswith(binary_file.SUFFIX)
        (binary_file if is_binary else json_file).write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read a file that ``save`` wrote; anything else raises a ModelFileError.

        The numbers of a binary file are mapped into memory, so do not change it while the model is in use; ``save``
        may replace it.
        """
        from pvtree.model import binary_file, json_file

        return binary_file.read(path) if binary_file.is_binary(path) else json_file.read(path)

    def export_lightgbm(self, path: str | os.PathLike[str], average_output: bool = True) -> None:
        """Write LightGBM's text model: ``lightgbm.Booster(model_file=path)`` predicts what this model predicts.

        LightGBM takes categorical columns as bin numbers, as ``predict_raw`` does; ``encode`` makes them.

        Parameters
        ----------
        path : str or path-like
            The file to write or replace.
        average_output : bool, default=True
            How to write a forest. True marks its trees as to be averaged. Some programs ignore that mark, among them
            ONNX converters and LightGBM's own ``pred_contrib``. For these, False divides the values by the number of
            trees and writes a sum.
        """
        from pvtree.model import export_lightgbm

        export_lightgbm.write(self, path, average_output)

    @classmethod
    def from_lightgbm(cls, path: str | os.PathLike[str]) -> Model:
        """Read LightGBM's text model; one that these trees cannot express raises a ModelFileError."""
        from pvtree.model import import_lightgbm

        return import_lightgbm.read(path)

    def export_xgboost(self, path: str | os.PathLike[str]) -> None:
        """Write XGBoost's model, as UBJSON if ``path`` ends with .ubj, else as JSON; it predicts the same in float32.

        Categories and forests of classes are not supported.
        """
        from pvtree.model import export_xgboost

        export_xgboost.write(self, path)

    @classmethod
    def from_xgboost(cls, path: str | os.PathLike[str]) -> Model:
        """Read XGBoost's JSON or UBJSON model; one that these trees cannot express raises a ModelFileError."""
        from pvtree.model import import_xgboost

        return import_xgboost.read(path)

    def predict(
        self, X: Any, num_iteration: int | None = None, start_iteration: int = 0, n_threads: int = 1
    ) -> np.ndarray:
        """Classes, if the model has classes, or values; of rows as estimators accept them.

        Parameters
        ----------
        X : array-like, DataFrame, Arrow table or sparse matrix
            Rows with the columns that the model was trained on.
        num_iteration : int or None, default=None
            How many iterations to use; None, 0 and negative numbers use all.
        start_iteration : int, default=0
            The first iteration to use.
        n_threads : int, default=1
            The number of threads. Must be at least 1.
        """
        from pvtree.model.prediction_kinds import checked_range, most_probable

        asked = checked_range(start_iteration, num_iteration)
        return most_probable(self, self.predict_raw(self.encode(X), n_threads=n_threads, **asked))

    def __repr__(self) -> str:
        shape = f"{len(self.trees)} trees, {self.n_features} features"
        outputs = f", {self.n_outputs} outputs" if self.n_outputs > 1 else ""
        return f"<Model: {self.ensemble} for {self.objective}, {shape}{outputs}>"

    def to_dot(self, tree_index: int = 0, show_info: Collection[str] | None = None, precision: int = 3) -> str:
        """A tree in graphviz's DOT language.

        Parameters
        ----------
        tree_index : int, default=0
            Which tree to draw. Must be less than the number of trees.
        show_info : list of str or None, default=None
            What to write on the nodes, as in ``pvtree.plot_tree``.
        precision : int, default=3
            Digits after the decimal point. Must be at least 0.
        """
        from pvtree.model.tree_graph import draw, to_dot

        return to_dot(draw(self, tree_index, show_info, precision), f"tree {tree_index}")

    def to_json(self) -> str:
        """The text that ``save`` writes; equal models give equal texts."""
        from pvtree.model import json_file

        return json_file.dump(self)

    @classmethod
    def from_json(cls, text: str) -> Model:
        """Read a text that ``to_json`` made; anything else raises a ModelFileError."""
        from pvtree.model import json_file

        return json_file.parse_text(text, "this text")

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.trees)

    @cached_property
    def _explainer(self) -> Explainer:
        from pvtree.model.contributions import Explainer

        return Explainer(self)

    def _rows(self, X: Any) -> Rows:
        rows = as_rows(X, self.n_features)
        return zeros_as_missing(rows, self._sets_of_bins) if self.zero_as_missing else rows

    @cached_property
    def _sets_of_bins(self) -> frozenset[int]:
        """The categorical features that trees split by sets of bins."""
        return frozenset(self.categories) - self.ordered_categories()

    def _tree_range(self, n_iterations: int | None, start: int) -> tuple[int, int]:
        if n_iterations is not None and n_iterations < 0:
            raise InvalidParameterError(
                f"n_iterations={n_iterations} must not be negative; leave n_iterations=None to use all iterations."
            )
        start = min(max(start, 0), self.n_iterations)
        end = self.n_iterations if n_iterations is None else min(start + n_iterations, self.n_iterations)
        return start * self.trees_per_iteration, end * self.trees_per_iteration

    def _base(self, start: int) -> np.ndarray:
        """(n_outputs,): the scores that the trees from iteration ``start`` on are added to."""
        return self.init_score if self.ensemble == "forest" or start <= 0 else np.zeros(self.n_outputs)

    def _first_scores(self, n_rows: int, start: int) -> np.ndarray:
        """(n_outputs, n): the scores before the first tree. Boosting starts from the initial score, as training does,
        so that both give the same bits."""
        scores = np.zeros((self.n_outputs, n_rows))
        if self.ensemble == "gbdt":
            scores += self._base(start)[:, None]
        return scores

    def _result(self, scores: np.ndarray, n_trees: int) -> np.ndarray:
        if self.ensemble == "forest":
            scores /= max(1, n_trees // self.trees_per_iteration)
            scores += self.init_score[:, None]
        return np.ascontiguousarray(scores.T)

    def __eq__(self, other: object) -> bool:
        """Models are equal to the last bit, and in the types of labels and categories: True is not 1."""
        if not isinstance(other, Model):
            return NotImplemented
        return self.trees == other.trees and self._head() == other._head()

    __hash__ = None  # type: ignore[assignment]

    def _head(self) -> tuple[object, ...]:
        rest = [getattr(self, f.name) for f in fields(self) if f.name not in ("trees", "init_score")]
        return self.init_score.tobytes(), repr(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        from pvtree.model import binary_file

        if not binary_file.is_readable(self):
            return Model, tuple(getattr(self, f.name) for f in fields(self))
        return Model._from_bytes, (binary_file.dump(self),)

    @classmethod
    def _from_bytes(cls, data: bytes) -> Model:
        """A pickled model."""
        from pvtree.model import binary_file

        return binary_file.parse(np.frombuffer(data, np.uint8), "A pickled model")
