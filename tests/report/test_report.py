"""A report of a real training, and of model_dirs in any state."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import NoModelError
from estimand.engine.events import EventWriter
from estimand.report import history
from tests.serving.page.browser import Browser, find_browser

WORD = "<script>bad()</script>"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[est.Estimator, Path]:
    model_dir = tmp_path_factory.mktemp("runs") / "mine"
    estimator = est.LinearClassifier(
        [est.feature_column.numeric_column("x"), words()],
        str(model_dir),
        config=est.RunConfig(tf_random_seed=1, save_summary_steps=10, progress=False),
    )
    spec = est.EvalSpec(input_fn, steps=None, every_n_steps=20)
    est.train_and_evaluate(estimator, est.TrainSpec(input_fn, max_steps=40), spec)
    return estimator, model_dir


def words() -> object:
    return est.feature_column.categorical_column_with_vocabulary_list("word", [WORD, "good"])


def input_fn(mode: str) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    x = random.normal(size=200).astype("float32")
    features = {"x": x, "word": np.where(random.random(200) < 0.5, WORD, "good")}
    rows = tf.data.Dataset.from_tensor_slices((features, (x > 0).astype("int64")))
    return (rows.repeat() if mode == est.ModeKeys.TRAIN else rows).batch(50)


def test_history_holds_curves_checkpoints_and_starts(trained: tuple[est.Estimator, Path]) -> None:
    _, model_dir = trained
    known = history.read(model_dir)
    assert known.name == "mine" and known.last_step == 40
    assert known.evaluations[""]["accuracy"].steps == [20, 40]
    assert known.training["loss"].steps[0] <= 10
    assert [start.step for start in known.starts] == [1]  # the first one it made
    last = known.checkpoints[-1]
    assert last.step == 40 and last.problem is None and last.bytes > 0
    assert last.metrics["accuracy"] == known.evaluations[""]["accuracy"].values[-1]


def test_page_names_what_it_shows_and_runs_nothing_of_it(
    trained: tuple[est.Estimator, Path], tmp_path: Path
) -> None:
    estimator, model_dir = trained
    path = est.report.write(tmp_path / "r.html", [model_dir], estimator, input_fn, rows=100)
    text = Path(path).read_text()
    body = text[text.index("<body>") :]
    assert "100 rows of the evaluation input" in body
    for title in ("Confusion", "ROC", "Calibration", "Importance of columns", "model.ckpt-40"):
        assert title in body
    assert html.escape(WORD) in body and WORD not in body
    assert not re.search(r'(src|href)="https?:', body)


def test_steps_made_twice_count_once(tmp_path: Path) -> None:
    for values in ({0: 3.0, 10: 2.0, 20: 1.0}, {10: 2.5, 20: 1.5}):
        writer = EventWriter.get(tmp_path)
        for step, value in values.items():
            writer.scalar("loss", value, step)
        writer.close()
    curve = history.read(tmp_path).training["loss"]
    assert curve.steps == [0, 10, 20] and curve.values == [3.0, 2.5, 1.5]


def test_several_runs_are_compared_and_the_best_marked(tmp_path: Path) -> None:
    for name, accuracy, loss in (("a", 0.8, 0.3), ("b", 0.9, 0.4)):
        writer = EventWriter.get(tmp_path / name / "eval")
        writer.scalars({"accuracy": accuracy, "loss": loss}, 100)
        writer.close()
    text = Path(est.report.write(tmp_path / "r.html", [tmp_path / "a", tmp_path / "b"])).read_text()
    best = re.findall(r'<td class="best">([^<]*)</td>', text)
    assert best == ["0.3", "0.9"]


def test_runs_of_one_name_are_told_apart_and_nan_is_never_the_best(tmp_path: Path) -> None:
    for name, accuracy, loss in (("a", float("nan"), 0.3), ("b", 0.9, float("nan"))):
        writer = EventWriter.get(tmp_path / name / "run" / "eval")
        writer.scalars({"accuracy": accuracy, "loss": loss}, 100)
        writer.close()
    given = [tmp_path / "a/run", tmp_path / "b/run", tmp_path / "a/run/"]
    text = Path(est.report.write(tmp_path / "r.html", given)).read_text()
    assert re.findall(r'<td class="best">([^<]*)</td>', text) == ["0.3", "0.9"]
    assert re.findall(r'<td class="text">([^<]*)</td>', text)[:2] == ["a/run", "b/run"]


def test_page_says_where_the_time_of_each_run_went(
    trained: tuple[est.Estimator, Path], tmp_path: Path
) -> None:
    _, model_dir = trained
    spent = history.read(model_dir).time_spent
    assert {"starting", "input", "steps", "checkpoints", "evaluation"} <= spent.keys()
    waiting, unknown = tmp_path / "waiting", tmp_path / "unknown"
    for directory, seconds in ((waiting, {"input": 90, "steps": 10}), (unknown, {"steps": 7200})):
        EventWriter.get(directory).scalar("loss", 1.0, 1)
        EventWriter.get(directory).close()
        (directory / "estimand_time.json").write_text(json.dumps({"seconds": seconds}))
    text = Path(est.report.write(tmp_path / "r.html", [waiting, unknown])).read_text()
    section = text[text.index('<section id="time">') :].partition("</section>")[0]
    columns = re.findall(r"<th>([^<]*)</th>", section)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section)
    assert columns == ["run", "input", "steps", "in all", "steps waited"]
    assert cells[:5] == ["waiting", "1:30 min", "10.00 s", "1:40 min", "90 %: input-bound"]
    assert cells[5:] == ["unknown", "", "2:00:00 h", "2:00:00 h", "not known"]


def test_runs_that_noted_no_time_have_no_such_section(tmp_path: Path) -> None:
    EventWriter.get(tmp_path).scalar("loss", 1.0, 1)
    EventWriter.get(tmp_path).close()
    text = Path(est.report.write(tmp_path / "r.html", [tmp_path])).read_text()
    assert "Where the time went" not in text


@pytest.mark.parametrize("directory", ["nowhere", "."])
def test_what_is_no_model_dir_is_told(directory: str, tmp_path: Path) -> None:
    with pytest.raises(NoModelError, match=r"no directory|holds neither checkpoints nor event"):
        est.report.write(tmp_path / "r.html", [tmp_path / directory])
    assert not (tmp_path / "r.html").exists()


def test_every_picture_is_drawn_in_a_browser_without_a_network(
    trained: tuple[est.Estimator, Path], tmp_path: Path
) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium or Chrome is installed (Debian: apt-get install chromium)")
    estimator, model_dir = trained
    path = est.report.write(tmp_path / "r.html", [model_dir], estimator, input_fn, rows=100)
    page = Browser(program, tmp_path / "profile")
    try:
        page.size(1280, 900)
        page.open(Path(path).as_uri())
        page.wait_for("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
        page.wait_for("document.readyState == 'complete'")
        cards = page.run("document.querySelectorAll('.plotly-graph-div').length")
        drawn = page.run("document.querySelectorAll('.js-plotly-plot').length")
        assert cards == drawn >= 8
        wide = "[...document.querySelectorAll('.card')].filter(c => c.scrollWidth > c.clientWidth)"
        page.wait_for(f"{wide}.length == 0")
        assert page.problems == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
    finally:
        page.close()


def test_answers_of_several_heads_are_judged_one_by_one(tmp_path: Path) -> None:
    def two_labels(mode: str) -> tf.data.Dataset:
        def named(features: object, label: tf.Tensor) -> object:
            return features, {"yes": label, "number": tf.cast(label, tf.float32)}

        return input_fn(mode).map(named)

    head = est.MultiHead([est.BinaryClassHead(name="yes"), est.RegressionHead(name="number")])
    column = est.feature_column.numeric_column("x")
    config = est.RunConfig(tf_random_seed=1, progress=False)
    model = est.DNNEstimator(head, [4], [column], str(tmp_path / "run"), config=config)
    model.train(two_labels, max_steps=10)
    path = est.report.write(tmp_path / "r.html", [model.model_dir], model, two_labels)
    page = Path(path).read_text()
    for title in ("right and wrong: yes", "right and wrong: number", "Confusion", "Errors"):
        assert title in page
    est.report.write_board(model.model_dir, model, two_labels)


@pytest.mark.parametrize("kind", [est.LinearClassifier, est.LinearRegressor])
def test_answers_that_are_no_numbers_are_left_out_and_told(kind: type, tmp_path: Path) -> None:
    def without(share: float) -> Callable[[str], tf.data.Dataset]:
        def lose(features: Any, label: tf.Tensor) -> Any:
            kept = tf.linspace(0.0, 1.0, tf.size(features["x"])) >= share
            return {"x": tf.where(kept, features["x"], np.nan)}, label

        return lambda mode: input_fn(mode).map(lose)

    column = est.feature_column.numeric_column("x")
    config = est.RunConfig(tf_random_seed=1, progress=False)
    model = kind([column], str(tmp_path / "run"), config=config).train(input_fn, max_steps=1)
    for share, told in (
        (0.5, "100 answers are no finite numbers"),
        (2.0, "None of the model&#39;s answers is a finite number."),
    ):
        path = est.report.write(tmp_path / "r.html", [model.model_dir], model, without(share))
        assert told in Path(path).read_text()
        est.report.write_board(model.model_dir, model, without(share))


def test_input_that_cannot_be_judged_is_said_on_the_page(
    trained: tuple[est.Estimator, Path], tmp_path: Path
) -> None:
    def sparse(mode: str) -> tf.data.Dataset:
        return input_fn(mode).map(lambda f, y: ({**f, "s": tf.sparse.from_dense(f["x"])}, y))

    estimator, model_dir = trained
    page = Path(est.report.write(tmp_path / "r.html", [model_dir], estimator, sparse)).read_text()
    assert "Not judged" in page and "model.ckpt-40" in page
