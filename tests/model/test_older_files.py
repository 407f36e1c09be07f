"""Files written by version 0.6.0 still load, predict the recorded values to the last bit, and resume."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pvtree import GBDTClassifier, Model
from pvtree.training.checkpoint_file import Checkpoint

FOLDER = Path(__file__).parents[1] / "fixtures" / "0.6.0"
ROWS = json.loads((FOLDER / "rows.json").read_text())
X = np.array(ROWS["X"], dtype=float)  # null is NaN
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(city=pd.Categorical(ROWS["city"]))


def rows_of(kind):
    return FRAME if kind == "boosting-categories" else X


def assert_recorded(model, kind):
    predicted = model.predict_raw(model.encode(rows_of(kind)))
    assert predicted.tobytes() == np.array(ROWS["predicted"][kind]).tobytes()


@pytest.mark.parametrize("kind", ROWS["predicted"])
def test_a_model_file_predicts_what_it_did(kind):
    model = Model.load(FOLDER / f"{kind}.json")
    assert_recorded(model, kind)


@pytest.mark.parametrize("kind", ROWS["predicted"])
def test_a_model_file_is_written_as_it_was(kind, tmp_path):
    Model.load(FOLDER / f"{kind}.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (FOLDER / f"{kind}.json").read_bytes()


def test_a_training_resumes_from_its_checkpoint_to_the_identical_model(tmp_path, monkeypatch):
    resumed, resume = [], Checkpoint.resume
    monkeypatch.setattr(Checkpoint, "resume", lambda *given: resumed.append(resume(*given)) or resumed[-1])
    folder, y = shutil.copytree(FOLDER / "checkpoint", tmp_path / "checkpoint"), ROWS["y"]["binary"]
    classifier = GBDTClassifier(
        n_estimators=10, num_leaves=5, min_child_samples=5, colsample_bytree=0.75, random_state=3, verbosity=0
    )
    classifier.fit(X, y, eval_set=[(X[:40], y[:40])], checkpoint=folder, checkpoint_freq=4)
    assert [saved.model.n_iterations for saved in resumed] == [4]
    classifier.model_.save(tmp_path / "resumed.json")
    assert (tmp_path / "resumed.json").read_bytes() == (FOLDER / "resumed.json").read_bytes()
    assert classifier.evals_result_ == ROWS["evals_result"]


def test_a_pickled_model_loads_and_predicts_what_it_did():
    """Estimators pickled by 0.6.0 name files that have moved; models have always been in ``pvtree.model``."""
    assert_recorded(pickle.loads((FOLDER / "model.pickle").read_bytes()), "boosting-categories")
