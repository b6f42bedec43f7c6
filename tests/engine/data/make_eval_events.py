"""Writes eval_events.json: what `Estimator.evaluate` of tf.estimator 2.15 returns and records.

Needs an environment with tensorflow-estimator 2.15:

    python tests/engine/data/make_eval_events.py
"""

from __future__ import annotations

import base64
import glob
import json
import logging
import os
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

TARGET = Path(__file__).resolve().with_name("eval_events.json")


def model_fn(features, labels, mode):
    v1 = tf.compat.v1
    weights = v1.get_variable("w", [2, 1], initializer=tf.constant_initializer([[0.5], [-0.25]]))
    outputs = tf.matmul(features, weights)
    loss = tf.reduce_mean((outputs - labels) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    pictures = v1.summary.merge(
        [v1.summary.scalar("first", 1.5), v1.summary.histogram("second", [1.0, 2.0])]
    )
    no_op = tf.no_op()
    metrics = {
        "mae": v1.metrics.mean_absolute_error(labels, outputs),
        "vector": v1.metrics.mean_tensor(tf.reduce_mean(features, 0)),
        "matrix": (tf.constant([[1, 2], [3, 4]]), no_op),
        "count": (tf.constant(7, tf.int64), no_op),
        "count32": (tf.constant(-3, tf.int32), no_op),
        "double": (tf.constant(1 / 3, tf.float64), no_op),
        "half": (tf.constant(0.5, tf.float16), no_op),
        "not_a_number": (tf.constant(float("nan")), no_op),
        "names": (tf.constant(["a", "b"]), no_op),
        "pictures": (pictures, no_op),
        "gibberish": (tf.constant(b"\xff\xff\xff"), no_op),
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    batch = tf.constant([[1.0, 2.0], [3.0, 5.0]]), tf.constant([[1.0], [0.5]])
    return tf.data.Dataset.from_tensors(batch).repeat(3)


def as_json(value):
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    array = np.asarray(value)
    content = [x.decode() if isinstance(x, bytes) else repr(x) for x in array.ravel().tolist()]
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {kind: content, "dtype": str(array.dtype), "shape": list(array.shape)}


def event_as_json(event):
    values = [base64.b64encode(v.SerializeToString()).decode() for v in event.summary.value]
    return {
        "step": event.step,
        "tags": [v.tag for v in event.summary.value],
        "values": values,
    }


def main():
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("tensorflow").addHandler(handler)
    tf.compat.v1.logging.set_verbosity("INFO")
    os.chdir(tempfile.mkdtemp())
    estimator = tf.estimator.Estimator(model_fn, "model")
    estimator.train(input_fn)
    results = estimator.evaluate(input_fn)
    (path,) = glob.glob("model/eval/*tfevents*")
    events = [
        event_as_json(event)
        for event in tf.compat.v1.train.summary_iterator(path)
        if event.WhichOneof("what") == "summary"
    ]
    document = {
        "results": {key: as_json(value) for key, value in results.items()},
        "events": events,
        "log": [line for line in lines if line.startswith(("Saving dict", "Saving '", "Skipping"))],
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
