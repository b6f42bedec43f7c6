"""What can be watched of a model that runs eagerly: summaries, named tensors, the init_fn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import event_files, read_events, read_scalars

v1 = tf.compat.v1


def ones() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((np.ones((4, 2), "f"), np.ones((4, 1), "f"))).repeat()


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> est.EstimatorSpec:
    w = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
    out = features @ w
    loss = tf.reduce_mean(tf.square(out - labels))
    with tf.name_scope("part"):
        v1.summary.scalar("out", tf.reduce_mean(out))
        tf.identity(loss, name="seen")
    v1.summary.histogram("weights", w / params.get("divisor", 1.0))
    v1.summary.image("picture", tf.zeros([1, 2, 2, 1]))
    tf.summary.scalar("sum", tf.reduce_sum(w))
    step = v1.train.get_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    init_fn = params.get("init_fn")
    scaffold = v1.train.Scaffold(init_fn=lambda _, session: init_fn(w)) if init_fn else None
    return est.EstimatorSpec(mode, out, loss, train_op, scaffold=scaffold)


def estimator(model_dir: Path, *, eager: bool = True, **params: Any) -> est.Estimator:
    config = est.RunConfig(
        run_eagerly=eager, save_summary_steps=2, log_step_count_steps=2, progress=False
    )
    return est.Estimator(model_fn, str(model_dir), config, params)


def test_summaries_are_those_of_a_traced_run(tmp_path: Path) -> None:
    tags, numbers = {}, {}
    for eager in (False, True):
        folder = tmp_path / str(eager)
        estimator(folder, eager=eager).train(ones, steps=5)
        events = [e for f in event_files(folder) for e in read_events(f)]
        tags[eager] = {(e.step, v.tag) for e in events for v in e.summary.value}
        numbers[eager] = read_scalars(folder)
        numbers[eager].pop("global_step/sec")
    assert tags[True] == tags[False]
    # By hand: the weights start at 0 and both move by 0.2 (1 - out), so out is 1 - 0.6 ** step.
    outs = [(1, 0.0), (3, 1 - 0.6**2), (5, 1 - 0.6**4)]
    assert numbers[True].keys() == {"part/out", "sum", "loss"}
    for found in numbers.values():
        assert found["part/out"] == [(s, pytest.approx(out, abs=1e-6)) for s, out in outs]
        assert found["loss"] == [(s, pytest.approx((1 - out) ** 2, abs=1e-6)) for s, out in outs]


class Fetch(est.SessionRunHook):
    def __init__(self, name: str) -> None:
        self.name, self.seen = name, []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self.name)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(float(run_values.results))


def test_a_named_tensor_is_fetched_by_its_name(tmp_path: Path) -> None:
    hook = Fetch("part/seen:0")
    estimator(tmp_path).train(ones, steps=3, hooks=[hook])
    assert hook.seen == [pytest.approx(0.6 ** (2 * step), abs=1e-6) for step in range(3)]


def test_what_has_no_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(est.errors.ModelFnError, match=r"fetches 'MatMul:0'.*tf\.identity\(tensor"):
        estimator(tmp_path).train(ones, steps=1, hooks=[Fetch("MatMul:0")])


def test_init_fn_sets_the_weights_before_the_first_step(tmp_path: Path) -> None:
    calls = []

    def init_fn(w: tf.Variable) -> None:
        calls.append(w.numpy().tolist())
        w.assign([[1.0], [2.0]])

    trained = estimator(tmp_path, init_fn=init_fn).train(ones, steps=1)
    assert calls == [[[0.0], [0.0]]]
    # out = 3, so both weights move by -0.1 * 2 * (3 - 1).
    np.testing.assert_allclose(trained.get_variable_value("w"), [[0.6], [1.6]], atol=1e-6)


@pytest.mark.parametrize("eager", [False, True])
def test_a_histogram_that_cannot_be_made_is_named(tmp_path: Path, eager: bool) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        estimator(tmp_path, eager=eager, divisor=np.nan).train(ones, steps=2)
    said = str(caught.value)
    assert said.startswith("Nan in summary histogram for: weights: the tensor that model_fn")
    assert "\n" not in said and "{{" not in said


class Seen(est.SessionRunHook):
    """Fetches a tensor that it was given; keeps what it saw in a list that outlives it."""

    def __init__(self, tensor: Any, seen: dict[str, list]) -> None:
        self.tensor, self.seen = tensor, seen

    def begin(self) -> None:
        step = v1.train.get_global_step()
        self.seen.setdefault("steps at begin", []).append(int(step.numpy()))

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs({"tensor": self.tensor})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.setdefault("values", []).append(float(run_values.results["tensor"]))

    def end(self, session: Any) -> None:
        self.seen["ended"] = [True]


HOOKS = ("training_hooks", "training_chief_hooks", "evaluation_hooks", "prediction_hooks")


def test_hooks_of_the_model_function_see_each_step(tmp_path: Path, caplog: Any) -> None:
    seen: dict[str, dict[str, list]] = {name: {} for name in HOOKS}

    def with_hooks(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        spec = model_fn(features, tf.ones([4, 1]), mode, {})
        hooks = {name: [Seen(spec.loss, seen[name])] for name in HOOKS}
        logging = v1.train.LoggingTensorHook({"seen": spec.loss}, every_n_iter=1)
        hooks["training_hooks"].append(logging)
        return spec._replace(**hooks)

    config = est.RunConfig(run_eagerly=True, progress=False)
    one = est.Estimator(with_hooks, str(tmp_path), config)
    with caplog.at_level("INFO", logger="tensorflow"):
        one.train(ones, steps=3)
    logged = [r.getMessage()[:10] for r in caplog.records if "seen" in r.getMessage()]
    assert logged == ["seen = 1.0", "seen = 0.3", "seen = 0.1"]
    given = Seen("part/seen", {})
    one.evaluate(ones, steps=2, hooks=[given])
    list(one.predict(lambda: ones().take(2)))
    losses = [pytest.approx(0.6 ** (2 * step), abs=1e-6) for step in range(4)]
    in_training = {"steps at begin": [0], "values": losses[:3], "ended": [True]}
    assert seen["training_hooks"] == seen["training_chief_hooks"] == in_training
    later = {"steps at begin": [3], "values": [losses[3]] * 2, "ended": [True]}
    assert seen["evaluation_hooks"] == seen["prediction_hooks"] == given.seen == later
