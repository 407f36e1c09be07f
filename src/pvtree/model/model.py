"""Trees and models as immutable data: what training makes, prediction runs and files hold."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError, InvalidTypeError, public
from pvtree.model.predictor import Predictor, Rows, as_rows, team_for
from pvtree.reading.tables import Columns

if TYPE_CHECKING:
    from pvtree.model.contributions import Explainer

Scalar = str | int | float | bool  # what a class label or a category may be


@public
@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in level order; a right child follows its left sibling, children come after their parents."""

    feature: np.ndarray  # int32 (n_nodes,); -1 for a leaf
    threshold: np.ndarray  # float64; x <= threshold goes left; +inf: every number left, NaN by default_left
    left_child: np.ndarray  # int32; 0 for a leaf
    default_left: np.ndarray  # uint8; where NaN goes at a numeric split
    cat_set: np.ndarray  # int32; -1 for a numeric split, else the row of cat_sets
    cat_sets: np.ndarray  # uint64 (n_cat_splits, 4); bit b: bin b goes left; bit 0: missing and unseen
    value: np.ndarray  # float64 (n_nodes, n_values); outputs of leaves, mean outputs of inner nodes
    gain: np.ndarray  # float64
    count: np.ndarray  # int64; training rows
    weight: np.ndarray  # float64; sum of hessians

    def __post_init__(self) -> None:
        for name, dtype in TREE_DTYPES.items():
            array: np.ndarray = np.ascontiguousarray(getattr(self, name), dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n_nodes(self) -> int:
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        return int(np.count_nonzero(self.feature < 0))

    @property
    def n_values(self) -> int:
        return int(self.value.shape[1])

    def __eq__(self, other: object) -> bool:
        """Equal to the last bit."""
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = [(getattr(self, name), getattr(other, name)) for name in TREE_DTYPES]
        return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree, tuple(getattr(self, name) for name in TREE_DTYPES)


TREE_DTYPES: dict[str, type] = {
    "feature": np.int32, "threshold": np.float64, "left_child": np.int32, "default_left": np.uint8,
    "cat_set": np.int32, "cat_sets": np.uint64, "value": np.float64, "gain": np.float64, "count": np.int64,
    "weight": np.float64,
}  # fmt: skip


@public
@dataclass(frozen=True, eq=False)
class Model:
    """A trained ensemble. Categorical columns of X hold bin numbers, 0 or NaN for missing and unseen."""

    trees: tuple[Tree, ...]  # with one value a leaf, tree t adds to output t % n_outputs, else to all
    objective: str  # "custom" for callables
    ensemble: str  # "gbdt": sum of the trees; "forest": their mean
    n_features: int
    n_outputs: int
    init_score: np.ndarray  # float64 (n_outputs,)
    feature_names: tuple[str, ...] | None = None
    classes: tuple[Scalar, ...] | None = None
    # By feature: the category of bin b is categories[feature][b - 1].
    categories: Mapping[int, tuple[Scalar, ...]] = field(default_factory=dict)
    n_parallel_trees: int = 1  # of a gbdt: how many trees an iteration adds to each output

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
            put("classes", _scalars(self.classes))
        put("categories", {int(f): _scalars(self.categories[f]) for f in sorted(self.categories)})

    @property
    def trees_per_iteration(self) -> int:
        if self.ensemble == "gbdt":
            return self.n_outputs * self.n_parallel_trees
        return self.n_outputs // self.trees[0].n_values if self.trees else 1

    @property
    def n_iterations(self) -> int:
        return len(self.trees) // self.trees_per_iteration

    def predict_raw(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> np.ndarray:
        """float64 (n, n_outputs): the initial score plus the sum (gbdt) or mean (forest) of the trees.

        Boosting begins with the initial score, so a range of iterations that begins later is without it, and the scores
        of consecutive ranges add up to those of all. A ``start`` below 0 is 0.
        """
        X = as_rows(X, self.n_features)
        first, end = self._tree_range(n_iterations, start)
        scores = self._first_scores(len(X), start)
        with team_for(len(X), end - first, n_threads) as team:
            self._predictor.add_outputs(X, scores, first, end, team)
        return self._result(scores, end - first)

    def staged_raw(
        self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1
    ) -> Iterator[np.ndarray]:
        """What predict_raw gives after 1, 2, ... iterations."""
        X = as_rows(X, self.n_features)
        first, end = self._tree_range(n_iterations, start)
        return self._stages(X, first, end, self._first_scores(len(X), start), n_threads)

    def _stages(self, X: Rows, first: int, end: int, scores: np.ndarray, n_threads: int) -> Iterator[np.ndarray]:
        step = self.trees_per_iteration
        with team_for(len(X), step, n_threads) as team:
            for tree in range(first, end, step):
                self._predictor.add_outputs(X, scores, tree, tree + step, team)
                yield self._result(scores.copy(), tree + step - first)

    def predict_leaf(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> np.ndarray:
        """int32 (n, n_trees): the number of each row's leaf among the leaves of the tree in level order."""
        X = as_rows(X, self.n_features)
        first, end = self._tree_range(n_iterations, start)
        with team_for(len(X), end - first, n_threads) as team:
            return self._predictor.leaves(X, first, end, team)

    def predict_contrib(self, X: Any, n_iterations: int | None = None, start: int = 0, n_threads: int = 1) -> Any:
        """SHAP values, float64 (n, n_outputs * (n_features + 1)): for each output what every feature adds to the raw
        score of a row, then the score to be expected of a training row; they sum up to ``predict_raw``.

        Of a sparse X they are a sparse matrix, CSC if X is, else CSR; with several outputs a list of these.
        """
        from pvtree.model.contributions import contributions

        X = as_rows(X, self.n_features)
        first, end = self._tree_range(n_iterations, start)
        return contributions(self, X, first, end, n_threads, self._base(start))

    def encode(self, X: Any) -> Any:
        """What the methods here take, of an X as estimators take it: a matrix or sparse rows, categories as bins."""
        from pvtree.reading.inputs import read_like

        return read_like(X, self.columns, "The model")

    @property
    def columns(self) -> Columns:
        """What the rows of X must look like."""
        return Columns(self.n_features, self.feature_names, self.categories)

    def ordered_categories(self) -> frozenset[int]:
        """The features with categories that the trees compare by their places."""
        features: set[int] = set()
        for tree in self.trees if self.categories else ():
            features.update(np.unique(tree.feature[(tree.feature >= 0) & (tree.cat_set < 0)]).tolist())
        return frozenset(features & self.categories.keys())

    def column_name(self, feature: int, unnamed: str = "Column_{}") -> str:
        """A feature's name; if the columns have none, its number in this form."""
        return unnamed.format(feature) if self.feature_names is None else self.feature_names[feature]

    def column_names(self, unnamed: str = "Column_{}") -> list[str]:
        return [self.column_name(feature, unnamed) for feature in range(self.n_features)]

    def feature_importance(self, kind: str = "split") -> np.ndarray:
        """float64 (n_features,): how often each feature splits ("split") or the sum of its gains ("gain")."""
        if kind not in ("split", "gain"):
            raise InvalidParameterError(
                f'importance kind {kind!r} is unknown; choose "split" for the number of splits '
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
        """Tree ``number``, from 0, as text: a line for each node, indented by its depth."""
        from pvtree.model.tree_text import tree_text

        return tree_text(self, number)

    # Import inside: model_file builds models, so it stands on this module.
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON; the file at `path` is replaced at once or left as it was."""
        from pvtree.model import json_file as model_file

        model_file.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Model:
        """Read what `save` wrote; anything else is refused with a ModelFileError."""
        from pvtree.model import json_file as model_file

        return model_file.read(path)

    def export_lightgbm(self, path: str | os.PathLike[str], average_output: bool = True) -> None:
        """Write LightGBM's text model: ``lightgbm.Booster(model_file=path)`` predicts what this model predicts.

        Categorical columns of LightGBM's X hold bin numbers, as those of ``predict_raw``; ``encode`` makes them. A
        forest says that its trees are to be averaged. Some programs overlook it, ONNX converters and LightGBM's own
        ``pred_contrib`` among them: ``average_output=False`` writes a sum of values that were divided before.
        """
        from pvtree.model import export_lightgbm

        export_lightgbm.write(self, path, average_output)

    @classmethod
    def from_lightgbm(cls, path: str | os.PathLike[str]) -> Model:
        """Read a text model of LightGBM's; what these trees cannot express is refused with a ModelFileError."""
        from pvtree.model import import_lightgbm

        return import_lightgbm.read(path)

    def to_dot(self, tree_index: int = 0, show_info: Collection[str] | None = None, precision: int = 3) -> str:
        """A tree as graphviz draws it, in its DOT language; ``show_info`` as of ``pvtree.plot_tree``."""
        from pvtree.model.tree_graph import draw, to_dot

        return to_dot(draw(self, tree_index, show_info, precision), f"tree {tree_index}")

    def to_json(self) -> str:
        """The text that `save` writes: equal models give equal texts."""
        from pvtree.model import json_file as model_file

        return model_file.dump(self)

    @classmethod
    def from_json(cls, text: str) -> Model:
        from pvtree.model import json_file as model_file

        return model_file.parse(text, "this text")

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.trees)

    @cached_property
    def _explainer(self) -> Explainer:
        from pvtree.model.contributions import Explainer

        return Explainer(self)

    def _tree_range(self, n_iterations: int | None, start: int) -> tuple[int, int]:
        if n_iterations is not None and n_iterations < 0:
            raise InvalidParameterError(
                f"n_iterations={n_iterations} must not be negative; leave n_iterations=None to use all iterations."
            )
        start = min(max(start, 0), self.n_iterations)
        end = self.n_iterations if n_iterations is None else min(start + n_iterations, self.n_iterations)
        return start * self.trees_per_iteration, end * self.trees_per_iteration

    def _base(self, start: int) -> np.ndarray:
        """(n_outputs,): what the trees from iteration ``start`` on are added to."""
        return self.init_score if self.ensemble == "forest" or start <= 0 else np.zeros(self.n_outputs)

    def _first_scores(self, n_rows: int, start: int) -> np.ndarray:
        """(n_outputs, n): boosting adds to the initial score, as training did, for the same bits."""
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
        """Equal to the last bit, and in the types of labels and categories: True is not 1."""
        if not isinstance(other, Model):
            return NotImplemented
        return self.trees == other.trees and self._head() == other._head()

    __hash__ = None  # type: ignore[assignment]

    def _head(self) -> tuple[object, ...]:
        rest = [getattr(self, f.name) for f in fields(self) if f.name not in ("trees", "init_score")]
        return self.init_score.tobytes(), repr(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, tuple(getattr(self, f.name) for f in fields(self))


def _scalars(values: Any) -> tuple[Scalar, ...]:
    plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    for value in plain:
        if type(value) not in (str, int, float, bool):
            raise InvalidTypeError(
                f"A class label or category of type {type(value).__name__} cannot be kept in a model; "
                "convert the labels to str, int, float or bool."
            )
    return plain
