"""The corpus: inputs that did harm once, or would if a check were gone. Small ones are stored, large ones made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import samples
import scipy.sparse
from case import Broken, Case
from file_attacks import signed
from uses import command, use_dataset, use_json_model, use_lightgbm_model, use_table, use_xgboost_model

import pvtree

FOLDER = Path(__file__).resolve().parent / "corpus"


@dataclass(frozen=True)
class Hostile:
    """What an input does, whether it may be accepted nevertheless, and how it is made and used if not by its suffix."""

    what: str
    may_pass: bool = False
    make: Callable[[], bytes] | None = None
    use: Callable[[], None] | None = None


def use(name: str, case: Case) -> None:
    """As its users would, by its suffix; what must be refused fails if it is not."""
    hostile = HOSTILE[name]
    case.note(hostile.what)
    if hostile.use is not None:
        hostile.use()
    else:
        data = hostile.make() if hostile.make is not None else (FOLDER / name).read_bytes()
        _USES[name[name.index(".") :]](case.write(name, data))
    if not hostile.may_pass:
        raise Broken(f"{name} was not refused: {hostile.what}")


def _use_letor(path: Path) -> None:
    use_table(path, "ranking")
    written = {line.split()[1] for line in path.read_text().splitlines()}
    n_found = len(np.unique(pvtree.read_file(path).qid))
    if n_found != len(written):
        raise Broken(f"{len(written)} different queries became {n_found}")


def _use_csv(path: Path) -> None:
    use_table(path, label="y")


def _use_parquet(path: Path) -> None:
    command("train", "--data", str(path), "--label", "y", "--task", "classification", "--model", "out.json", "--quiet")
    use_table(path, label="y")


_USES: dict[str, Callable[[Path], None]] = {
    ".json": use_json_model, ".txt": use_lightgbm_model, ".svm": use_table, ".letor": _use_letor, ".csv": _use_csv,
    ".parquet": _use_parquet, ".bin": use_dataset, ".xgb.json": use_xgboost_model,
}  # fmt: skip


# Made


def _chain(n_splits: int, n_features: int) -> bytes:
    """A model of one tree whose right children all split, by one column after the other."""
    payload = json.loads(samples.estimator("regression").model_.to_json())["payload"]
    n_nodes = 2 * n_splits + 1
    inner = np.arange(n_nodes) % 2 == 0
    inner[-1] = False
    left, feature = np.zeros(n_nodes, int), np.full(n_nodes, -1)
    left[inner] = 1 + 2 * np.arange(n_splits)
    feature[inner] = np.arange(n_splits) % n_features
    tree = {name: [0.5] * n_nodes for name in ("threshold", "value", "gain", "weight")}
    whole = {"feature": feature.tolist(), "left_child": left.tolist(), "count": [1] * n_nodes, "cat_sets": []}
    flags = {"default_left": [0] * n_nodes, "cat_set": [-1] * n_nodes}
    return signed(payload | {"n_features": n_features, "trees": [tree | whole | flags]})


def _stump(**changed: str) -> str:
    """The LightGBM model of the corpus with other values of some fields."""
    lines = (FOLDER / "stump.txt").read_text().splitlines()
    keyed = [line.partition("=") for line in lines]
    return "\n".join(f"{key}={changed[key]}" if key in changed else key + sign + value for key, sign, value in keyed)


def _shared_set() -> bytes:
    """A chain of splits that all name one set of 2^20 category codes."""
    n_splits, n_words = 2000, 2**15
    text = _stump(
        num_leaves=str(n_splits + 1),
        num_cat="1",
        split_feature="0 " * n_splits,
        split_gain="1 " * n_splits,
        threshold="0 " * n_splits,
        decision_type="1 " * n_splits,
        left_child=" ".join(str(-1 - split) for split in range(n_splits)),
        right_child=" ".join(str(split + 1) for split in range(n_splits - 1)) + f" {-1 - n_splits}",
        leaf_value="1 " * (n_splits + 1),
        leaf_weight="1 " * (n_splits + 1),
        leaf_count="1 " * (n_splits + 1),
        internal_value="1 " * n_splits,
        internal_weight="1 " * n_splits,
        internal_count="1 " * n_splits,
    )
    sets = f"cat_boundaries=0 {n_words}\ncat_threshold={'4294967295 ' * n_words}\n"
    return text.replace("left_child=", f"{sets}left_child=").encode()


def _huge_classes() -> bytes:
    payload = json.loads(samples.estimator("binary").model_.to_json())["payload"]
    return signed(payload | {"classes": [0, 10**30]})


def _repeated_key() -> bytes:
    return samples.their_xgboost("binary", "json").replace(b'{"learner":', b'{"version":[1,0,0],"learner":', 1)


def _huge_leaf() -> bytes:
    document = json.loads(samples.their_xgboost("binary", "json"))
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"] = [1e300] * len(tree["split_conditions"])
    return json.dumps(document).encode()


def _equal_categories() -> bytes:
    """Labels that are different in JSON and one for pandas."""
    good = samples.dataset_file("frame")
    n_bytes = int.from_bytes(good[17:25], "little")
    head = json.loads(good[25 : 25 + n_bytes])
    head["columns"][3][1][:3] = [1, True, float("nan")]
    text = json.dumps(head).encode()
    return good[:17] + len(text).to_bytes(8, "little") + text + good[25 + n_bytes :]


def _late_nul() -> bytes:
    rows = "".join(f"{i % 7},{i % 2}\n" for i in range(3000))
    return f"x,y\n{rows}1\0,0\n".encode()


# Not files


def _broken_dia() -> None:
    matrix = scipy.sparse.dia_array(np.nan_to_num(samples.matrix()))
    matrix.data, matrix.offsets = matrix.data[::2], matrix.offsets
    matrix.offsets[0] = 2**31 - 1
    pvtree.GBDTClassifier(**samples.FEW).fit(matrix, samples.level())


def _broken_coo() -> None:
    matrix = scipy.sparse.coo_array(np.nan_to_num(samples.matrix()))
    matrix.row = matrix.row[:-1]
    pvtree.GBDTClassifier(**samples.FEW).fit(matrix, samples.level())


def _far_diagonal() -> None:
    """scipy allows diagonals outside the matrix, and leaves them out."""
    matrix = scipy.sparse.dia_array((np.ones((2, 5)), [0, 2**31 - 1]), shape=(240, 5))
    pvtree.GBDTClassifier(**samples.FEW).fit(matrix, samples.level())


def _unopenable(name: str) -> Callable[[], None]:
    return lambda: pvtree.GBDTRegressor(**samples.FEW).fit(samples.matrix(), samples.score(), init_model=name) and None


def _nul_in_config() -> None:
    Path("config.toml").write_text('data = "\\u0000"\ntask = "regression"\n')
    command("train", "--config", "config.toml")


def _many_leaves() -> None:
    kind = pvtree.RandomForestClassifier(**samples.FEW_OF_FOREST, num_leaves=2**20)
    kind.fit(samples.matrix(), samples.level())


def _many_verbs() -> None:
    pvtree.GBDTRegressor(**samples.FEW).fit(samples.matrix(), samples.score(), verbose=np.array([1, 2]))


def _broken_csr(index: int) -> Callable[[], None]:
    def fit() -> None:
        matrix = scipy.sparse.csr_matrix(np.nan_to_num(samples.matrix()))
        matrix.indices[5] = index
        pvtree.GBDTClassifier(**samples.FEW).fit(matrix, samples.level())

    return fit


def _wide_contributions() -> None:
    """2.4 GB if it were dense."""
    fitted = pvtree.GBDTRegressor(**samples.FEW).fit(np.repeat(samples.matrix(), 200, axis=1), samples.score())
    entries = np.ones(60), (np.arange(60) * 5000, np.arange(60) * 16)
    found: Any = fitted.predict(scipy.sparse.csr_matrix(entries, (300_000, 1000)), pred_contrib=True)
    if found.shape != (300_000, 1001):
        raise Broken(f"contributions have shape {found.shape}")


HOSTILE: dict[str, Hostile] = {
    "negative-column.svm": Hostile("columns of -2 are written before a row's memory"),
    "far-negative-column.svm": Hostile("columns of -2000000000 are written far before a row's memory"),
    "column-minus-one.svm": Hostile("the column -1.0 is taken for the reader's own mark of qid"),
    "column-1e9.svm": Hostile("a column of 1e9 asks for memory for as many columns", may_pass=True),
    "csr-index-beyond": Hostile("an index of 10^6 in a matrix of 5 columns", use=_broken_csr(10**6)),
    "csr-index-negative": Hostile("an index of -3", use=_broken_csr(-3)),
    "shared-set.txt": Hostile("2000 splits name one set of 2^20 codes: gigabytes from 0.4 MB", make=_shared_set),
    "many-outputs.txt": Hostile("num_tree_per_iteration=2147483646 asks for as many outputs"),
    "leading-zeros.txt": Hostile("a count of 24 digits, of which the first 12 are zeros, asks for 7 TiB"),
    "many-leading-zeros.txt": Hostile(
        "a count of 5,000 digits, more than int() reads", make=lambda: _stump(max_feature_idx="0" * 5000 + "1").encode()
    ),
    "repeated-leaf-value.txt": Hostile("leaf_value= is there twice: what a scanner reads is not what is used"),
    "repeated-num-leaves.txt": Hostile("num_leaves= is there twice"),
    "repeated-max-feature-idx.txt": Hostile("max_feature_idx= is there twice"),
    "one-class.json": Hostile("a binary model of one class: its second class is looked up", may_pass=True),
    "wide.json": Hostile("2^31 - 1 features: gigabytes for importances and exports", may_pass=True),
    "surrogate-name.json": Hostile("a feature's name is a lone surrogate, which no file can hold", may_pass=True),
    "chain-over-4000-features.json": Hostile(
        "SHAP values of a path over 4,000 features take its square", may_pass=True, make=lambda: _chain(4000, 4000)
    ),
    "chain-20000-deep.json": Hostile(
        "a text of a tree 20,000 deep takes its square for blanks", may_pass=True, make=lambda: _chain(20_000, 5)
    ),
    "invalid-utf8.parquet": Hostile("a column of text that is no UTF-8"),
    "qid-2-to-the-53.letor": Hostile("two queries are one if their ids pass through float64", may_pass=True),
    "qid-nan.letor": Hostile("a query id of nan becomes -2^63"),
    "qid-1e300.letor": Hostile("a query id of 1e300 becomes -2^63"),
    "qid-2-to-the-64.letor": Hostile("a query id of 2^64 becomes -2^63"),
    "qid-fraction.letor": Hostile("query ids of 1.2 and 1.7 become one query"),
    "late-nul.csv": Hostile("a NUL behind the first 4 kB", make=_late_nul),
    "dia-offset-beyond": Hostile("scipy follows diagonals that it does not have", use=_broken_dia),
    "dia-offset-outside": Hostile("a diagonal far outside, which holds nothing", may_pass=True, use=_far_diagonal),
    "coo-lengths-differ": Hostile("scipy cannot even count its entries", use=_broken_coo),
    "surrogate-path": Hostile("a path that no file can have: UnicodeEncodeError", use=_unopenable("\ud800")),
    "nul-path": Hostile("a path with a NUL: ValueError", use=_unopenable("a\0b")),
    "nul-in-config": Hostile("a NUL in a path of a config file: ValueError", use=_nul_in_config),
    "many-leaves": Hostile("room for 2^20 leaves of 240 rows: a gigabyte", may_pass=True, use=_many_leaves),
    "verbose-array": Hostile("an array that is neither true nor false", use=_many_verbs),
    "huge-classes.json": Hostile("classes beyond 64 bits, which no column holds", may_pass=True, make=_huge_classes),
    "code-outside.parquet": Hostile("a code that is not in its dictionary"),
    "repeated-key.xgb.json": Hostile("a key of XGBoost's JSON is there twice", make=_repeated_key),
    "huge-leaf.xgb.json": Hostile("leaves beyond float32, as JSON cannot write them", may_pass=True, make=_huge_leaf),
    "equal-categories.bin": Hostile("three categories that are one for pandas, or none", make=_equal_categories),
    "wide-contributions": Hostile("a dense result for a sparse matrix", may_pass=True, use=_wide_contributions),
}  # fmt: skip
NAMES = list(HOSTILE)
