"""When each exporter exports, and what it keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import ConfigError, SpecError
from estimand.engine.events import EventWriter
from estimand.export import versions
from estimand.export.best.record import RECORD_FILE
from tests.export.conftest import (
    X,
    expected,
    input_fn,
    linear_model_fn,
    raw_receiver_fn,
    run_config,
)


class Recorder:
    """An estimator for exporters that notes what it is told, and writes an empty export."""

    def __init__(self, model_dir: Path) -> None:
        self.model_dir = str(model_dir)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def export_saved_model(self, base: str, receiver_fn: Any, **arguments: Any) -> bytes:
        self.calls.append((base, arguments))
        path = versions.write_version(base, lambda folder: Path(folder, "saved_model.pb").touch())
        return path.encode()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def call(
    exporter: est.Exporter, estimator: Any, loss: float, step: int, final: bool = False
) -> Any:
    """Call an exporter as train_and_evaluate does."""
    return exporter.export(
        estimator=estimator,
        export_path=os.path.join(estimator.model_dir, "export", exporter.name),
        checkpoint_path=f"model.ckpt-{step}",
        eval_result={"loss": np.float32(loss), "global_step": np.int64(step)},
        is_the_final_export=final,
    )


def exports(estimator: Any, exporter: est.Exporter) -> list[str]:
    return versions.versions(os.path.join(estimator.model_dir, "export", exporter.name))


# Latest, final, steps


def test_the_latest_exporter_exports_always_and_keeps_some(recorder: Recorder) -> None:
    exporter = est.LatestExporter("latest", raw_receiver_fn, as_text=True, exports_to_keep=2)
    written = [call(exporter, recorder, 1.0, step).decode() for step in range(4)]
    assert exports(recorder, exporter) == written[2:]
    base, arguments = recorder.calls[0]
    assert base == os.path.join(recorder.model_dir, "export", "latest")
    assert arguments == {
        "assets_extra": None, "as_text": True, "checkpoint_path": "model.ckpt-0",
    }  # fmt: skip


def test_the_final_exporter_exports_at_the_end(recorder: Recorder) -> None:
    exporter = est.FinalExporter("final", raw_receiver_fn)
    assert call(exporter, recorder, 1.0, 1) is None
    assert call(exporter, recorder, 1.0, 2, final=True) is not None
    assert len(recorder.calls) == 1


def test_the_steps_exporter_exports_once_for_each_step_and_at_the_end(
    linear: est.Estimator, tmp_path: Path
) -> None:
    estimator = est.Estimator(linear_model_fn, tmp_path, run_config(save_checkpoints_steps=1))

    def train_to(step: int, exporter: est.Exporter, final: bool = False) -> bool:
        estimator.train(input_fn, max_steps=step)
        result = exporter.export(
            estimator,
            str(tmp_path / "export" / exporter.name),
            estimator.latest_checkpoint(),
            {"loss": 1.0, "global_step": step},
            final,
        )
        return result is not None

    def make() -> est.Exporter:
        return est.StepsExporter([2, 3], serving_input_receiver_fn=raw_receiver_fn)

    exporter = make()
    assert [train_to(step, exporter) for step in (1, 2)] == [False, True]
    exporter = make()  # a restart
    assert [train_to(step, exporter) for step in (2, 4, 5)] == [False, True, False]
    assert train_to(6, exporter, final=True)


# The best


def best_exporter(**arguments: Any) -> est.BestExporter:
    return est.BestExporter(serving_input_receiver_fn=raw_receiver_fn, **arguments)


def evaluate_and_call(
    exporter: est.Exporter, estimator: Any, loss: float, step: int, folder: str = "eval"
) -> bool:
    """Evaluation leaves its result in event files before the exporter hears of it."""
    writer = EventWriter.get(os.path.join(estimator.model_dir, folder))
    writer.scalars({"loss": loss}, step)
    writer.flush()
    return call(exporter, estimator, loss, step) is not None


def test_the_first_is_exported_and_then_only_better_ones(recorder: Recorder) -> None:
    exporter = best_exporter()
    losses = [0.5, 0.6, 0.5, 0.4, 0.45, 0.3]
    exported = [evaluate_and_call(exporter, recorder, x, i) for i, x in enumerate(losses)]
    assert exported == [True, False, False, True, False, True]


def test_three_restarts_keep_the_true_best(recorder: Recorder) -> None:
    runs = [[0.5, 0.4, 0.9], [0.8, 0.45], [0.39, 0.6], [0.5, 0.3]]
    step, exported = 0, []
    for losses in runs:
        exporter = best_exporter()  # a restart
        for loss in losses:
            step += 1
            if evaluate_and_call(exporter, recorder, loss, step):
                exported.append(loss)
    assert exported == [0.5, 0.4, 0.39, 0.3]


def test_a_restart_with_real_models_serves_the_best_one(tmp_path: Path) -> None:
    """The bug of tf.estimator: after a restart, the first evaluation was always exported."""
    results = iter([(5, 0.2), (6, 0.7), (7, 0.1), (8, 0.3)])
    answers = {}
    for _ in range(2):
        estimator = est.Estimator(linear_model_fn, tmp_path, run_config())
        exporter = best_exporter()
        for step, loss in (next(results), next(results)):
            estimator.train(input_fn, max_steps=step)
            answers[step] = expected(estimator)
            exporter.export(
                estimator,
                str(tmp_path / "export" / "best_exporter"),
                estimator.latest_checkpoint(),
                {"loss": loss, "global_step": step},
                False,
            )
        with est.load_model(tmp_path / "export" / "best_exporter") as model:
            np.testing.assert_allclose(model(x=X)["y"], answers[5 if step == 6 else 7], rtol=1e-5)
            assert model.card["metrics"]["loss"] == (0.2 if step == 6 else 0.1)
    assert len(versions.versions(tmp_path / "export" / "best_exporter")) == 2


def test_killed_between_export_and_record_the_export_itself_is_the_record(tmp_path: Path) -> None:
    estimator = est.Estimator(linear_model_fn, tmp_path, run_config()).train(input_fn)
    folder = str(tmp_path / "export" / "best_exporter")

    def export(loss: float, step: int) -> bool:
        result = best_exporter().export(
            estimator,
            folder,
            estimator.latest_checkpoint(),
            {"loss": loss, "global_step": step},
            False,
        )
        return result is not None

    assert export(0.5, 1)
    before = (tmp_path / RECORD_FILE).read_text()
    assert export(0.2, 2)
    (tmp_path / RECORD_FILE).write_text(before)
    assert not export(0.3, 3)
    (tmp_path / RECORD_FILE).unlink()
    assert not export(0.3, 4)
    assert export(0.1, 5)


@pytest.mark.parametrize("folder", ["eval", "eval_holdout"])
def test_exports_of_tf_estimator_are_judged_by_their_event_files(
    recorder: Recorder, folder: str
) -> None:
    exporter = best_exporter()
    for step, loss in enumerate([0.5, 0.2, 0.4]):
        evaluate_and_call(exporter, recorder, loss, step, folder)
    Path(recorder.model_dir, RECORD_FILE).unlink()
    assert not evaluate_and_call(best_exporter(), recorder, 0.3, 9, folder)
    Path(recorder.model_dir, RECORD_FILE).unlink(missing_ok=True)
    assert evaluate_and_call(best_exporter(), recorder, 0.1, 10, folder)


def test_a_pattern_for_named_evaluations(recorder: Recorder) -> None:
    exporter = best_exporter(event_file_pattern="eval_b/*.tfevents.*")
    evaluate_and_call(exporter, recorder, 0.1, 1, "eval_a")
    evaluate_and_call(exporter, recorder, 0.5, 2, "eval_b")
    Path(recorder.model_dir, RECORD_FILE).unlink()
    assert evaluate_and_call(exporter, recorder, 0.4, 3, "eval_b")


def test_where_all_exports_were_deleted_the_next_is_the_best(recorder: Recorder) -> None:
    exporter = best_exporter()
    evaluate_and_call(exporter, recorder, 0.1, 1)
    for path in exports(recorder, exporter):
        os.remove(os.path.join(path, "saved_model.pb"))
        os.rmdir(path)
    assert evaluate_and_call(exporter, recorder, 0.5, 2)
    assert not evaluate_and_call(exporter, recorder, 0.6, 3)


def test_a_damaged_record_is_passed_over(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = best_exporter()
    evaluate_and_call(exporter, recorder, 0.2, 1)
    Path(recorder.model_dir, RECORD_FILE).write_text("{")
    assert not evaluate_and_call(exporter, recorder, 0.3, 2)
    assert "estimand_best.json, which cannot be read" in caplog.text


def test_only_versions_lie_in_the_folder_of_an_exporter(recorder: Recorder) -> None:
    exporter = best_exporter()
    evaluate_and_call(exporter, recorder, 0.2, 1)
    # As programs find the newest export.
    folder = Path(recorder.model_dir, "export", exporter.name)
    assert [int(name) for name in os.listdir(folder)]


def test_a_record_where_earlier_versions_wrote_it_is_read_and_moved(recorder: Recorder) -> None:
    exporter = best_exporter()
    evaluate_and_call(exporter, recorder, 0.2, 1)
    record = Path(recorder.model_dir, RECORD_FILE)
    (entries,) = json.loads(record.read_text()).values()
    record.unlink()
    old = Path(recorder.model_dir, "export", exporter.name, "best.json")
    old.write_text(json.dumps({**entries, "eval_result": {"loss": 0.05}}))
    assert not evaluate_and_call(best_exporter(), recorder, 0.1, 2)
    assert evaluate_and_call(best_exporter(), recorder, 0.01, 3)
    assert record.exists() and not old.exists()


def test_a_loss_that_is_no_number_never_wins_and_is_soon_beaten(recorder: Recorder) -> None:
    losses = [float("nan"), float("nan"), 3.0, float("nan"), 2.0]
    exported = [evaluate_and_call(best_exporter(), recorder, x, i) for i, x in enumerate(losses)]
    assert exported == [True, False, True, False, True]
    (record,) = json.loads(Path(recorder.model_dir, RECORD_FILE).read_text()).values()
    assert record["eval_result"]["loss"] == 2.0


def test_ones_own_comparison_of_arrays(recorder: Recorder) -> None:
    def more_recall(best_eval_result: Any, current_eval_result: Any) -> bool:
        return current_eval_result["recall"].min() > best_eval_result["recall"].min()

    def export(*recall: float) -> bool:
        exporter = best_exporter(compare_fn=more_recall)
        result = {"recall": np.array(recall), "global_step": 1}
        folder = os.path.join(recorder.model_dir, "export", exporter.name)
        return exporter.export(recorder, folder, "model.ckpt-1", result, False) is not None

    assert [export(0.5, 0.2), export(0.9, 0.1), export(0.3, 0.3)] == [True, False, True]


def test_the_best_checkpoint_is_kept_too(tmp_path: Path) -> None:
    config = run_config(keep_checkpoint_max=1)
    estimator = est.Estimator(linear_model_fn, tmp_path, config)
    exporter = best_exporter(keep_checkpoint=True)
    answers = {}
    for step, loss in ((1, 0.5), (2, 0.2), (4, 0.7)):
        estimator.train(input_fn, max_steps=step)
        answers[step] = expected(estimator)
        result = {"loss": loss, "global_step": step}
        folder = str(tmp_path / "export" / exporter.name)
        exporter.export(estimator, folder, estimator.latest_checkpoint(), result, False)
    kept = tmp_path / "best" / exporter.name
    assert tf.train.latest_checkpoint(kept) == str(kept / "model.ckpt-2")
    assert {p.name.split(".")[1] for p in kept.iterdir() if ".ckpt" in p.name} == {"ckpt-2"}
    np.testing.assert_allclose(expected(est.Estimator(linear_model_fn, kept)), answers[2])


# Wrong arguments


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: est.FinalExporter("a", {"x": 1}), "needs a function as serving_input_receiver_fn"),
        (lambda: est.FinalExporter("", raw_receiver_fn), "needs a name, given: ''"),
        (lambda: best_exporter(compare_fn=None), "`compare_fn` must not be None"),
        (
            lambda: best_exporter(compare_fn=lambda a, b: True),
            "must include best_eval_result argument",
        ),
        (
            lambda: best_exporter(compare_fn=lambda best_eval_result: True),
            "must include current_eval_result argument",
        ),
        (
            lambda: best_exporter(compare_fn=lambda best_eval_result, current_eval_result, x: True),
            r"has following not expected args: \['x'\]",
        ),
        (lambda: best_exporter(exports_to_keep=0), "must be a positive number. Got 0"),
        (lambda: est.LatestExporter("a", raw_receiver_fn, exports_to_keep=-1), "positive number"),
        (
            lambda: est.StepsExporter([0], serving_input_receiver_fn=raw_receiver_fn),
            "positive whole numbers",
        ),
        (
            lambda: est.StepsExporter([], serving_input_receiver_fn=raw_receiver_fn),
            "positive whole numbers",
        ),
    ],
)
def test_wrong_arguments_are_named(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()


def test_a_result_without_loss_is_named(recorder: Recorder) -> None:
    exporter = best_exporter()
    folder = os.path.join(recorder.model_dir, "export", exporter.name)
    exporter.export(recorder, folder, "c", {"auc": 1.0}, False)
    with pytest.raises(SpecError, match="cannot be empty or no loss is found in it"):
        exporter.export(recorder, folder, "c", {"auc": 2.0}, False)


def test_train_and_evaluate_calls_exporters(tmp_path: Path) -> None:
    estimator = est.Estimator(linear_model_fn, tmp_path, run_config(save_checkpoints_steps=3))
    exporters = [est.FinalExporter("final", raw_receiver_fn), best_exporter()]
    metrics, results = est.train_and_evaluate(
        estimator,
        est.TrainSpec(input_fn, max_steps=6),
        est.EvalSpec(input_fn, steps=1, exporters=exporters, throttle_secs=0),
    )
    final, _ = results
    with est.load_model(final) as model:
        np.testing.assert_allclose(model(x=X)["y"], expected(estimator), rtol=1e-5)
        assert model.card["metrics"]["mae"] == pytest.approx(float(metrics["mae"]))
        assert model.card["exporter"] == "final"
        assert model.card["global_step"] == 6
