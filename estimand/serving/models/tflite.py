"""TFLite models as servables: `model.tflite` in a version's directory."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.serving.models import tflite_metadata
from estimand.serving.models.custom import PREDICT, CustomServable, ServableSignature
from estimand.serving.status import invalid

MODEL_FILE = "model.tflite"
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@dataclass(frozen=True)
class _OfTheGraph:
    """A signature over the whole model: its inputs and outputs by alias, each the tensor's name."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    method: str = PREDICT


class TfliteModel(CustomServable):
    """Answers under the signatures of its metadata, where TensorFlow Serving looks for them; else
    under its own; else, if it has none, under one with the names of its tensors.

    An interpreter answers one request at a time; as many are made as threads ask at once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: deque[Any] = deque()
        interpreter = self._make()
        with open(path, "rb") as file:
            described = tflite_metadata.signature_defs(file.read())
        self._names = () if described else tuple(interpreter.get_signature_list())
        self._of_the_graph: dict[str, _OfTheGraph] = {}
        if not self._names:
            self._of_the_graph = _signatures_of_graph(interpreter, described)
        self._idle.append(interpreter)

    @classmethod
    def load(cls, directory: str) -> TfliteModel:
        return cls(os.path.join(directory, MODEL_FILE))

    def signatures(self) -> Mapping[str, ServableSignature]:
        interpreter = self._idle[0]
        made = {}
        for name in self._names:
            runner = interpreter.get_signature_runner(name)
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
            made[name] = ServableSignature(_specs(inputs), _specs(outputs))
        inputs, outputs = _details(interpreter)
        for name, signature in self._of_the_graph.items():
            made[name] = ServableSignature(
                _specs({alias: inputs[tensor] for alias, tensor in signature.inputs.items()}),
                _specs({alias: outputs[tensor] for alias, tensor in signature.outputs.items()}),
                signature.method,
            )
        if _DEFAULT not in made and len(made) == 1:
            made[_DEFAULT] = next(iter(made.values()))
        return made

    def call(self, signature: str, inputs: dict[str, np.ndarray]) -> Mapping[str, Any]:
        try:
            interpreter = self._idle.pop()
        except IndexError:
            interpreter = self._make()
        try:
            return self._run(interpreter, signature, inputs)
        except RuntimeError as error:  # how the interpreter tells of shapes that do not fit
            raise invalid(str(error)) from error
        finally:
            self._idle.append(interpreter)

    def unload(self) -> None:
        self._idle.clear()

    def _run(
        self, interpreter: Any, signature: str, inputs: dict[str, np.ndarray]
    ) -> Mapping[str, Any]:
        if self._names:
            name = signature if signature in self._names else self._names[0]
            answer: Mapping[str, Any] = interpreter.get_signature_runner(name)(**inputs)
            return answer
        of_the_graph = self._of_the_graph.get(signature) or next(iter(self._of_the_graph.values()))
        there, outputs = _details(interpreter)
        given = [(there[tensor], inputs[alias]) for alias, tensor in of_the_graph.inputs.items()]
        for detail, array in given:
            if array.shape != tuple(detail["shape"]):
                interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        for detail, array in given:
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return {
            alias: interpreter.get_tensor(outputs[tensor]["index"])
            for alias, tensor in of_the_graph.outputs.items()
        }

    def _make(self) -> Any:
        with warnings.catch_warnings():  # that LiteRT has it too
            warnings.simplefilter("ignore")
            interpreter = tf.lite.Interpreter(model_path=self._path, num_threads=1)
        interpreter.allocate_tensors()
        return interpreter


def _details(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the inputs and of the outputs, by name."""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    return {detail["name"]: detail for detail in inputs}, {
        detail["name"]: detail for detail in outputs
    }


def _signatures_of_graph(interpreter: Any, described: Mapping[str, Any]) -> dict[str, _OfTheGraph]:
    inputs, outputs = _details(interpreter)
    if not described:
        return {_DEFAULT: _OfTheGraph({n: n for n in inputs}, {n: n for n in outputs})}
    signatures = {}
    for name, definition in described.items():
        signature = _OfTheGraph(
            {alias: _tensor(name, info, inputs) for alias, info in definition.inputs.items()},
            {alias: _tensor(name, info, outputs) for alias, info in definition.outputs.items()},
            definition.method_name or PREDICT,
        )
        # An input that nobody sets would keep what the request before it had.
        left = inputs.keys() - signature.inputs.values()
        if left:
            raise invalid(
                f"Signature {name!r} in the metadata of the TFLite model gives no value to its "
                f"input tensor{'s'[: len(left) > 1]} {', '.join(sorted(left))}."
            )
        signatures[name] = signature
    return signatures


def _tensor(signature: str, info: Any, there: Iterable[str]) -> str:
    """The name as TFLite has it: with the number of the output, or without."""
    for name in (info.name, info.name.partition(":")[0]):
        if name in there:
            return str(name)
    raise invalid(
        f"Signature {signature!r} in the metadata of the TFLite model names the tensor "
        f"{info.name!r}; there are: {', '.join(sorted(there))}."
    )


def _specs(details: Mapping[str, Mapping[str, Any]]) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec(
            [None if n < 0 else n for n in detail["shape_signature"]], detail["dtype"]
        )
        for name, detail in details.items()
    }
