"""Whatever goes wrong, every command prints one sentence, exits with the right code and leaves old files intact."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from pvtree.front.cli import main
from pvtree.front.cli.commands import COMMANDS

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TRAIN = ["train", "--task=classification", "--label=y", "--n-estimators=2", "--num-leaves=4", "--model=new.json"]
PREDICT = ["predict", "--output=new.csv"]
EVALUATE = ["evaluate", "--label=y"]
EXPORT, INSPECT, PLAN = ["export", "--output=new.txt"], ["inspect"], ["plan", "--rows=1e6", "--attributes=10"]
READERS = [TRAIN, PREDICT, EVALUATE]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Rows in every format, good and bad, and a model."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    table = pa.table({**{f"x{j}": x[:, j] for j in range(3)}, "y": (x[:, 0] > 0).astype(int)})
    pq.write_table(table, folder / "good.parquet")
    lines = [f"{a},{b},{c},{y}" for (a, b, c), y in zip(x.tolist(), table["y"].to_pylist(), strict=True)]
    (folder / "good.csv").write_text("\n".join(["x0,x1,x2,y", *lines]) + "\n")
    whole = (folder / "good.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "binary.csv").write_bytes(whole)
    (folder / "latin.csv").write_bytes(b"x0,x1,x2,y\n\xe9,1,2,0\n")
    (folder / "zero.csv").write_bytes((folder / "good.csv").read_bytes()[:-3] + b"\0\n")  # far behind the first rows
    spelled = pa.array([b"\xff\xfe", b"b"] * 100).view(pa.string())  # declared as text, which Arrow does not check
    names = {name: spelled if name == "x1" else table[name] for name in table.column_names}
    pq.write_table(pa.table(names), folder / "spelled.parquet")
    pq.write_table(pa.table({**names, "x1": table["x1"], "y": spelled}), folder / "label.parquet")
    (folder / "far.svm").write_text("1 1000000000:1\n0 3:1\n")
    (folder / "ragged.csv").write_text("x0,x1,x2,y\n1,2,3,0\n1,2\n")
    (folder / "binary.svm").write_bytes(whole)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("x0,x1,x2,y\n")
    (folder / "few.csv").write_text("x0,y\n1,0\n")
    (folder / "semicolons.csv").write_text("x0;x1;x2;y\n1;2;3;0\n")
    (folder / "tabs.csv").write_text("x0\tx1\tx2\ty\n1\t2\t3\t0\n")
    (folder / "blanks.csv").write_text("x0,X1 ,x2,Y\n1,2,3,0\n")
    (folder / "text.csv").write_text("x0,x1,x2,y\n1,one,2,0\n")
    (folder / "bare.csv").write_text("0.5,1,2,0\n1,2,3,1\n")
    (folder / "same.csv").write_text("1,1,2,0\n1,2,3,1\n")
    (folder / "twice.csv").write_text("x0,x1,x1,x2,y\n1,2,3,4,0\n2,3,4,5,1\n")
    (folder / "good.dat").write_text("")
    (folder / "bad.toml").write_text("rows = ")
    (folder / "unknown.toml").write_text("[plan]\nrowz = 5\n")
    for name, line in {"float": "n-estimators = 2.5", "endless": "num-leaves = inf", "path": "model = 1.5"}.items():
        (folder / f"{name}.toml").write_text(f"{line}\n[train]\ntask = 'regression'\nlabel = 'y'\ndata = 'good.csv'\n")
    (folder / "nothing").mkdir()
    main([*TRAIN[:-1], f"--data={folder / 'good.parquet'}", f"--model={folder / 'model.json'}"])
    (folder / "damaged.json").write_text((folder / "model.json").read_text()[:-50])
    main([*PREDICT[:-1], "--output=/dev/null", f"--data={folder / 'good.csv'}", f"--model={folder / 'model.json'}"])
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """An empty folder to work in, with the paths of what was made, and a place for temporary files."""
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name in os.listdir(made):
        (work / name).symlink_to(made / name)
    (work / "new.json").write_text("an earlier model")
    return work


def run(arguments, capsys):
    """The exit code, and the only line of standard error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert told.err.startswith("Error: ") and told.err.count("\n") == 1 and "Traceback" not in told.err, told.err
    assert not told.out
    assert len(told.err) < 600 and told.err.rstrip()[-1] in ".?", told.err
    return ended.value.code, told.err


def assert_no_temporary_files():
    if os.listdir(tempfile.gettempdir()):
        gc.collect()  # a process that ends does the same
    assert not os.listdir(tempfile.gettempdir())


def with_data(*data):
    return [([*command, f"--data={name}"], words) for command in READERS for name, words in data]


MODEL_READERS = [[*PREDICT, "--data=good.csv"], [*EVALUATE, "--data=good.csv"], EXPORT, INSPECT]
WRITERS = [([*TRAIN[:-1], "--data=good.csv"], "--model"), (["predict", "--data=good.csv"], "--output"),
           (["export"], "--output")]  # fmt: skip
CASES = [
    # A command, options or keys that are not there
    (["trian"], "Did you mean 'train'"),
    (["frobnicate"], "Use one of train, predict"),
    *[([name, "--hlep"], "o such option") for name in COMMANDS],
    ([*TRAIN, "--data=good.csv", "--num-leafs=3"], "num-leaves"),
    ([*PREDICT, "--data=good.csv", "--probe"], "--proba"),
    ([*EVALUATE, "--data=good.csv", "--metrc=auc"], "--metric"),
    ([*EXPORT, "--modle=m"], "--model"),
    ([*INSPECT, "--tre=1"], "--tree"),
    ([*PLAN, "--leafs=3"], "--leaves"),
    (["completion", "tcsh"], "'tcsh' is not one of"),
    (["train", "--data=good.csv", "--label=y"], "Missing option '--task'"),
    (["train", "--data=good.csv", "--task=regression"], "Missing option '--label'"),
    *[([*command, "--config=nowhere.toml"], "nowhere.toml cannot be read") for command in (PREDICT, INSPECT, PLAN)],
    ([*PLAN, "--config=bad.toml"], "bad.toml is not TOML"),
    ([*PLAN, "--config=unknown.toml"], "key 'rowz'; did you mean 'rows'"),
    (["train", "--config=float.toml"], "'2.5' is not a valid integer"),
    (["train", "--config=endless.toml"], "'inf' is not a valid integer"),
    (["train", "--config=path.toml", "--data=nowhere.csv"], "no file or folder nowhere.csv"),
    # Data
    *with_data(
        ("nowhere.csv", "There is no file or folder nowhere.csv"),
        ("new.json/a.csv", "There is no file or folder new.json/a.csv"),
        ("nothing", "nothing holds no *.parquet files"),
        ("good.dat", "good.dat does not tell its format"),
        ("cut.parquet", "cut.parquet cannot be read as Parquet"),
        ("binary.csv", "binary.csv is no CSV file"),
        ("latin.csv", "latin.csv cannot be read as CSV"),
        ("ragged.csv", "ragged.csv cannot be read as CSV"),
        ("zero.csv", "zero.csv is no CSV file, its byte"),
        ("empty.csv", "empty.csv is empty"),
        ("twice.csv", "twice.csv has several columns named 'x1'"),
        ("header.csv", "header.csv holds no rows"),
        ("bare.csv", "The first line of bare.csv holds the number '0.5' where names"),
        ("same.csv", "if the file has no header, say so: --no-header, or header=False in Python"),
        ("semicolons.csv", "--delimiter ';'"),
        ("tabs.csv", "--delimiter tab"),
    ),
    ([*PREDICT, "--data=blanks.csv"], "lacks 'x1', which the model was trained on; did you mean 'X1 '"),
    ([*EVALUATE, "--data=blanks.csv"], "no column 'y'; did you mean 'Y'"),
    (["predict", "--data=few.csv"], "few.csv lacks 'x1', 'x2'"),  # standard output stays empty
    ([*PREDICT, "--data=good.csv", "--raw", "--leaf"], "--raw and --leaf are different predictions"),
    ([*PREDICT, "--data=binary.svm"], "binary.svm cannot be read as libsvm"),
    ([*TRAIN, "--data=spelled.parquet"], "The column 'x1' holds text that is not UTF-8"),
    *[([*command, "--data=label.parquet"], "The column 'y' holds text that is not UTF-8")
      for command in (TRAIN, EVALUATE)],
    (["train", "--task=classification", "--model=new.json", "--data=far.svm"], "X has 1000000001 columns, whose"),
    ([*PREDICT, "--data=few.csv"], "few.csv lacks 'x1', 'x2'"),
    ([*PREDICT, "--data=text.csv"], "'x1' of text.csv holds text"),
    ([*EVALUATE, "--data=good.csv", "--metric=aux"], "did you mean 'auc'"),
    ([*TRAIN, "--data=good.csv", "--delimiter=ab"], "--delimiter must be one character"),
    ([*TRAIN, "--data=good.csv", "--label=z"], "good.csv has no column 'z'"),
    # Models
    *[([*command, "--model=nowhere.json"], "'nowhere.json' cannot be read") for command in MODEL_READERS],
    *[([*command, "--model=damaged.json"], "'damaged.json' is not a usable") for command in MODEL_READERS],
    ([*INSPECT, "--tree=9"], "has trees 0 to 1"),
    # Folders that cannot be written to: root may write where others may not, but not here
    *[([*command, f"{option}={target}"], "annot")
      for command, option in WRITERS for target in ("new.json/a.csv", "/proc/a.csv", "nowhere/a.csv", "/dev/full")],
    ([*PREDICT, "--data=good.csv", "--output=new.xls"], "suffix of new.xls"),
    # Outputs that would take the place of what is read
    ([*PREDICT, "--data=good.csv", "--output=./good.csv"], "./good.csv is an input"),
    ([*TRAIN, "--data=good.csv", "--model=good.csv"], "good.csv is an input"),
    ([*EXPORT, "--model=model.json", "--output=model.json"], "model.json is an input"),
    ([*TRAIN, "--data=good.csv", "--model=-"], "cannot be written to -"),
    # Other libraries' names
    ([*TRAIN, "--data=good.csv", "--eta=1"], "Did you mean '--learning-rate'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"), CASES, ids=lambda value: " ".join(value)[-50:] if isinstance(value, list) else ""
)
def test_wrong_input_is_a_sentence(arguments, words, place, capsys):
    before = sorted(os.listdir(place))
    code, told = run(arguments, capsys)
    assert code == 2 and words in told, told
    assert sorted(os.listdir(place)) == before and (place / "new.json").read_text() == "an earlier model"
    assert_no_temporary_files()


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name, capsys):
    main([name, "--help"])
    told = capsys.readouterr()
    assert told.out.startswith(f"Usage: pvtree {name}") and not told.err


def test_help_of_all_is_quick(capsys):
    """Only commands that need a slow library import it."""
    main([])
    listed = capsys.readouterr().out
    main(["--help"])
    assert listed == capsys.readouterr().out and all(f"\n  {name} " in listed for name in COMMANDS)
    code = "from pvtree.front.cli import main; main(['--help']); import sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ([*TRAIN, "--data=good.parquet"], 300),
        ([*TRAIN, "--data=good.csv"], 300),  # its temporary copy
        ([*PREDICT, "--data=good.parquet"], 300),
        (["predict", "--data=good.parquet", "--output=new.npy"], 300),
        (["predict", "--data=good.parquet", "--output=new.parquet", "--proba"], 300),
        (EXPORT, 300),
    ],
)
def test_a_full_disk(arguments, limit, place, capsys):
    """A limit on file sizes makes writing fail where a full disk would."""
    before = sorted(os.listdir(place))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        code, told = run(arguments, capsys)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2 and re.search(r"[Cc]annot .*write|cannot be written", told), told
    assert sorted(os.listdir(place)) == before and (place / "new.json").read_text() == "an earlier model"
    assert_no_temporary_files()


def test_folders_without_permission(place, capsys, monkeypatch):
    """The system refuses, or a stand-in for it if the tests run as root."""
    (place / "closed").mkdir()
    (place / "closed" / "a.csv").write_text("x0\n1\n")
    if os.getuid() == 0:
        real = os.listdir

        def refuse(path="."):
            if str(path).endswith("closed"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        monkeypatch.setattr(os, "listdir", refuse)
        monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("closed"))
    else:
        (place / "closed").chmod(0)
    for command in READERS:
        code, told = run([*command, "--data=closed"], capsys)
        assert code == 2 and "closed cannot be read (Permission denied)" in told
    code, told = run([*TRAIN[:-1], "--data=good.csv", "--model=closed/model.json"], capsys)
    assert code == 2 and "cannot be written" in told


def test_a_stop_in_the_middle_leaves_no_files(place, capsys, monkeypatch):
    """Ctrl-C and kill arrive while predictions are written."""
    from pvtree.front.cli import prediction_columns as answers

    for stop, code in ((KeyboardInterrupt(), 130), (MemoryError(), 2), (signal.SIGTERM, 143)):

        def interrupted(*_, stop=stop):
            assert any(name.startswith("new.csv.") for name in os.listdir("."))
            if isinstance(stop, BaseException):
                raise stop
            os.kill(os.getpid(), stop)
            time.sleep(5)

        monkeypatch.setattr(answers, "probabilities", interrupted)
        before = sorted(os.listdir(place))
        with pytest.raises(SystemExit) as ended:
            main([*PREDICT, "--data=good.csv"])
        assert ended.value.code == code
        assert sorted(os.listdir(place)) == before
        assert_no_temporary_files()


def test_standard_output_that_takes_no_more(place):
    """`pvtree ... | head` is not an error; a full disk behind `>` is."""
    command = [sys.executable, "-m", "pvtree", "predict", "--data=good.csv", "--leaf"]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert ended.returncode == 1 and not ended.stderr
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2 and ended.stderr.startswith("Error: No space left") and ended.stderr.count("\n") == 1
