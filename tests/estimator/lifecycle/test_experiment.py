"""`est.Experiment` and `learn_runner.run`, as code of TensorFlow 1 uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand as est
from tests.estimator.lifecycle import line


def experiment(model_dir: Path, **more: Any) -> est.Experiment:
    arguments = {"train_steps": 10, "eval_steps": None, **more}
    return est.Experiment(
        estimator=line.estimator(model_dir),
        train_input_fn=line.train_input_fn,
        eval_input_fn=line.eval_input_fn,
        **arguments,
    )


def test_train_and_evaluate_gives_metrics_and_exports(tmp_path: Path) -> None:
    exporter = line.RecordingExporter()
    metrics, exports = experiment(tmp_path, export_strategies=[exporter]).train_and_evaluate()
    np.testing.assert_allclose(metrics["loss"], line.loss_after(10), rtol=1e-5)
    assert exports == ["export 4"]


@pytest.mark.parametrize(
    ("min_eval_frequency", "steps"),
    [(None, [3, 6, 9, 10]), (1, [3, 6, 9, 10]), (5, [6, 10]), (0, [10])],
)
def test_min_eval_frequency(tmp_path: Path, min_eval_frequency: int, steps: list[int]) -> None:
    one = experiment(tmp_path, min_eval_frequency=min_eval_frequency)
    one.train_and_evaluate()
    assert line.evaluated_steps(one.estimator) == steps


def test_continuous_train_and_eval_alternates_to_the_end(tmp_path: Path) -> None:
    one = experiment(tmp_path, train_steps_per_iteration=4)
    metrics, _ = one.continuous_train_and_eval()
    assert line.evaluated_steps(one.estimator) == [4, 8, 10]
    assert metrics["global_step"] == 10


def test_continuous_train_and_eval_ends_when_the_function_says_so(tmp_path: Path) -> None:
    one = experiment(tmp_path, train_steps_per_iteration=4)
    seen: list[Any] = []

    def go_on(metrics: Any) -> bool:
        seen.append(metrics)
        return len(seen) < 2

    metrics, _ = one.continuous_train_and_eval(go_on)
    assert seen[0] is None and seen[1]["global_step"] == 4
    assert metrics["global_step"] == 4


def test_train_evaluate_and_test(tmp_path: Path) -> None:
    one = experiment(tmp_path)
    metrics, _ = one.test()
    assert metrics["global_step"] == 1
    assert one.train() is one.estimator
    assert one.evaluate(name="late")["global_step"] == 10
    assert line.evaluated_steps(one.estimator, "late") == [10]


def test_learn_runner_with_a_run_config_and_hparams(tmp_path: Path) -> None:
    """As in the seeds: the second argument has whatever name it has."""

    def experiment_fn(run_config: est.RunConfig, params: est.HParams) -> est.Experiment:
        return est.Experiment(
            estimator=est.Estimator(line.model_fn, config=run_config),
            train_input_fn=line.train_input_fn,
            eval_input_fn=line.eval_input_fn,
            train_steps=params.train_steps,
            min_eval_frequency=params.min_eval_frequency,
        )

    metrics, _ = est.learn_runner.run(
        experiment_fn=experiment_fn,
        run_config=est.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=4),
        schedule="train_and_evaluate",
        hparams=est.HParams(train_steps=6, min_eval_frequency=1),
    )
    assert metrics["global_step"] == 6


def test_learn_runner_with_an_output_dir(tmp_path: Path) -> None:
    result = est.learn_runner.run(lambda output_dir: experiment(output_dir), str(tmp_path))
    assert result[0]["global_step"] == 10


def test_learn_runner_with_a_subclass(tmp_path: Path) -> None:
    class Twice(est.Experiment):
        def twice(self) -> list[Any]:
            return [self.train_and_evaluate()[0]["global_step"] for _ in range(2)]

    def experiment_fn(output_dir: str) -> est.Experiment:
        estimator = line.estimator(output_dir)
        return Twice(estimator, line.train_input_fn, line.eval_input_fn, train_steps=3)

    result = est.learn_runner.run(experiment_fn, str(tmp_path), "train_and_evaluate")
    assert result[0]["global_step"] == 3
    assert est.learn_runner.run(experiment_fn, str(tmp_path), "twice") == [3, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiment_fn": 1, "output_dir": "x"}, "is not callable"),
        ({"experiment_fn": experiment}, "Exactly one of run_config and output_dir"),
        ({"experiment_fn": lambda d: 1, "output_dir": "x"}, "did not return an Experiment"),
        (
            {"experiment_fn": experiment, "output_dir": "x", "schedule": "fly"},
            "non-existent task 'fly'. There are: .*train_and_evaluate",
        ),
        (
            {"experiment_fn": experiment, "run_config": est.RunConfig()},
            "Must specify a model directory",
        ),
    ],
)
def test_learn_runner_complains(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        est.learn_runner.run(**arguments)


def test_metrics_of_its_own_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`eval_metrics` must be `None`.*est.add_metrics"):
        experiment(tmp_path, eval_metrics={"a": 1})


def test_something_other_than_an_estimator_is_refused() -> None:
    with pytest.raises(TypeError, match="`estimator` must have type"):
        est.Experiment("model", line.train_input_fn, line.eval_input_fn)
