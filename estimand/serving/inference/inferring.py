"""Classify, Regress and MultiInference: serialized tf.Examples in, scores or values out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow_serving.apis import classification_pb2, inference_pb2, regression_pb2

from estimand.serving.inference.tensors import NAME_OF, NUMBER_OF
from estimand.serving.json.slots import shape_text
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.models.servable import DEFAULT_SIGNATURE, Signature, Slot
from estimand.serving.status import StatusError, invalid

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"


async def classify(
    version: LoadedVersion, name: str, given: Any, deadline: float | None, check: bool = False
) -> tuple[Any, str]:
    """The ClassificationResult, and the name of the signature."""
    signature = _signature(version, name)
    source, outputs = classification_slots(signature, check)
    examples = serialized_examples(given)
    arrays = await version.lane([source], outputs).run([examples], deadline)
    return classification_result(outputs, arrays, len(examples)), signature.name


async def regress(
    version: LoadedVersion, name: str, given: Any, deadline: float | None, check: bool = False
) -> tuple[Any, str]:
    """The RegressionResult, and the name of the signature."""
    signature = _signature(version, name)
    source, outputs = regression_slots(signature, check)
    examples = serialized_examples(given)
    arrays = await version.lane([source], outputs).run([examples], deadline)
    return regression_result(arrays[0], len(examples)), signature.name


async def multi_inference(
    version: LoadedVersion, request: Any, deadline: float | None, check: bool = False
) -> Any:
    """All tasks in one run: every input tensor is fed the same examples."""
    sources: dict[str, Slot] = {}  # by tensor
    parts: list[tuple[str, Any, list[Slot]]] = []
    for task in request.tasks:
        name = task.model_spec.signature_name or DEFAULT_SIGNATURE
        if any(name == other for other, _, _ in parts):
            raise invalid(f"Duplicate evaluation of signature: {name}")
        signature = version.servable.signatures.get(name)
        if signature is None:
            raise invalid(f"Requested signature not found in model graph: {name}")
        mine, outputs = _slots_of_task(task.method_name, signature, check)
        sources[mine.tensor] = mine
        parts.append((name, task, outputs))
    if not parts:
        raise invalid("MultiInferenceRequest has no tasks.")
    examples = serialized_examples(request.input)
    wanted = [slot for _, _, outputs in parts for slot in outputs]
    lane = version.lane(list(sources.values()), wanted)
    arrays = await lane.run([examples] * len(sources), deadline)
    return _multi_response(version, parts, arrays, len(examples))


def _multi_response(
    version: LoadedVersion,
    parts: Sequence[tuple[str, Any, list[Slot]]],
    arrays: Sequence[np.ndarray],
    rows: int,
) -> Any:
    response = inference_pb2.MultiInferenceResponse()
    rest = list(arrays)
    for name, task, outputs in parts:
        mine, rest = rest[: len(outputs)], rest[len(outputs) :]
        result = response.results.add()
        result.model_spec.name = version.name
        result.model_spec.version.value = version.number
        result.model_spec.signature_name = name
        if task.method_name == CLASSIFY:
            answer = classification_result(outputs, mine, rows)
            result.classification_result.CopyFrom(answer)
        else:
            result.regression_result.CopyFrom(regression_result(mine[0], rows))
    return response


def _slots_of_task(method: str, signature: Signature, check: bool) -> tuple[Slot, list[Slot]]:
    if method == CLASSIFY:
        return classification_slots(signature, check)
    if method == REGRESS:
        return regression_slots(signature, check)
    raise StatusError.of("UNIMPLEMENTED", f"Unsupported signature method_name: {method}")


def _signature(version: LoadedVersion, name: str) -> Signature:
    name = name or DEFAULT_SIGNATURE
    signature = version.servable.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    return signature


def serialized_examples(given: Any) -> np.ndarray:
    """The examples of an Input message; a context is put before each."""
    kind = given.WhichOneof("kind")
    before = b""
    if kind == "example_list_with_context":
        before = given.example_list_with_context.context.SerializeToString()
    found = getattr(given, kind).examples if kind else ()
    if not found:
        raise invalid("Input is empty.")
    rows: Any = np.empty(len(found), np.object_)
    rows[:] = [before + example.SerializeToString() for example in found]
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
    found = {slot.alias: array for slot, array in zip(outputs, arrays, strict=True)}
    classes, scores = found.get("classes"), found.get("scores")
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
            one = add()
            if labels is not None:
                one.label = _text(labels[row][column])
            if values is not None:
                one.score = values[row][column]
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
