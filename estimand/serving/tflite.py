"""TFLite models as servables: `model.tflite` in a version's directory."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.serving.servable_protocol import CustomServable, ServableSignature
from estimand.serving.status import invalid

MODEL_FILE = "model.tflite"
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class TfliteModel(CustomServable):
    """Its own signatures, or, if it has none, one with the names of its tensors.

    An interpreter answers one request at a time; as many are made as threads ask at once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: deque[Any] = deque()
        interpreter = self._make()
        self._names = tuple(interpreter.get_signature_list())
        self._idle.append(interpreter)

    @classmethod
    def load(cls, directory: str) -> TfliteModel:
        return cls(os.path.join(directory, MODEL_FILE))

    def signatures(self) -> Mapping[str, ServableSignature]:
        interpreter = self._idle[0]
        if not self._names:
            found = (interpreter.get_input_details(), interpreter.get_output_details())
            inputs, outputs = ({one["name"]: one for one in details} for details in found)
            return {_DEFAULT: ServableSignature(_specs(inputs), _specs(outputs))}
        made = {}
        for name in self._names:
            runner = interpreter.get_signature_runner(name)
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
            made[name] = ServableSignature(_specs(inputs), _specs(outputs))
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
        for one in interpreter.get_input_details():
            array = inputs[one["name"]]
            if array.shape != tuple(one["shape"]):
                interpreter.resize_tensor_input(one["index"], array.shape)
        interpreter.allocate_tensors()
        for one in interpreter.get_input_details():
            interpreter.set_tensor(one["index"], inputs[one["name"]])
        interpreter.invoke()
        return {
            one["name"]: interpreter.get_tensor(one["index"])
            for one in interpreter.get_output_details()
        }

    def _make(self) -> Any:
        with warnings.catch_warnings():  # that LiteRT has it too
            warnings.simplefilter("ignore")
            interpreter = tf.lite.Interpreter(model_path=self._path, num_threads=1)
        interpreter.allocate_tensors()
        return interpreter


def _specs(details: Mapping[str, Mapping[str, Any]]) -> dict[str, tf.TensorSpec]:
    return {
        name: tf.TensorSpec([None if n < 0 else n for n in one["shape_signature"]], one["dtype"])
        for name, one in details.items()
    }
