"""Checkpoints: written at once or not at all, refused when damaged or of another training, shared by the workers."""

import errno
import hashlib
import json
import math
import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import HISTORY, mark_of, model_of
from pvtree.comm import Solo
from pvtree.comm.local import run
from pvtree.errors import InvalidParameterError, InvalidTypeError, ModelFileError
from pvtree.parameters.params import Params
from pvtree.training.callbacks import CallbackEnv, EarlyStopException, EvalResult, early_stopping
from pvtree.training.checkpoint_file import FILE_NAME, PARTIAL, Checkpoint, dump, parse


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "folder")


@pytest.fixture
def written(checkpoint):
    """One with a good file."""
    assert checkpoint.resume(mark_of(), Solo()) is None
    checkpoint.save(model_of(3), HISTORY, mark_of())
    return checkpoint


# -- The file -----------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back(written):
    for saved in (written.load(), written.resume(mark_of(), Solo())):
        assert saved.model == model_of(3)
        assert repr(saved.history) == repr(HISTORY)  # NaN and infinities too
        assert all(type(result) is EvalResult for results in saved.history for result in results)
        assert saved.fingerprint == mark_of()
    assert os.listdir(written.folder) == [FILE_NAME]
    with open(written.path) as file:
        assert json.load(file)["n_iterations"] == 3  # the whole is one JSON document


def test_a_checkpoint_can_be_cut_back(written):
    written.save(model_of(6, n_outputs=2), HISTORY, mark_of())  # three iterations came from an init_model
    saved = written.load().up_to(1)
    assert saved.model.n_iterations == 4
    assert repr(saved.history) == repr(HISTORY[:1])
    assert written.load().up_to(5).model.n_iterations == 6


def test_when_it_is_due(tmp_path):
    assert [n for n in range(1, 10) if Checkpoint(tmp_path, 4).is_due(n)] == [4, 8]
    with pytest.raises(InvalidParameterError, match="checkpoint_freq must be an integer of at least 1, got 0"):
        Checkpoint(tmp_path, 0)
    with pytest.raises(InvalidTypeError, match="checkpoint must be the path of a folder, got 3"):
        Checkpoint(3)


class Crash(BaseException):
    """The process ends here: nothing after it runs."""


STEPS = ["open", "write", "fsync", "replace", "folder"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), Crash()],
                         ids=["disk", "interrupt", "crash"])  # fmt: skip
def test_an_interrupted_write_leaves_a_good_file(written, monkeypatch, step, failure):
    calls = []

    def fail(*_, **__):
        raise failure

    def failing_fsync(handle):
        calls.append(handle)
        if len(calls) == (1 if step == "fsync" else 2):
            raise failure

    with monkeypatch.context() as patch:
        if step == "open":
            patch.setattr("builtins.open", fail)
        elif step == "write":
            real_open = open
            patch.setattr("builtins.open", lambda *args, **more: Torn(real_open(*args, **more), failure))
        elif step == "replace":
            patch.setattr(os, "replace", fail)
        else:
            patch.setattr(os, "fsync", failing_fsync)
        if isinstance(failure, Crash):
            patch.setattr(os, "unlink", fail)  # nobody cleans up
        with pytest.raises(ModelFileError if isinstance(failure, OSError) else type(failure)) as error:
            written.save(model_of(6), HISTORY, mark_of())
    if isinstance(failure, OSError):
        assert "(No space left on device); the previous one is still valid. Make" in str(error.value)
    is_litter_left = isinstance(failure, Crash) and step in ("write", "fsync", "replace")
    litter = set(os.listdir(written.folder)) - {FILE_NAME}
    assert len(litter) == is_litter_left
    assert all(re.fullmatch(rf"{FILE_NAME}\.[0-9a-f]{{16}}{PARTIAL}", name) for name in litter)
    saved = written.resume(mark_of(), Solo())
    assert saved.model == model_of(6 if step == "folder" else 3)
    assert os.listdir(written.folder) == [FILE_NAME]
    written.save(model_of(6), HISTORY, mark_of())
    assert written.load().model == model_of(6)


def test_what_others_planted_is_neither_written_to_nor_removed(written):
    victim = os.path.join(written.folder, "victim")
    with open(victim, "w") as file:
        file.write("precious")
    stale, link, folder = (f"{written.path}.{digit * 16}{PARTIAL}" for digit in "012")
    open(stale, "w").close()
    os.symlink(victim, link)
    os.symlink(victim, written.path + PARTIAL)  # the name that it had when it could be guessed
    os.mkdir(folder)
    written.resume(mark_of(), Solo())
    assert not os.path.exists(stale)
    written.save(model_of(6), HISTORY, mark_of())
    assert written.load().model == model_of(6)
    assert os.path.islink(link) and os.path.isdir(folder)
    with open(victim) as file:
        assert file.read() == "precious"


class Torn:
    """A file of which half is written before it fails."""

    def __init__(self, file, failure):
        self.file, self.failure = file, failure

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        raise self.failure


def test_the_data_is_on_the_disk_before_the_name(written, monkeypatch):
    order = []
    monkeypatch.setattr(os, "fsync", lambda handle: order.append(os.fstat(handle).st_ino))
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("replace"), real(*paths)))
    written.save(model_of(1), HISTORY[:1], mark_of())
    assert order == [os.stat(written.path).st_ino, "replace", os.stat(written.folder).st_ino]


def test_folders_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidParameterError, match=r"is not a writable folder .* use another"):
            Checkpoint(folder).resume(mark_of(), Solo())
    assert (tmp_path / "file").read_text() == "mine"
    if os.geteuid():  # root may write everywhere
        (tmp_path / "locked").mkdir(0o500)
        with pytest.raises(InvalidParameterError, match="Permission denied"):
            Checkpoint(tmp_path / "locked").resume(mark_of(), Solo())


# -- Damaged and hostile files ------------------------------------------------------------------------------

GOOD = dump(model_of(3), HISTORY, mark_of())


def forged(training=None, model=None, head=None):
    """A file by someone who can compute checksums."""
    lines = GOOD.split(b"\n")
    if training is not None:
        lines[1] = b'"training":' + (training if isinstance(training, bytes) else json.dumps(training).encode()) + b","
    if model is not None:
        lines[2] = b'"model":' + model + b"}"
    checksum = hashlib.sha256(b"\n".join(lines[1:])).hexdigest().encode()
    lines[0] = lines[0][:-66] + checksum + b'",'
    for old, new in (head or {}).items():
        assert old in lines[0]
        lines[0] = lines[0].replace(old, new)
    return b"\n".join(lines)


def history_of(*items):
    return {"fingerprint": mark_of(), "history": [list(items)]}


HOSTILE = {
    "empty": b"",
    "no text": b"\xff\xfe\x00",
    "a model file": model_of(3).to_json().encode(),
    "cut off": GOOD[:-300],
    "altered": GOOD.replace(b'"learning_rate":0.1', b'"learning_rate":0.9'),
    "more behind": GOOD + b"{}",
    "more lines": forged(model=GOOD.split(b"\n")[2][8:-1] + b"}\n"),
    "newer": forged(head={b'"version":1': b'"version":2'}),
    "other count": forged(head={b'"n_iterations":3': b'"n_iterations":4'}),
    "no json": forged(b"{nothing"),
    "deep": forged(b"[" * 100_000),
    "a list": forged([]),
    "no fingerprint": forged({"history": []}),
    "empty fingerprint": forged({"history": [], "fingerprint": {}}),
    "history a number": forged({"history": 3, "fingerprint": mark_of()}),
    "too long a history": forged({"history": [[]] * 4, "fingerprint": mark_of()}),
    "result too short": forged(history_of(["v", "l2", 0.5])),
    "result too long": forged(history_of(["v", "l2", 0.5, True, 1])),
    "value a word": forged(history_of(["v", "l2", "nan", True])),
    "value a list": forged(history_of(["v", "l2", [], True])),
    "value out of range": forged(json.dumps(history_of(["v", "l2", 0.5, True])).replace("0.5", "1e999").encode()),
    "name a number": forged(history_of([1, "l2", 0.5, True])),
    "direction a number": forged(history_of(["v", "l2", 0.5, 1])),
    "result a word": forged(history_of("abcd")),
    "no model": forged(model=b"null"),
    "altered model": forged(model=GOOD.split(b"\n")[2][8:-1].replace(b'"n_features":6', b'"n_features":7')),
    "model not ascii": forged(model="ä".encode()),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_unusable_files_are_refused(written, name):
    assert HOSTILE[name] != GOOD == forged()
    with open(written.path, "wb") as file:
        file.write(HOSTILE[name])
    for read in (written.load, lambda: written.resume(mark_of(), Solo())):
        with pytest.raises(ModelFileError) as error:
            read()
        sentence = str(error.value)
        assert written.path in sentence
        assert sentence.endswith("; delete the file or point checkpoint= elsewhere.")
    with open(written.path, "rb") as file:
        assert file.read() == HOSTILE[name]


def test_a_file_that_is_a_folder(checkpoint):
    os.makedirs(checkpoint.path)
    with pytest.raises(ModelFileError, match=r"cannot be read .* delete the file"):
        checkpoint.resume(mark_of(), Solo())


def test_a_file_that_never_ends(checkpoint):
    os.makedirs(checkpoint.folder)
    os.mkfifo(checkpoint.path)  # as with /dev/full and /dev/zero, whoever reads it does not come back
    with pytest.raises(ModelFileError, match=r"\(it is a pipe or a device\); delete the file"):
        checkpoint.resume(mark_of(), Solo())


@settings(max_examples=100)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(at, change):
    bad = bytearray(GOOD)
    bad[at] ^= change
    with pytest.raises(ModelFileError):
        parse(bytes(bad), "x")


# -- Several workers ----------------------------------------------------------------------------------------


def resume_in(folders, mark=None):
    def work(comm):
        saved = Checkpoint(folders[comm.rank]).resume(mark_of() if mark is None else mark, comm)
        return saved, comm.traffic.total().calls

    return run(work, len(folders), timeout=20)


def test_the_worker_with_the_most_iterations_tells_the_others(tmp_path):
    folders = [tmp_path / str(i) for i in range(4)]
    assert resume_in(folders) == [(None, 0)] * 4
    assert [folder.exists() for folder in folders] == [True, False, False, False]  # worker 0 writes
    for folder, n in zip(folders[1:], (2, 3, 3), strict=True):
        folder.mkdir()
        mark = mark_of(evaluation=["other"]) if folder == folders[3] else mark_of()
        Checkpoint(folder).save(model_of(n), HISTORY[:n], mark)  # worker 2 goes before worker 3
    for saved, calls in resume_in(folders):
        assert saved.model == model_of(3)
        assert repr(saved.history) == repr(HISTORY)
        assert calls == 0  # it is no part of what training costs
    with pytest.raises(InvalidParameterError, match="of worker 2 is of another training: learning_rate"):
        resume_in(folders, mark_of(Params(learning_rate=0.5)))


def test_a_damaged_file_of_one_worker_is_an_error_on_all(tmp_path):
    folders = [tmp_path / str(i) for i in range(3)]
    Checkpoint(folders[0]).resume(mark_of(), Solo())
    Checkpoint(folders[0]).save(model_of(3), HISTORY, mark_of())
    folders[2].mkdir()
    (folders[2] / FILE_NAME).write_bytes(GOOD[:-9])
    sentences = []

    def work(comm):
        try:
            Checkpoint(folders[comm.rank]).resume(mark_of(), comm)
        except ModelFileError as error:
            sentences.append(str(error))

    run(work, 3, timeout=20)
    assert len(sentences) == 3
    assert all(str(folders[2]) in sentence for sentence in sentences)


# -- Early stopping goes on as if never interrupted ---------------------------------------------------------


def watch(callback, history, end, begin=0, first=0):
    """The iteration at which the callback stops, and the best one; None if it does not."""
    for i in range(first, len(history)):
        try:
            callback(CallbackEnv(None, None, begin + i, begin, begin + end, history[i]))
        except EarlyStopException as stop:
            return i, stop.best_iteration, repr(stop.best_score)
    return None


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.5, 0.6, 0.7, math.nan, math.inf]), min_size=1, max_size=12),
       st.integers(0, 12), st.integers(1, 4), st.sampled_from([0, 5]))  # fmt: skip
def test_early_stopping_decides_the_same_after_a_restart(values, n_done, rounds, begin):
    history = [[EvalResult("v", "auc", value, True), EvalResult("training", "auc", 1.0, True)] for value in values]
    never_interrupted = watch(early_stopping(rounds), history, len(values), begin)
    n_done = min(n_done, len(values) if never_interrupted is None else never_interrupted[0] + 1)
    saved = parse(dump(model_of(begin + n_done), history[:n_done], mark_of()), "x")
    callback = early_stopping(rounds)
    assert callback.replays
    stopped = watch(callback, saved.history, len(values), begin)
    assert (stopped or watch(callback, history, len(values), begin, n_done)) == never_interrupted
