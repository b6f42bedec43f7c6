"""Requests that a version answers before clients may ask it."""

from __future__ import annotations

import os
from typing import Any

from estimand.serving.inference import examples_plan, predict_plan
from estimand.serving.inference.request_log import MAX_RECORDS
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.status import invalid

FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_METHODS = {"classify_log": examples_plan.CLASSIFY, "regress_log": examples_plan.REGRESS}


def read(directory: str) -> list[Any]:
    """The PredictionLog messages in a version's directory; none if it has no such file."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path = os.path.join(directory, FILE)
    if not tf.io.gfile.exists(path):
        return []
    records = list(tf.data.TFRecordDataset([path]).take(MAX_RECORDS + 1).as_numpy_iterator())
    if len(records) > MAX_RECORDS:
        raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


async def replay(version: LoadedVersion, records: list[Any], times: int) -> None:
    """Answers each of them; the first that fails, fails the load."""
    for record in records:
        for _ in range(times):
            await _answer(version, record)


async def _answer(version: LoadedVersion, record: Any) -> None:
    kind = record.WhichOneof("log_type")
    if kind is None:
        raise invalid("Unsupported log_type for warmup: 0")
    request = getattr(record, kind).request
    if kind == "predict_log":
        plan = predict_plan.predict_plan_for(
            version, request.model_spec.signature_name, tuple(request.output_filter)
        )
        await plan.lane.run(predict_plan.decode_inputs(plan, request.inputs))
        return
    if kind in _METHODS:
        name = request.model_spec.signature_name
        questions = examples_plan.examples_plan_for(version, _METHODS[kind], name)
    elif kind == "multi_inference_log":
        questions = examples_plan.plan_for_tasks(version, request.tasks, False)
    else:
        raise invalid(f"Unsupported log_type for warmup: {kind}")
    examples = examples_plan.serialized_examples(request.input)
    outputs = await questions.lane.run(questions.feeds(examples))
    list(questions.results(outputs, len(examples)))  # which fails where an answer would
