"""``pvtree train``: a stream gives the model of the data in memory, also under mpiexec; errors are one sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest

import pvtree
from pvtree.front.cli import main
from pvtree.front.cli.options import ESTIMATORS, NumbersOrBalanced, parameters_of
from pvtree.front.cli.train import train

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
N = 1500


@pytest.fixture(autouse=True, scope="module")
def alone():
    """These tests are not ranks, whoever started them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("PMI_", "PMIX_", "OMPI_", "MPI_")):
                patch.delenv(name)
        yield


def make_frame(dtype: type, seed: int = 0) -> pandas.DataFrame:
    """Numbers of several kinds with gaps, text, marked categories, labels, weights (some of them 0) and queries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    frame = pandas.DataFrame({f"x{j}": X[:, j] for j in range(3)})
    frame["small"] = rng.integers(-100, 100, N).astype(np.int16)
    frame["flag"] = rng.random(N) < 0.3
    frame["gaps"] = pandas.array(rng.integers(0, 50, N), dtype="Int8")
    frame.loc[rng.random(N) < 0.2, "gaps"] = pandas.NA
    colours = rng.integers(0, 4, N)
    frame["colour"] = pandas.Categorical.from_codes(np.where(rng.random(N) < 0.1, -1, colours), list("dabc"))
    frame["shape"] = pandas.Categorical(np.array(["round", "flat"])[rng.integers(0, 2, N)])
    signal = np.nan_to_num(X[:, 0]) + frame["small"] / 100 + (colours == 2) + rng.normal(size=N)
    frame["y"] = signal.to_numpy()
    frame["class"] = np.array(["low", "middle", "high"])[np.digitize(signal, [-0.5, 0.5])]
    frame["relevance"] = np.digitize(signal, [0.0, 1.0])
    frame["w"] = rng.integers(0, 4, N).astype(np.float32)
    frame["q"] = np.repeat(np.arange(1000, 1000 + N // 30), 30)
    return frame


LABELS = ["y", "class", "relevance", "w", "q"]
TASKS = {
    "classification": ("class", "GBDTClassifier", {"n_estimators": 4, "num_leaves": 7}),
    "regression": ("y", "RandomForestRegressor", {"n_estimators": 2, "max_depth": 4, "max_features": 0.5}),
    "ranking": ("relevance", "GBDTRanker", {"n_estimators": 3, "num_leaves": 7}),
}


def write(frame: pandas.DataFrame, folder: Path, task: str) -> Path:
    """Three files whose row groups have odd sizes, with the columns that the task needs; text is not marked."""
    columns = [*(name for name in frame.columns if name not in LABELS), TASKS[task][0], "w"]
    frame = frame[columns + ["q"] * (task == "ranking")].astype({"shape": str})
    folder.mkdir()
    for i, (start, stop) in enumerate(pairwise([0, 10, 700, N])):
        table = pa.Table.from_pandas(frame.iloc[start:stop], preserve_index=False)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=[7, 101, 177][i])
    return folder


def arguments(task: str, data: Path, model: Path) -> list[str]:
    label, estimator, parameters = TASKS[task]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
    ensemble = "forest" if "Forest" in estimator else "gbdt"
    given = ["train", f"--data={data}", f"--label={label}", "--weight=w", f"--task={task}", f"--ensemble={ensemble}"]
    return [*given, f"--model={model}", *options, *(["--qid=q"] if task == "ranking" else [])]


def fit_in_memory(task: str, frame: pandas.DataFrame) -> str:
    label, estimator, parameters = TASKS[task]
    X = frame.drop(columns=LABELS)
    queries = {"qid": frame["q"].to_numpy()} if task == "ranking" else {}
    fitted = getattr(pvtree, estimator)(**parameters).fit(X, frame[label], frame["w"], **queries)
    return fitted.model_.to_json()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", list(TASKS))
def test_the_model_of_a_stream_is_that_of_the_data_in_memory(task, dtype, tmp_path, capsys):
    frame = make_frame(dtype)
    data, model = write(frame, tmp_path / "data", task), tmp_path / "model.json"
    main(arguments(task, data, model))
    expected = fit_in_memory(task, frame)
    assert model.read_text() == expected
    printed = capsys.readouterr().out
    assert re.match(rf"\d+ trees on {N:,} rows x 8 columns in [\d.]+ s \(binning", printed)
    assert f"model written to {model}" in printed
    assert sorted(os.listdir(tmp_path)) == ["data", "model.json"]


def test_virtual_machines_and_validation(tmp_path, capsys):
    frame = make_frame(np.float64)
    data, model = write(frame, tmp_path / "data", "classification"), tmp_path / "model.json"
    valid = write(make_frame(np.float64, seed=1), tmp_path / "valid", "classification")
    more = [f"--valid={valid}", "--eval-metric=multi_error", "--tree-learner=data", "--workers=3"]
    main([*arguments("classification", data, model), *more, f"--checkpoint={tmp_path / 'kept'}", "--checkpoint-freq=2"])
    assert model.read_text() == fit_in_memory("classification", frame)
    printed = capsys.readouterr().out
    assert "by data on 3 workers" in printed
    assert re.search(r"B sent per worker and tree in [\d.]+ calls", printed)
    X, y = pandas.read_parquet(valid).drop(columns=["class", "w"]), pandas.read_parquet(valid)["class"]
    weight = pandas.read_parquet(valid)["w"]
    fitted = pvtree.GBDTClassifier(n_estimators=4, num_leaves=7).fit(
        frame.drop(columns=LABELS), frame["class"], frame["w"]
    )
    wrong = np.average(fitted.predict(X.astype({"shape": "category"})) != y, weights=weight)
    assert float(re.search(r"valid: multi_error ([\d.]+) after iteration 4", printed)[1]) == pytest.approx(wrong, 1e-5)
    assert os.listdir(tmp_path / "kept")


# Under mpiexec


def run_ranks(given, **how):
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "pvtree", *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **how)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("task", "more", "learner"),
    [("classification", [], "exact_voting"), ("ranking", ["--tree-learner=data"], "data")],
)
def test_ranks_train_the_model_of_one_process(task, more, learner, tmp_path):
    frame = make_frame(np.float64)
    data, model = write(frame, tmp_path / "data", task), tmp_path / "model.json"
    expected = fit_in_memory(task, frame)
    done = run_ranks([*arguments(task, data, model), *more, f"--valid={data}"])
    assert done.returncode == 0, done.stderr
    assert model.read_text() == expected
    assert len(re.findall(f"by {learner} on 2 workers", done.stdout)) == 1
    assert len(done.stdout.splitlines()) == 4, done.stdout


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--weight=w", "--label=klass"], 2)], ids=["right", "wrong"])
def test_workers_that_meet_in_a_folder_train_the_model_of_one_process(more, code, tmp_path):
    frame = make_frame(np.float64)
    data, model = write(frame, tmp_path / "data", "classification"), tmp_path / "model.json"
    where = [f"--rendezvous=file://{tmp_path}/job", "--size=2", "--host=127.0.0.1", "--timeout=60"]
    command = [sys.executable, "-m", "pvtree", *arguments("classification", data, model), *where, *more]
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([*command, f"--rank={rank}"], **how) for rank in range(2)]
    printed = [worker.communicate(timeout=120) for worker in workers]
    assert [worker.returncode for worker in workers] == [code] * 2, printed
    if code == 0:
        assert model.read_text() == fit_in_memory("classification", frame)
        assert "by exact_voting on 2 workers" in printed[0][0] and not printed[1][0]
    else:
        assert all("has no column 'klass'; did you mean 'class'" in err for _, err in printed)
    assert sorted(os.listdir(tmp_path)) == ["data"] + ["model.json"] * (code == 0)


@pytest.mark.mpi
@pytest.mark.parametrize("whose", ["all", "one"])
def test_wrong_input_is_told_once_by_all_ranks(whose, tmp_path):
    data, model = write(make_frame(np.float64), tmp_path / "data", "classification"), tmp_path / "model.json"
    model.write_text("an earlier model")
    given = [*arguments("classification", data, model), "--tree-learner=voting"]
    if whose == "all":
        given += ["--label=klass"]
    else:
        damage_column(data / "2.parquet")  # the last rank finds it, while the others wait for its sample of rows
    done = run_ranks(given)
    assert done.returncode == 2
    sentence = "has no column 'klass'; did you mean 'class'" if whose == "all" else r"2\.parquet cannot be read as Par"
    assert len(re.findall(f"^Error: .*{sentence}", done.stderr, re.MULTILINE)) == 1, done.stderr
    assert "Traceback" not in done.stderr and not done.stdout
    assert model.read_text() == "an earlier model"


def damage_column(path):
    column = pq.read_metadata(path).row_group(2).column(1)
    start = min(at for at in (column.dictionary_page_offset, column.data_page_offset) if at)
    data = bytearray(path.read_bytes())
    data[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(data)


# What is refused


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(make_frame(np.float64), tmp_path_factory.mktemp("cli") / "data", "classification")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--data=nowhere"], "There is no file or folder nowhere"),
        (["--label=klass"], "no column 'klass'; did you mean 'class'"),
        (["--weight=shape"], "sample_weight must hold numbers"),
        (["--num-leaves=1"], "num_leaves must be an integer of at least 2"),
        (["--num-leaves=many"], "'--num-leaves': 'many' is not a valid integer"),
        (["--num-leafs=5"], "Did you mean '--num-leaves'"),
        (["--max-features=3"], "--max-features does not apply to --task classification --ensemble gbdt"),
        (["--rank=1"], "are for workers that meet; give --rendezvous"),
        (["--rendezvous=env://", "--tls-key=k"], "TLS needs --tls-certificate, --tls-key and --tls-authority"),
        (["--rendezvous=nowhere"], "The rendezvous 'nowhere' is not known"),
        (["--task=ranking"], "--task ranking needs --qid"),
        (["--qid=w"], "--task ranking needs --qid"),
        (["--task=ranking", "--ensemble=forest"], "--task ranking does not support --ensemble forest"),
        (["--model=nowhere/model.json"], "cannot be written to nowhere/model.json"),
        (["--early-stopping-rounds=3"], "early_stopping_rounds needs data"),
        (["--timeout=0"], "'--timeout': 0"),
        (["--categorical-feature=colour,size"], "categorical_feature names 'size'"),
    ],
)
def test_wrong_input_ends_with_a_sentence_and_code_2(data, given, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*arguments("classification", data, Path("model.json")), *given])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert sentence in printed.err and printed.err.startswith("Error: ") and printed.err.count("\n") == 1, printed.err
    assert not printed.out and not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--tree-learner=serial"], "There are 4 workers under mpiexec, but"),
        (["--tree-learner=data", "--workers=2"], "leave it out under mpiexec"),
    ],
)
def test_what_ranks_cannot_do_is_refused_before_they_meet(data, given, sentence, monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_RANK", "0")
    with pytest.raises(SystemExit) as ended:
        main([*arguments("classification", data, Path("model.json")), *given])
    assert ended.value.code == 2 and sentence in capsys.readouterr().err
    monkeypatch.setenv("PMI_RANK", "1")  # only rank 0 prints
    with pytest.raises(SystemExit):
        main([*arguments("classification", data, Path("model.json")), *given])
    assert not capsys.readouterr().err


# Options


def test_every_parameter_of_every_estimator_is_an_option():
    options = {option.name: option for option in train.params}
    for estimator in ESTIMATORS.values():
        for name in parameters_of(estimator):
            assert f"--{name.replace('_', '-')}" in options[name].opts, name
    assert "--workers" in options["n_workers"].opts and "--no-bootstrap" in options["bootstrap"].secondary_opts


def test_lists_of_numbers():
    kind = NumbersOrBalanced()
    assert kind.convert("1,2.5", None, None) == [1.0, 2.5]
    assert kind.convert("balanced", None, None) == "balanced"
    with pytest.raises(click.BadParameter, match="separate them by commas"):
        kind.convert("1;2", None, None)


def test_version_and_help(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"pvtree, version {pvtree.__version__}\n"
    main(["train", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "Default: 31 (gbdt), -1 (forest or tree)." in printed
    assert "The number of features that each worker votes for" in printed
