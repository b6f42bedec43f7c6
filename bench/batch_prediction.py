"""Rows per second of batch prediction: `est.batch.predict` against Beam's RunInference.

    python bench/batch_prediction.py --rows 200000 --rounds 3
    python bench/batch_prediction.py --quick     # about a minute

Both read the same Parquet file, ask the same export, and write Parquet; in turns, and each in a
process of its own. What a file of few rows takes, imports and loading, is subtracted. Beam runs on
its DirectRunner, in one process, and loads the export by a handler that calls its signature (those
that Beam brings load models by Keras, which reads no SavedModels of others). Beside the clock it
says the processor time of all processes. Needs `estimand[beam]`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_FEATURES = 32
_BATCH = 1024
_FEW = 1_000
_WAYS = ("estimand, 1 worker", "estimand, 2 workers", "est.beam.Predict", "RunInference")
_QUICK_WAYS = (_WAYS[0], _WAYS[-1])


def main() -> None:
    options = _options()
    if options.way:
        _run(options.way, Path(options.folder), f"{options.file}.parquet")
        return
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder), options.rows)
        for round in range(options.rounds or (1 if options.quick else 3)):
            for way in _QUICK_WAYS if options.quick else _WAYS:
                clock, processor = _measure(way, folder)
                few, few_processor = _measure(way, folder, "few")
                rows = options.rows - _FEW
                print(
                    f"{round}  {way:20s} {rows / (clock - few):9,.0f} rows/s   "
                    f"{1e6 * (processor - few_processor) / rows:6.1f} µs of processors for a row",
                    flush=True,
                )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="one worker and RunInference, once")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    return parser.parse_args()


def _prepare(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tensorflow as tf

    import estimand as est

    columns = [est.feature_column.numeric_column("x", shape=_FEATURES)]
    config = est.RunConfig(tf_random_seed=1, progress=False)
    estimator = est.DNNRegressor([128, 64], columns, folder / "model", config=config)
    some = np.random.default_rng(0).normal(size=(rows, _FEATURES)).astype("float32")
    numbers = est.inputs.numpy_input_fn({"x": some[:512]}, some[:512, :1], shuffle=False)
    estimator.train(numbers)
    spec = {"x": tf.TensorSpec([None, _FEATURES], tf.float32)}
    receiver_fn = est.export.build_raw_serving_input_receiver_fn(spec)
    estimator.export_saved_model(folder / "export", receiver_fn)
    table = pa.table({"id": np.arange(rows), "x": list(some)})
    pq.write_table(table, folder / "rows.parquet", row_group_size=65_536)
    pq.write_table(table.slice(0, _FEW), folder / "few.parquet")


def _measure(way: str, folder: str, rows: str = "rows") -> tuple[float, float]:
    """Seconds by the clock, and of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--way", way, "--folder", folder, "--file", rows]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(done.stdout.split()[-1]), processor


def _run(way: str, folder: Path, rows: str) -> None:
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        if way.startswith("estimand"):
            _by_us(folder, rows, f"{out}/answers", workers=int(way.split()[1]))
        else:
            _by_beam(folder, rows, f"{out}/answers", ours=way != "RunInference")
        print(time.perf_counter() - began)


def _by_us(folder: Path, file: str, out: str, workers: int) -> None:
    import estimand as est

    options = {"workers": workers, "keep": ["id"], "signature": "predict", "batch_size": _BATCH}
    est.batch.predict(folder / "export", str(folder / file), out, **options)


def _by_beam(folder: Path, file: str, out: str, ours: bool) -> None:
    import apache_beam as beam
    import pyarrow as pa

    import estimand as est

    export = max((folder / "export").iterdir())
    schema = pa.schema([("id", pa.int64()), ("predictions", pa.list_(pa.float32()))])
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.io.ReadFromParquet(str(folder / file))
        if ours:
            asked = est.beam.Predict(export, "predict", keep=["id"], batch_size=_BATCH)
            answers = rows | asked
        else:
            answers = rows | _run_inference(export)
        _ = answers | beam.io.WriteToParquet(out, schema)


def _run_inference(export: Path) -> Any:
    import apache_beam as beam
    import numpy as np
    from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference

    class Signature(ModelHandler):
        def load_model(self) -> Any:
            import tensorflow as tf

            return tf.saved_model.load(os.fspath(export))

        def run_inference(self, batch: Any, model: Any, inference_args: Any = None) -> Any:
            import tensorflow as tf

            answers = model.signatures["predict"](x=tf.constant(np.stack(batch)))
            return list(answers["predictions"].numpy())

        def batch_elements_kwargs(self) -> Any:
            return {"min_batch_size": 64, "max_batch_size": _BATCH}

    @beam.ptransform_fn
    def run(rows: Any) -> Any:
        keyed = rows | beam.Map(lambda row: (row["id"], np.asarray(row["x"], np.float32)))
        found = keyed | RunInference(KeyedModelHandler(Signature()))
        return found | "Name" >> beam.Map(lambda one: {"id": one[0], "predictions": one[1]})

    return run()


if __name__ == "__main__":
    main()
