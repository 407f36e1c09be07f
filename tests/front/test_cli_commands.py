"""What predict, evaluate, inspect, --config, shell completion and the progress bar print and write."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import pvtree
from pvtree.front.cli import main
from pvtree.training import progress_bar

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")

SMALL = ["--n-estimators=3", "--num-leaves=5", "--quiet"]


def make_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 9, n)})
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    frame["c"] = np.array(["x", "y, z", "w"])[rng.integers(0, 3, n)]
    signal = frame["a"].fillna(0) + (frame["c"] == "x") + rng.normal(size=n) / 4
    frame["class"] = np.array(["low", "mid", "a,b"])[np.digitize(signal, [0, 0.7])]
    frame["y"], frame["w"] = signal, rng.integers(1, 4, n)
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A classifier, a regressor and a ranker trained on files, and the files."""
    folder = tmp_path_factory.mktemp("made")
    frame = make_frame()
    frame.to_csv(folder / "all.csv", index=False)
    shuffled = frame[["w", "c", "y", "b", "class", "a"]].assign(id=range(len(frame)))
    shuffled.to_parquet(folder / "other.parquet", row_group_size=70)
    frame[["a", "b", "c", "class"]].to_csv(folder / "class.csv", index=False)
    frame[["a", "b", "y", "w"]].to_csv(folder / "value.csv", index=False)
    lines = [f"{i % 3} qid:{i // 10} 1:{i % 3} 4:{i % 7}\n" for i in range(200)]
    (folder / "rank.letor").write_text("".join(lines))
    train = ["train", *SMALL]
    main([*train, f"--data={folder / 'class.csv'}", "--label=class", "--task=classification",
          f"--model={folder / 'class.json'}"])  # fmt: skip
    main([*train, f"--data={folder / 'value.csv'}", "--label=y", "--weight=w", "--task=regression",
          f"--model={folder / 'value.json'}"])  # fmt: skip
    main([*train, f"--data={folder / 'rank.letor'}", "--task=ranking", f"--model={folder / 'rank.json'}",
          "--tree-learner=voting", "--workers=3", "--top-k=2"])  # fmt: skip
    return folder


@pytest.fixture(autouse=True)
def inside(made, monkeypatch):
    monkeypatch.chdir(made)


def printed(capsys, *arguments):
    capsys.readouterr()
    main(list(arguments))
    told = capsys.readouterr()
    assert not told.err
    return told.out


def expected(name, frame):
    model = pvtree.Model.load(f"{name}.json")
    return model, model.encode(frame[list(model.feature_names)].astype({"c": "category"} if name == "class" else {}))


# predict


def test_classes_go_to_standard_output_as_csv(capsys):
    model, X = expected("class", make_frame())
    labels = np.asarray(model.classes)[model.predict_raw(X).argmax(axis=1)]
    out = printed(capsys, "predict", "--model=class.json", "--data=all.csv")
    assert pandas.read_csv(pandas.io.common.StringIO(out))["prediction"].tolist() == labels.tolist()
    assert '"a,b"' in out  # a label with a comma is quoted
    assert out == printed(capsys, "predict", "--model=class.json", "--data=other.parquet")  # columns by their names


def test_text_that_looks_like_numbers_is_text_where_the_model_knows_text(capsys, tmp_path):
    """The model has not seen such a category, so it is treated like a missing value."""
    frame = make_frame()[["a", "b", "c"]]
    frame.assign(c="7").to_csv(tmp_path / "digits.csv", index=False)
    frame.assign(c="").to_csv(tmp_path / "missing.csv", index=False)
    given = ["predict", "--model=class.json", "--raw"]
    digits = printed(capsys, *given, f"--data={tmp_path / 'digits.csv'}")
    assert digits == printed(capsys, *given, f"--data={tmp_path / 'missing.csv'}")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "tsv"])
@pytest.mark.parametrize("kind", ["proba", "raw", "leaf", "contrib"])
def test_what_is_predicted_is_what_the_model_predicts(kind, suffix, capsys, tmp_path):
    model, X = expected("class", make_frame())
    raw = model.predict_raw(X)
    answers = {
        "raw": raw,
        "proba": np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True),
        "leaf": model.predict_leaf(X),
        "contrib": model.predict_contrib(X),
    }
    path = tmp_path / f"p.{suffix}"
    told = printed(capsys, "predict", "--model=class.json", "--data=other.parquet", f"--output={path}", f"--{kind}")
    assert told == f"300 rows written to {path}\n" and os.listdir(tmp_path) == [path.name]
    if suffix == "npy":
        found = np.load(path)
    else:
        table = pandas.read_parquet(path) if suffix == "parquet" else pandas.read_csv(path, sep=",\t"[suffix == "tsv"])
        found = table.to_numpy()
        names = {"raw": "raw_a,b", "proba": "proba_a,b", "leaf": "leaf_0", "contrib": "a,b: a"}
        assert table.columns[0] == names[kind]
    assert found.shape == answers[kind].shape
    np.testing.assert_allclose(found, answers[kind], rtol=1e-12, atol=1e-15)


def test_an_output_that_was_private_stays_private(capsys, tmp_path):
    path = tmp_path / "p.csv"
    path.touch(0o600)
    printed(capsys, "predict", "--model=value.json", "--data=all.csv", f"--output={path}")
    assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_size > 0


def test_values_and_fewer_iterations(capsys):
    model, X = expected("value", make_frame())
    out = printed(capsys, "predict", "--model=value.json", "--data=all.csv", "--num-iteration=2", "--raw")
    assert np.array(out.split()[1:], float).tolist() == model.predict_raw(X, 2)[:, 0].tolist()


def test_probabilities_of_values_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["predict", "--model=value.json", "--data=all.csv", "--proba"])
    assert "which have no probabilities" in capsys.readouterr().err


def test_ranking_files_are_predicted_for_in_parts(capsys, monkeypatch):
    whole = printed(capsys, "predict", "--model=rank.json", "--data=rank.letor")
    monkeypatch.setattr("pvtree.reading.libsvm.BLOCK_BYTES", 500)
    monkeypatch.setattr("pvtree.reading.files.BLOCK_BYTES", 1000)
    assert whole.count("\n") == 201 and whole == printed(capsys, "predict", "--model=rank.json", "--data=rank.letor")


def test_predictions_are_made_in_a_stream(monkeypatch, tmp_path, capsys):
    """Only a few blocks are in memory, not the rows of a whole file or row group."""
    n = 400_000
    columns = {name: np.arange(n, dtype=float) + j for j, name in enumerate("ab")}
    pq.write_table(pa.table({**columns, **{f"more{j}": columns["a"] for j in range(3)}}), tmp_path / "a.parquet")
    monkeypatch.setattr("pvtree.reading.files.BLOCK_BYTES", 2**16)
    arrow_bytes, real = [], pvtree.Model.predict_raw

    def watched(*args, **kwargs):
        arrow_bytes.append(pa.total_allocated_bytes())
        return real(*args, **kwargs)

    monkeypatch.setattr(pvtree.Model, "predict_raw", watched)
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        main(["predict", "--model=value.json", f"--data={tmp_path / 'a.parquet'}", f"--output={tmp_path / 'p.npy'}"])
        assert tracemalloc.get_traced_memory()[1] < n * 8
    finally:
        tracemalloc.stop()
    assert len(arrow_bytes) > 90 and max(arrow_bytes) - before < 2 * n * 8
    assert np.load(tmp_path / "p.npy").shape == (n,)


# demo


def test_demo(capsys, monkeypatch):
    monkeypatch.setattr("pvtree.front.demo.main", lambda: print("shown"))
    assert printed(capsys, "demo") == "shown\n"


# evaluate


def test_metrics(capsys):
    model, X = expected("class", make_frame())
    frame = make_frame()
    wrong = np.asarray(model.classes)[model.predict_raw(X).argmax(axis=1)] != frame["class"]
    asked = ["evaluate", "--model=class.json", "--data=all.csv", "--label=class", "--metric=error", "--metric=logloss"]
    lines = dict(line.split() for line in printed(capsys, *asked).splitlines())
    assert list(lines) == ["multi_error", "multi_logloss"]
    assert float(lines["multi_error"]) == pytest.approx(wrong.mean(), 1e-5)
    found = json.loads(printed(capsys, *asked, "--weight=w", "--json"))
    assert found["metrics"]["multi_error"] == pytest.approx(np.average(wrong, weights=frame["w"]), 1e-12)
    assert found["rows"] == 300
    model, X = expected("value", frame)
    error = np.square(model.predict_raw(X)[:, 0] - frame["y"]).mean()
    out = printed(capsys, "evaluate", "--model=value.json", "--data=other.parquet", "--label=y")
    assert out.split()[0] == "l2" and float(out.split()[1]) == pytest.approx(error, 1e-5)
    found = json.loads(
        printed(capsys, "evaluate", "--model=rank.json", "--data=rank.letor", "--metric=ndcg@3", "--json")
    )
    assert found["metrics"]["ndcg@3"] == 1.0


# inspect


def test_what_a_model_is(capsys):
    out = printed(capsys, "inspect", "--model=class.json", "--top=1")
    model = pvtree.Model.load("class.json")
    assert "multiclass, gradient boosting" in out and "'a,b', 'low', 'mid'" in out and "9 in 3 iterations" in out
    assert "300 rows" in out and "--top 0 lists all" in out and "3, 1 of them categorical" in out
    found = json.loads(printed(capsys, "inspect", "--model=class.json", "--importance=gain", "--json"))
    assert found["importance"] == dict(zip("abc", model.feature_importance("gain").tolist(), strict=True))
    assert found["leaves"] == sum(tree.n_leaves for tree in model.trees) and found["deepest_leaf"] >= 2
    assert found["categorical"] == {"c": ["w", "x", "y, z"]}


def test_the_text_of_a_tree_leads_every_row_to_its_leaf(capsys):
    """Follow the lines as a reader would, for rows with and without missing values."""
    text = printed(capsys, "inspect", "--model=class.json", "--tree=2").splitlines()
    model, X = expected("class", make_frame())
    tree = model.trees[2]
    assert (
        text[0] == f"tree 2: {tree.n_leaves} leaves, 300 rows" and sum("->" in line for line in text) == tree.n_leaves
    )
    of_leaf = tree.value[tree.feature < 0][:, 0]
    for row, leaf in zip(make_frame().to_dict("records"), model.predict_leaf(X)[:, 2], strict=True):
        depth, lines = 0, iter(text[1:])
        for line in lines:
            if (len(line) - len(line.lstrip())) // 2 == depth and holds(line.strip(), row):
                depth += 1
                if "->" in line:
                    value = float(re.search(r"-> (\S+)", line)[1])
                    break
        assert value == pytest.approx(of_leaf[leaf], rel=1e-4)


def holds(line, row):
    """Whether a line's condition is true of a row."""
    name, word, rest = line.split(" ", 2)
    value = row[name]
    if word in ("in", "not"):
        named = re.findall(r"'([^']*)'", rest.partition("}")[0])
        return (value in named) == (word == "in")
    if value != value:
        return "or missing" in rest
    limit = float(rest.split()[0])
    return value <= limit if word == "<=" else value > limit


# --config


def test_options_from_a_file(capsys, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text(
        'data = "value.csv"\nlabel = "y"\nweight = "w"\nnum_leaves = 5\n'
        '[train]\nn-estimators = 3\ntask = "regression"\n'
        f'model = "{tmp_path}/m.json"\nquiet = true\ncategorical_feature = ["b"]\n[evaluate]\nmetric = ["l1", "rmse"]\n'
    )
    main(["train", f"--config={config}", "--categorical-feature=auto"])
    assert (tmp_path / "m.json").read_text() == Path("value.json").read_text()
    main(["train", f"--config={config}"])  # the file fills in what the command line leaves out
    assert list(pvtree.Model.load(tmp_path / "m.json").categories) == [1]
    more = config.read_text().replace("[train]", "monotone_constraints = {a = 1}\n[train]")
    (tmp_path / "more.toml").write_text(more.replace("quiet", 'interaction_constraints = [["a"], ["b"]]\nquiet'))
    main(["train", f"--config={tmp_path / 'more.toml'}"])
    constrained = pvtree.Model.load(tmp_path / "m.json").to_json()
    main(["train", f"--config={config}", "--monotone-constraints=a:1", "--interaction-constraints=a;b"])
    assert pvtree.Model.load(tmp_path / "m.json").to_json() == constrained
    out = printed(capsys, "evaluate", f"--config={config}", "--model=value.json")
    assert [line.split()[0] for line in out.splitlines()] == ["l1", "rmse"]
    for text, words in (
        ("[trian]\n", "section [trian]; did you mean 'train'"),
        ("num_leafs = 3", "did you mean 'num-leaves'"),
        ("[train]\nmetric = 'l1'", "key 'metric'; did you mean"),
        ("[train]\nnum-leaves = 'many'", "'many' is not a valid integer"),
    ):
        config.write_text(text)
        with pytest.raises(SystemExit) as ended:
            main(["train", f"--config={config}", "--data=value.csv", "--label=y", "--task=regression"])
        told = capsys.readouterr().err
        assert ended.value.code == 2 and words in told and told.count("\n") == 1, told


# Shells


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pvtree ev", ["evaluate"]),
        ("pvtree predict --p", ["--proba"]),
        ("pvtree train --task r", ["regression", "ranking"]),
        ("pvtree train --top-k", ["--top-k"]),
        ("pvtree train --tree-learner v", ["voting"]),
        ("pvtree inspect --model ", []),
    ],
)
def test_completion_of_words(words, found, capsys, monkeypatch):
    """Ask as bash does: variables in, one line per candidate out."""
    monkeypatch.setenv("_PVTREE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    candidates = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [value for kind, value in candidates if kind == "plain"] == found
    if not found:
        assert candidates == [["file", ""]]  # the shell lists files


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, capsys):
    assert f"_PVTREE_COMPLETE={shell}_complete" in printed(capsys, "completion", shell)


# Progress


class Terminal:
    """A pseudo-terminal as standard error, and what was drawn on it."""

    def __enter__(self):
        self.ours, theirs = pty.openpty()
        import fcntl
        import struct
        import termios

        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        self.file, self.before = open(theirs, "w"), sys.stderr
        sys.stderr = self.file
        os.set_blocking(self.ours, False)
        return self

    def __exit__(self, *_):
        sys.stderr = self.before
        try:
            self.drawn = os.read(self.ours, 10**6).decode()
        except BlockingIOError:
            self.drawn = ""
        self.file.close()
        os.close(self.ours)


@pytest.mark.parametrize("quiet", [False, True])
def test_the_progress_bar(quiet, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(progress_bar, "SILENT_SECONDS", 0)
    given = ["train", "--data=rank.letor", "--valid=rank.letor", "--task=ranking", f"--model={tmp_path / 'm.json'}",
             "--tree-learner=voting", "--workers=3", "--top-k=2", "--n-estimators=12", "--num-leaves=5"]  # fmt: skip
    real = progress_bar.TrainingBar.__init__

    def draws_every_tree(self, *args, **kwargs):
        real(self, *args, **kwargs)
        self.mininterval = 0

    monkeypatch.setattr(progress_bar.TrainingBar, "__init__", draws_every_tree)
    with Terminal() as terminal:
        main([*given, "--quiet"] if quiet else given)
    if quiet:
        assert not terminal.drawn and not capsys.readouterr().out
        return
    pattern = r"(\d+)/12 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+ trees/s, [\d.]+ k?B/tree, rank\.letor ndcg@10=[\d.]+\]"
    assert int(re.findall(pattern, terminal.drawn)[-1]) >= 11, terminal.drawn
    assert terminal.drawn.startswith("reading rank.letor ...\r")
    sent = float(re.search(r"([\d.]+) kB sent per worker and tree", capsys.readouterr().out)[1])
    assert float(re.findall(r"([\d.]+) kB/tree", terminal.drawn)[-1]) == pytest.approx(sent, rel=0.2)
    main(given)  # no terminal, no bar
    assert not capsys.readouterr().err


# The documentation


def test_the_commands_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    """Run the page from top to bottom, in a folder that holds what the page makes."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    commands = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, "command-line.md", "exec"), {})
        elif language == "toml":
            Path("pvtree.toml").write_text(block)
        else:
            commands += [shlex.split(line) for line in block.replace("\\\n", " ").splitlines()]
    assert {words[1] for words in commands} >= {"train", "predict", "evaluate", "inspect", "export", "plan"}
    for program, *words in commands:
        assert program == "pvtree"
        main(words)
    printed = capsys.readouterr().out
    assert float(re.search(r"^auc +([\d.]+)", printed, re.MULTILINE)[1]) > 0.97
    assert {"model.json", "model.txt", "predictions.csv", "probabilities.parquet", "contributions.npy"} <= {
        path.name for path in tmp_path.iterdir()
    }
