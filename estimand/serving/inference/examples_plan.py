"""Classify, Regress and MultiInference: serialized tf.Examples in, scores or values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensorflow_serving.apis import classification_pb2, inference_pb2, regression_pb2

from estimand.serving.batching.lane import Lane
from estimand.serving.batching.pending_lane import PendingLane
from estimand.serving.json.slots import shape_text
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.models.servable import DEFAULT_SIGNATURE, Signature, Slot
from estimand.serving.protos.tensors import NAME_OF, NUMBER_OF
from estimand.serving.status import StatusError, invalid

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
# Scores and values that become messages in the event loop: some milliseconds, at the worst.
_SMALL_ANSWER = 2048


@dataclass(frozen=True)
class Question:
    """What one signature is asked for."""

    method: str  # CLASSIFY or REGRESS
    signature: str
    source: Slot
    outputs: list[Slot]

    def result(self, arrays: Sequence[np.ndarray], rows: int) -> Any:
        """A ClassificationResult or a RegressionResult."""
        if self.method == CLASSIFY:
            return classification_result(self.outputs, arrays, rows)
        return regression_result(arrays[0], rows)


@dataclass(frozen=True)
class ExamplesPlan:
    """Questions about the same examples, for one run: each input tensor is fed with all of them."""

    lane: Lane | PendingLane
    questions: tuple[Question, ...]
    sources: int  # input tensors

    def results(self, outputs: Sequence[np.ndarray], rows: int) -> Iterator[tuple[Question, Any]]:
        start = 0
        for question in self.questions:
            stop = start + len(question.outputs)
            yield question, question.result(outputs[start:stop], rows)
            start = stop

    def feeds(self, examples: np.ndarray) -> list[np.ndarray]:
        return [examples] * self.sources


def examples_plan_for(
    version: LoadedVersion, method: str, name: str, check: bool = False
) -> ExamplesPlan:
    """Of Classify and Regress."""
    name = name or DEFAULT_SIGNATURE
    signature = version.servable.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    return _plan(version, [_question(method, signature, check)])


def plan_for_tasks(version: LoadedVersion, tasks: Iterable[Any], check: bool) -> ExamplesPlan:
    """Of MultiInference."""
    questions: dict[str, Question] = {}
    for task in tasks:
        name = task.model_spec.signature_name or DEFAULT_SIGNATURE
        if name in questions:
            raise invalid(f"Duplicate evaluation of signature: {name}")
        signature = version.servable.signatures.get(name)
        if signature is None:
            raise invalid(f"Requested signature not found in model graph: {name}")
        questions[name] = _question(task.method_name, signature, check)
    if not questions:
        raise invalid("MultiInferenceRequest has no tasks.")
    return _plan(version, list(questions.values()))


def _plan(version: LoadedVersion, questions: list[Question]) -> ExamplesPlan:
    sources = {question.source.tensor: question.source for question in questions}
    outputs = [slot for question in questions for slot in question.outputs]
    lane = version.lane(list(sources.values()), outputs)
    return ExamplesPlan(lane, tuple(questions), len(sources))


def _question(method: str, signature: Signature, check: bool) -> Question:
    if method == CLASSIFY:
        source, outputs = classification_slots(signature, check)
    elif method == REGRESS:
        source, outputs = regression_slots(signature, check)
    else:
        raise StatusError.of("UNIMPLEMENTED", f"Unsupported signature method_name: {method}")
    return Question(method, signature.name, source, outputs)


def are_many_values(outputs: Sequence[np.ndarray]) -> bool:
    """Whether to make messages of them would hold up others."""
    return sum([array.size for array in outputs]) > _SMALL_ANSWER


def multi_inference_response(
    version: LoadedVersion, plan: ExamplesPlan, outputs: Sequence[np.ndarray], rows: int
) -> Any:
    response = inference_pb2.MultiInferenceResponse()
    for question, answer in plan.results(outputs, rows):
        result = response.results.add()
        result.model_spec.name = version.name
        result.model_spec.version.value = version.number
        result.model_spec.signature_name = question.signature
        kind = "classification_result" if question.method == CLASSIFY else "regression_result"
        getattr(result, kind).CopyFrom(answer)
    return response


def serialized_examples(given: Any) -> np.ndarray:
    """The examples of an Input message; a context is put before each."""
    kind = given.WhichOneof("kind")
    before = b""
    if kind == "example_list_with_context":
        before = given.example_list_with_context.context.SerializeToString()
    examples = getattr(given, kind).examples if kind else ()
    if not examples:
        raise invalid("Input is empty.")
    rows: Any = np.empty(len(examples), np.object_)
    rows[:] = [before + example.SerializeToString() for example in examples]
    return rows


def classification_slots(signature: Signature, check: bool) -> tuple[Slot, list[Slot]]:
    _check_method("classification", CLASSIFY, signature, check)
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if len(signature.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    if "inputs" not in signature.inputs:
        raise invalid(f"No classification inputs found in SignatureDef: {signature.definition}")
    outputs = [signature.outputs[k] for k in ("classes", "scores") if k in signature.outputs]
    if not outputs:
        raise invalid(
            'Expected classification signature outputs to contain at least one of "classes" or '
            f'"scores". Signature was: {signature.definition}'
        )
    return signature.inputs["inputs"], outputs


def regression_slots(signature: Signature, check: bool) -> tuple[Slot, list[Slot]]:
    _check_method("regression", REGRESS, signature, check)
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    for what, there in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        if what not in there:
            raise invalid(f"No regression {what} found in SignatureDef: {signature.definition}")
    return signature.inputs["inputs"], [signature.outputs["outputs"]]


def _check_method(what: str, method: str, signature: Signature, check: bool) -> None:
    if check and signature.method != method:
        raise invalid(
            f"Expected {what} signature method_name to be {method}. Was: {signature.method}"
        )


def classification_result(outputs: Sequence[Slot], arrays: Sequence[np.ndarray], rows: int) -> Any:
    by_alias = {slot.alias: array for slot, array in zip(outputs, arrays, strict=True)}
    classes, scores = by_alias.get("classes"), by_alias.get("scores")
    for name, array, kind in (("classes", classes, "O"), ("scores", scores, "f")):
        if array is not None:
            _check_classification(name, array, kind, rows)
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        raise invalid(
            "Tensors class and score should match in dim_size(1). Got "
            f"{classes.shape[1]} vs. {scores.shape[1]}"
        )
    result = classification_pb2.ClassificationResult()
    labels = None if classes is None else classes.tolist()
    values = None if scores is None else scores.tolist()
    columns = arrays[0].shape[1]
    for row in range(rows):
        add = result.classifications.add().classes.add
        for column in range(columns):
            scored = add()
            if labels is not None:
                scored.label = _text(labels[row][column])
            if values is not None:
                scored.score = values[row][column]
    return result


def _text(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError:
        raise StatusError.of("INTERNAL", f"The class label {label!r} is not UTF-8.") from None


def _check_classification(name: str, array: np.ndarray, kind: str, rows: int) -> None:
    if array.ndim != 2:
        raise invalid(
            f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(array)}"
        )
    if array.dtype.kind != kind or (kind == "f" and array.dtype != np.float32):
        expected = "DT_STRING" if kind == "O" else "DT_FLOAT"
        raise invalid(f"Expected {name} Tensor of {expected}. Got: {type_text(array)}")
    if len(array) != rows:
        raise invalid(f"Expected {name} output batch size of {rows}. Got: {len(array)}")


def regression_result(array: np.ndarray, rows: int) -> Any:
    if not (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        raise invalid(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{shape_text(array)}"
        )
    if len(array) != rows:
        raise invalid(f"Input batch size did not match output batch size: {rows} vs. {len(array)}")
    if array.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {type_text(array)}")
    result = regression_pb2.RegressionResult()
    for value in array.ravel().tolist():
        result.regressions.add(value=value)
    return result


def type_text(array: np.ndarray) -> str:
    number = 7 if array.dtype.kind == "O" else NUMBER_OF[array.dtype]
    return f"DT_{NAME_OF[number].upper()}"
