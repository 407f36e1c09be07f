"""The report: what it states is what the model and the rows say, and a real browser shows it."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

import pvtree
from browser import REPORTS, needs_browser, tried
from pvtree.errors import InvalidParameterError, MissingDependencyError
from pvtree.front.cli import main
from pvtree.front.report import page
from pvtree.front.report.intervals import area_under_curve, estimates
from pvtree.front.report.page import Section, render
from pvtree.front.report.subject import Subject, read_rows
from pvtree.model.number_text import shown_number, trimmed

pytest.importorskip("altair")
HOSTILE = "</script><script>document.title='owned'</script>"

rng = np.random.default_rng(0)
N = 400
frame = pd.DataFrame({f"x{i}": rng.normal(size=N) for i in range(5)})
frame[HOSTILE] = rng.normal(size=N)
frame["job"] = pd.Categorical(rng.choice([f"job {i}" for i in range(9)], N))
value = frame.x0 + frame.x1 * frame.x2 + 4.0 * frame.job.isin(["job 1", "job 5"]) + 0.5 * rng.normal(size=N)
label = np.where(value + frame[HOSTILE] > 1.0, "yes", "no")
TRAIN, TEST = slice(0, 250), slice(250, N)


@pytest.fixture(scope="module")
def classifier():
    small = dict(n_estimators=5, num_leaves=6, min_child_samples=5, n_jobs=1)
    fitted = pvtree.GBDTClassifier(**small, tree_learner="voting", n_workers=2, top_k=2, audit=2)
    sets = [(frame[TRAIN], label[TRAIN]), (frame[TEST], label[TEST])]
    return fitted.fit(frame[TRAIN], label[TRAIN], eval_set=sets, eval_names=["training", "test"], eval_metric="auc")


def data_of(text, name):
    return json.loads(re.search(rf'id="data-{name}">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def binary_page(classifier):
    REPORTS.mkdir(parents=True, exist_ok=True)
    path = REPORTS / "virtual-workers.html"
    assert classifier.report(path, frame[TEST], label[TEST]) is classifier
    return path


def test_the_page_has_every_section_and_loads_nothing(binary_page):
    text = binary_page.read_text("utf-8")
    sections = re.findall(r'<section id="(\w+)">', text)
    assert sections == ["summary", "training", "columns", "predictions", "trees", "workers"]
    assert len(text) < 3_000_000
    own = text.replace(page.chart_library(), "")  # names of schemas and licences stand in the library
    assert not re.search(r'(src|href)="(?!#)', own) and "@import" not in own and "url(" not in own


def test_names_from_the_data_stay_text(binary_page):
    text = binary_page.read_text("utf-8")
    assert HOSTILE not in text
    assert "&lt;/script&gt;&lt;script&gt;document.title" in text


def test_thresholds_count_right_and_wrong_rows(binary_page, classifier):
    data = data_of(binary_page.read_text("utf-8"), "threshold")
    score = classifier.predict_proba(frame[TEST])[:, 1]
    for place in (0, 37, 50, 100):
        tn, fp, fn, tp = confusion_matrix(label[TEST] == "yes", score >= data["thresholds"][place]).ravel().tolist()
        assert data["counts"][place] == [tp, fp, fn, tn]


def test_trees_are_those_of_the_model(binary_page, classifier):
    shown = data_of(binary_page.read_text("utf-8"), "trees")
    assert len(shown) == 5
    for tree, drawn in zip(classifier.model_.trees, shown, strict=True):
        assert [node[2] for node in drawn["nodes"]] == tree.left_child.tolist()
    categories = [node[0] for tree in shown for node in tree["nodes"] if node[0].startswith("job in")]
    assert categories and all(re.match(r"job in \d of 9: job \d", question) for question in categories)


def test_metrics_have_intervals(classifier):
    subject = Subject(classifier, read_rows(classifier, frame[TEST], label[TEST], None, None, None))
    found = {each.name: each for each in estimates(subject)}
    assert found["AUC"].value == pytest.approx(roc_auc_score(label[TEST], classifier.predict_proba(frame[TEST])[:, 1]))
    assert found["accuracy"].value == pytest.approx(classifier.score(frame[TEST], label[TEST]))
    for each in found.values():
        assert each.low < each.value < each.high


def test_delongs_interval_against_the_definition():
    y = rng.integers(0, 2, 60)
    score = np.round(rng.normal(size=60) + y, 1)  # with ties
    above = score[y == 1][:, None] - score[y == 0]
    wins = (above > 0) + 0.5 * (above == 0)
    variance = wins.mean(axis=1).var(ddof=1) / (y == 1).sum() + wins.mean(axis=0).var(ddof=1) / (y == 0).sum()
    found = area_under_curve(y, score, np.ones(60))
    assert found.value == pytest.approx(wins.mean())
    assert found.high - found.value == pytest.approx(1.959964 * variance**0.5)
    weight = rng.integers(1, 4, 60).astype(float)
    assert area_under_curve(y, score, weight).value == pytest.approx(roc_auc_score(y, score, sample_weight=weight))


def test_regressors_and_rankers_have_reports_too(tmp_path):
    small = dict(n_estimators=2, num_leaves=4, n_jobs=1)
    regressor = pvtree.GBDTRegressor(**small).fit(frame[TRAIN], value[TRAIN])
    regressor.report(tmp_path / "r.html", frame[TEST], value[TEST])
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "Residuals" in text and '<section id="workers">' not in text
    r2 = re.search(r"<td>R2</td><td class=number>([-.\d]+)</td>", text)[1]
    assert float(r2) == pytest.approx(regressor.score(frame[TEST], value[TEST]), rel=1e-3)
    ranker = pvtree.GBDTRanker(**small).fit(frame, rng.integers(0, 3, N), group=[10] * 40)
    ranker.report(tmp_path / "k.html", frame[TEST], rng.integers(0, 3, 150), group=[10] * 15)
    assert "15 queries, mean" in (tmp_path / "k.html").read_text("utf-8")
    with pytest.raises(InvalidParameterError, match="X is given without y"):
        regressor.report(tmp_path / "n.html", frame)
    assert not (tmp_path / "n.html").exists()


def test_live_reports_are_read_again_until_the_end(tmp_path):
    path, seen = tmp_path / "live.html", []
    watch = [pvtree.live_report(path, every=1e-9), lambda env: seen.append(path.read_text("utf-8"))]
    watch[1].order = 25
    pvtree.GBDTRegressor(n_estimators=3, num_leaves=4, n_jobs=1).fit(
        frame[TRAIN], value[TRAIN], eval_set=[(frame[TEST], value[TEST])], callbacks=watch
    )
    assert ["http-equiv" in text for text in seen] == [True, True, False]
    assert re.search(r"Best \(the points\): valid_0 [.\d]+ at iteration 3\.", seen[2])
    assert "2 of 3 iterations" in seen[1] and len(data_of(seen[2], "charts")) == 1


def test_the_command_line_writes_reports(tmp_path, capsys, classifier):
    model, rows, output = tmp_path / "model.json", tmp_path / "test.csv", tmp_path / "report.html"
    classifier.save(model)
    frame[TEST].assign(y=label[TEST]).to_csv(rows, index=False)
    main(["report", "--model", str(model), "--data", str(rows), "--label", "y", "--output", str(output)])
    assert capsys.readouterr().out == f"{output}\n"
    assert '<section id="predictions">' in output.read_text("utf-8")
    with pytest.raises(SystemExit):
        main(["report", "--model", str(model), "--label", "y", "--output", str(output)])
    assert "name the file too" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch, classifier, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(MissingDependencyError, match=r"needs altair; install it with pip install 'pvtree\[report\]'"):
        classifier.report(tmp_path / "report.html")


@pytest.mark.parametrize(
    ("number", "text"), [(19023.952, "19,024"), (5036.5, "5,036"), (3.0, "3"), (0.12345, "0.1235"), (1e-7, "1e-07")]
)
def test_numbers_are_written_as_people_do(number, text):
    assert shown_number(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(5036.5, "5036.5"), (36.0, "36"), (0.12345, "0.123"), (-0.00012, "-0.00012"), (1200.0, "1200")]
)
def test_zeros_at_the_end_are_left_out(number, text):
    assert trimmed(number, 3) == text


def test_every_mark_of_the_page_is_filled():
    text = render("t", [Section("a", "A")])
    assert "<!--" not in text


@needs_browser
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_a_browser_shows_it_and_answers(binary_page, classifier, tmp_path, width):
    found = tried(binary_page, width, tmp_path)
    assert found["charts"] > 8
    assert (found["threshold"], found["title"]) == ("0.95", "GBDTClassifier report")
    assert found["after"] != found["before"]
    assert (found["all"], found["folded"]) == (classifier.model_.trees[0].n_nodes, 1)
    cut = [label for label in found["labels"] if not re.search(r" <= -?\d[-.e\d]*$| in \d of 9: ", label)]
    assert cut == []  # names are cut, thresholds are not


@needs_browser
def test_a_browser_shows_the_report_of_a_plain_training(tmp_path):
    REPORTS.mkdir(parents=True, exist_ok=True)
    small = dict(n_estimators=4, num_leaves=4, n_jobs=1)
    fitted = pvtree.GBDTRegressor(**small).fit(frame[TRAIN], value[TRAIN], eval_set=[(frame[TEST], value[TEST])])
    fitted.report(REPORTS / "plain.html", frame[TEST], value[TEST])
    found = tried(REPORTS / "plain.html", 800, tmp_path)
    assert found["sections"] == ["summary", "training", "columns", "predictions", "trees"]
