"""Beam's DirectRunner, with several workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.export.loaded import loading
from tests.batch.conftest import assert_right, read_answers, rows_of, write_rows

pytestmark = pytest.mark.extras
beam = pytest.importorskip("apache_beam")


def pipeline(mode: str, workers: int = 2) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions

    options = {"direct_num_workers": workers, "direct_running_mode": mode}
    return beam.Pipeline("DirectRunner", options=PipelineOptions(**options))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["in_memory", "multi_threading", "multi_processing"])
def test_rows_are_answered_and_written(exports: dict[str, str], tmp_path: Path, mode: str) -> None:
    rows = rows_of(range(200))
    rows[7]["x"] = -1.0
    for number in range(4):
        write_rows(tmp_path / f"{number}.parquet", rows[number::4])
    with pipeline(mode) as running:
        given = running | beam.io.ReadFromParquet(str(tmp_path / "*.parquet"))
        answers, errors = given | est.beam.Predict(
            exports["parsing"], keep=["id"], batch_size=16, with_errors=True
        )
        _ = answers | est.beam.WriteRecords(tmp_path / "answers", shards=3)
        _ = errors | beam.Map(json.dumps) | beam.io.WriteToText(str(tmp_path / "errors"))
    files = sorted(tmp_path.glob("answers-*.tfrecord"))
    assert len(files) == 3
    found = [row for file in files for row in read_answers(file)]
    assert_right(sorted(found, key=lambda row: row["id"]), [row for row in rows if row["x"] >= 0])
    texts = [file.read_text() for file in tmp_path.glob("errors-*")]
    (error,) = [json.loads(line) for text in texts for line in text.splitlines()]
    assert "x is below 0" in error["error"]
    assert error["input"] == rows[7]


def test_records_are_answered(exports: dict[str, str], tmp_path: Path) -> None:
    rows = rows_of(range(20))
    path = write_rows(tmp_path / "rows.tfrecord", rows)
    with pipeline("in_memory", 1) as running:
        given = running | beam.io.ReadFromTFRecord(str(path))
        answers = given | est.beam.Predict(exports["raw"], keep=["id"])
        _ = answers | est.beam.WriteRecords(tmp_path / "out", shards=1, compression="GZIP")
    (file,) = tmp_path.glob("out-*.tfrecord.gz")
    found = [int(row["id"]) for row in est.records.read(str(file))]
    assert sorted(found) == list(range(20))
    assert len(list(tf.data.TFRecordDataset(str(file), "GZIP"))) == 20


def test_two_signatures_of_one_export_are_asked_in_one_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = _export_with_two_signatures(tmp_path)
    loaded = []
    load_model = loading.load_model
    monkeypatch.setattr(loading, "load_model", lambda path: loaded.append(path) or load_model(path))
    with pipeline("in_memory", 1) as running:
        given = running | beam.Create([{"id": i, "x": float(i)} for i in range(5)])
        for name in ("serving_default", "twice"):
            answers = given | f"Ask {name}" >> est.beam.Predict(base, signature=name, keep=["id"])
            texts = answers | f"Text {name}" >> beam.Map(json.dumps)
            _ = texts | f"Write {name}" >> beam.io.WriteToText(str(tmp_path / name))
    for name, factor in (("serving_default", 1.0), ("twice", 2.0)):
        lines = [line for file in tmp_path.glob(f"{name}-*") for line in file.open()]
        found = sorted((json.loads(line) for line in lines), key=lambda row: row["id"])
        assert found == [{"id": i, "y": factor * i} for i in range(5)]
    assert loaded == [base]


def _export_with_two_signatures(folder: Path) -> str:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        y = features["x"] * tf.compat.v1.get_variable("w", initializer=1.0)
        step = tf.compat.v1.train.get_or_create_global_step()
        outputs = {
            "serving_default": est.export.PredictOutput({"y": y}),
            "twice": est.export.PredictOutput({"y": 2.0 * y}),
        }
        return est.EstimatorSpec(
            mode, {"y": y}, tf.reduce_sum(y), step.assign_add(1), export_outputs=outputs
        )

    estimator = est.Estimator(model_fn, folder / "model", est.RunConfig(progress=False))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])))
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None])})
    estimator.export_saved_model(folder / "export", receiver_fn)
    return str(folder / "export")


def test_an_error_that_nobody_takes_fails_the_pipeline(exports: dict[str, str]) -> None:
    with (
        pytest.raises(Exception, match=r"x is below 0.*with_errors=True"),
        pipeline("in_memory", 1) as running,
    ):
        given = running | beam.Create([{"x": 1.0, "word": "a"}, {"x": -1.0, "word": "b"}])
        _ = given | est.beam.Predict(exports["raw"])
