"""Training metrics that start anew, and summaries of an evaluation, as users do them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import estimand as est
from estimand.engine.events import EventWriter, event_files, read_events, read_scalars
from tests.legacy.conversion_program import RESET_EVERY, model_fn
from tests.legacy.v1_view import tf

BATCH, STEPS = 20, 10
_random = np.random.RandomState(5)
X = _random.normal(size=(STEPS * BATCH, 2)).astype(np.float32)
CVR = (_random.uniform(size=len(X)) < 0.4).astype(np.float32)
COST = X.sum(axis=1).astype(np.float32)


def input_fn() -> Any:
    data = ({"x": X}, {"cvr": CVR, "cost": COST})
    return tf.data.Dataset.from_tensor_slices(data).batch(BATCH)


class MetricValues(tf.train.SessionRunHook):
    """Reads the metrics' values after every step, without updating them."""

    def __init__(self) -> None:
        self.seen: list[dict[str, float]] = []

    def begin(self) -> None:
        scope = "train_metrics_scope"
        self.values = {
            "cvr_loss": f"{scope}/mean/value:0",
            "cost_loss": f"{scope}/mean_squared_error/value:0",
            "auc": f"{scope}/auc/value:0",
        }

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_context.session.run(self.values))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    hook = MetricValues()
    model_dir = str(tmp_path_factory.mktemp("conversion"))
    config = est.RunConfig(model_dir, progress=False, save_summary_steps=1)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"lr": 0.0})
    estimator.train(input_fn, hooks=[hook])
    evaluated = estimator.evaluate(input_fn)
    EventWriter.get(model_dir).flush()
    return {"estimator": estimator, "values": hook.seen, "evaluated": evaluated}


def counted(step: int) -> slice:
    """The rows that count after a step: those after the last reset."""
    reset = step - step % RESET_EVERY  # the step before which global_step % RESET_EVERY was 0
    return slice((reset + 1) * BATCH, (step + 1) * BATCH)


def test_means_start_anew_every_few_steps(run: dict[str, Any]) -> None:
    """With a rate of 0 all logits stay 0: loss log(2), cost predicted as 0."""
    for step, values in enumerate(run["values"]):
        rows = counted(step)
        empty = rows.start == rows.stop
        weighted = np.average(COST[rows] ** 2, weights=CVR[rows]) if not empty else 0
        assert values["cvr_loss"] == pytest.approx(0 if empty else np.log(2), abs=1e-5), step
        assert values["cost_loss"] == pytest.approx(weighted, rel=1e-5, abs=1e-6), step
    assert len(run["values"]) == STEPS


def test_auc_starts_anew_too(run: dict[str, Any]) -> None:
    # All predictions are one half: an area of one half as soon as anything was counted.
    areas = [values["auc"] for values in run["values"]]
    expected = [0 if step % RESET_EVERY == 0 else 0.5 for step in range(STEPS)]
    np.testing.assert_allclose(areas, expected, atol=1e-3)


def test_training_summaries_show_the_values_before_the_step(run: dict[str, Any]) -> None:
    """A read that waits for nothing comes before the step's update and reset."""
    scalars = read_scalars(run["estimator"].model_dir)
    shown = dict(scalars["train_metrics_summary/cost_loss"])
    after = {step + 1: values["cost_loss"] for step, values in enumerate(run["values"])}
    expected = {1: 0.0, **{step + 1: value for step, value in after.items() if step < STEPS}}
    assert shown == pytest.approx(expected, rel=1e-5)


def test_metrics_of_training_are_not_in_the_checkpoint(run: dict[str, Any]) -> None:
    names = run["estimator"].get_variable_names()
    assert not [name for name in names if "metrics" in name]


def test_summaries_of_the_evaluation_land_beside_its_metrics(run: dict[str, Any]) -> None:
    directory = Path(run["estimator"].model_dir, "eval")
    values = [
        (event.step, value)
        for file in event_files(directory)
        for event in read_events(file)
        for value in event.summary.value
    ]
    tags = [(step, value.tag) for step, value in values]
    assert tags.count((STEPS, "histogram_summary/pred_cvr")) == STEPS  # one per batch
    assert tags.count((STEPS, "histogram_summary/cvr_cost")) == STEPS
    assert tags.count((STEPS, "auc")) == 1
    histograms = [v.histo for _, v in values if v.tag == "histogram_summary/pred_cvr"]
    assert [h.num for h in histograms] == [BATCH] * STEPS
    assert all(h.min == h.max == 0.5 for h in histograms)


def test_auc_of_a_trained_model_equals_the_exact_one(tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score

    config = est.RunConfig(str(tmp_path), progress=False)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"lr": 0.1})
    estimator.train(input_fn)
    weights = estimator.get_variable_value("w")
    scores = tensorflow.sigmoid(X @ weights)[:, 0].numpy()
    result = estimator.evaluate(input_fn)
    assert result["auc"] == pytest.approx(roc_auc_score(CVR, scores), abs=1e-3)


def test_eager_run_trains_the_same_model(tmp_path: Path) -> None:
    found = []
    for eager in (False, True):
        config = est.RunConfig(str(tmp_path / f"{eager}"), progress=False, run_eagerly=eager)
        estimator = tf.estimator.Estimator(model_fn, config=config, params={"lr": 0.1})
        estimator.train(input_fn)
        found.append((estimator.get_variable_value("w"), estimator.evaluate(input_fn)))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    assert found[0][1] == pytest.approx(found[1][1], abs=1e-6)
