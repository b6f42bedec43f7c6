"""Serving what is no SavedModel: a class of your own with five methods.

    class Table(CustomServable):
        @classmethod
        def load(cls, directory): ...       # a version's directory; on a thread, may take long
        def signatures(self): ...           # what can be asked, by name
        def warm_up(self): ...              # before the first request; may be left out
        def call(self, signature, inputs): ...
        def unload(self): ...               # after the last request; may be left out

`--servable=module:Class` makes it known, and models with `model_platform: "module:Class"` use it.
"""

from __future__ import annotations

import abc
import importlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.serving.batching.programs import JoinableShapes, Program
from estimand.serving.models.servable import Signature, Slot
from estimand.serving.status import StatusError, invalid

PREDICT = tf.saved_model.PREDICT_METHOD_NAME
_MAX_PROGRAMS = 64  # one for each choice of outputs that was asked for


@dataclass(frozen=True)
class ServableSignature:
    """Named inputs and outputs, each with its type and shape; None is a free dimension.

    >>> ServableSignature(
    ...     inputs={"word": tf.TensorSpec([None], tf.string)},
    ...     outputs={"vector": tf.TensorSpec([None, 3], tf.float32)},
    ... ).method
    'tensorflow/serving/predict'
    """

    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tf.TensorSpec]
    method: str = field(default=PREDICT)  # those of Classify and Regress take tf.Examples


class CustomServable(abc.ABC):
    """One loaded version of something that answers requests.

    `call` may run on several threads at the same time. Exceptions it raises are answered with
    INTERNAL; ValueError and KeyError with INVALID_ARGUMENT, for they say the request is wrong.

    >>> class Half(CustomServable):
    ...     @classmethod
    ...     def load(cls, directory):
    ...         return cls()
    ...     def signatures(self):
    ...         numbers = {"x": tf.TensorSpec([None], tf.float32)}
    ...         return {"serving_default": ServableSignature(inputs=numbers, outputs=numbers)}
    ...     def call(self, signature, inputs):
    ...         return {"x": inputs["x"] / 2}
    >>> Half.load("models/half/1").call("serving_default", {"x": tf.constant([4.0])})["x"].numpy()
    array([2.], dtype=float32)
    """

    rows_are_independent = False
    """Whether requests may be joined into one call, row after row, and the answer be cut."""

    @classmethod
    @abc.abstractmethod
    def load(cls, directory: str) -> CustomServable:
        """From a version's directory. An exception fails this version, and no other."""

    @abc.abstractmethod
    def signatures(self) -> Mapping[str, ServableSignature]:
        """By name; requests without a name mean `serving_default`."""

    @abc.abstractmethod
    def call(self, signature: str, inputs: dict[str, np.ndarray]) -> Mapping[str, Any]:
        """All outputs of the signature. Strings come as arrays of bytes objects."""

    def warm_up(self) -> None:  # noqa: B027
        """Before clients may ask."""

    def unload(self) -> None:  # noqa: B027
        """Nobody will ask again."""


def find_class(name: str) -> type[CustomServable]:
    """The class that `module:Class` names; modules in the working directory are found too."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"--servable={name}: write it as module:Class, such as tables:Embedding.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        servable_class = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"--servable={name} cannot be imported: {error}. Start the server in the directory "
            "of the module, or install its package."
        ) from error
    if not (isinstance(servable_class, type) and issubclass(servable_class, CustomServable)):
        raise ConfigError(
            f"--servable={name} is {servable_class!r}; it has to be a class derived from "
            "estimand.serving.CustomServable."
        )
    return servable_class


class CustomAdapter:
    """A custom servable in the place of a loaded SavedModel."""

    def __init__(
        self, directory: str, kind: type[CustomServable], rows_are_independent: bool = False
    ) -> None:
        self.directory = directory
        self._may_join = rows_are_independent or kind.rows_are_independent
        self._lock = threading.Lock()
        self._programs: dict[tuple[Any, ...], Program] = {}
        self._servable = kind.load(directory)
        self.signature_defs = {
            name: _definition(name, signature)
            for name, signature in self._servable.signatures().items()
        }
        self.signatures = {n: Signature.of(n, d) for n, d in self.signature_defs.items()}
        self._signature_of = {
            slot.tensor: name
            for name, signature in self.signatures.items()
            for slot in (*signature.inputs.values(), *signature.outputs.values())
        }

    def prepare(self) -> None:
        self._servable.warm_up()

    def program(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Program:
        key = (tuple(slot.tensor for slot in inputs), tuple(slot.tensor for slot in outputs))
        with self._lock:
            if key not in self._programs:
                if len(self._programs) >= _MAX_PROGRAMS:
                    self._programs.clear()
                self._programs[key] = self._make_program(tuple(inputs), tuple(outputs))
            return self._programs[key]

    made_program = program  # which is quickly done

    def close(self) -> None:
        self._programs.clear()
        self._servable.unload()

    def _make_program(self, inputs: tuple[Slot, ...], outputs: tuple[Slot, ...]) -> Program:
        sources, wanted = (
            [(self._signature_of[slot.tensor], slot) for slot in slots]
            for slots in (inputs, outputs)
        )

        def call(*arrays: np.ndarray) -> list[np.ndarray]:
            # Several signatures, if MultiInference asks: each is called with its own inputs.
            named: dict[str, dict[str, np.ndarray]] = {name: {} for name, _ in wanted}
            for (name, slot), array in zip(sources, arrays, strict=True):
                named[name][slot.alias] = array
            answers = {name: self._answer(name, given) for name, given in named.items()}
            return [_array(name, slot, answers[name]) for name, slot in wanted]

        rows_are_free = all(slot.shape and slot.shape[0] == -1 for slot in (*inputs, *outputs))
        return Program(call, joins=JoinableShapes() if rows_are_free and self._may_join else None)

    def _answer(self, signature: str, inputs: dict[str, np.ndarray]) -> Mapping[str, Any]:
        try:
            return self._servable.call(signature, inputs)
        except (ValueError, KeyError) as error:
            raise invalid(f"{type(error).__name__}: {error}") from error


def _array(signature: str, slot: Slot, answer: Mapping[str, Any]) -> np.ndarray:
    if slot.alias not in answer:
        raise StatusError.of(
            "INTERNAL",
            f"The servable's answer to {signature!r} has no output {slot.alias!r}; it has: "
            f"{', '.join(sorted(answer))}.",
        )
    if slot.kind is not None and slot.kind.hasobject:
        array = np.asarray(answer[slot.alias])
        if array.dtype.kind == "U":
            array = np.char.encode(array, "utf-8")
        return array.astype(np.object_)
    return np.asarray(answer[slot.alias], slot.kind)


def _definition(name: str, signature: ServableSignature) -> Any:
    saved_model = tf.compat.v1.saved_model
    definition = saved_model.build_signature_def(method_name=signature.method)
    for place, specs in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        for alias, spec in specs.items():
            info = getattr(definition, place)[alias]
            info.name = f"{name}/{place}/{alias}:0"
            info.dtype = spec.dtype.as_datatype_enum
            info.tensor_shape.CopyFrom(spec.shape.as_proto())
    return definition
