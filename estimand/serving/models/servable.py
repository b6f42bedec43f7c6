"""One loaded SavedModel: its signatures, and programs that compute some tensors from others.

A Session is right here: it loads every SavedModel whoever wrote
it, feeds tensors without looking at their shapes as TensorFlow Serving does, and is by far the
fastest way from Python into TensorFlow.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.export.loaded.holding import Hold
from estimand.serving.batching.programs import JoinableShapes, Program
from estimand.serving.models import sessions
from estimand.serving.models.sessions import LoadOptions
from estimand.serving.protos import tensors
from estimand.serving.protos.composite_names import part_names
from estimand.serving.rows import graph_scan
from estimand.serving.rows.proof import Finding, Proof

DT_INT64 = tf.int64.as_datatype_enum
DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# Programs beyond the signatures' own: one for each combination of outputs that was asked for.
_MAX_PROGRAMS = 64

log = logging.getLogger("estimand.serving")


@dataclass(frozen=True)
class Slot:
    """One input or output of a signature."""

    alias: str
    tensor: str
    number: int  # of its DataType
    kind: np.dtype | None
    shape: tuple[int, ...] | None  # -1: unknown

    @property
    def type_name(self) -> str:
        return tensors.NAME_OF[self.number]


@dataclass(frozen=True)
class Signature:
    name: str
    method: str
    inputs: dict[str, Slot]
    outputs: dict[str, Slot]
    definition: Any
    defaults: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, definition: Any) -> Signature:
        defaults = getattr(definition, "defaults", {})
        return cls(
            name,
            definition.method_name,
            _slots(definition.inputs),
            _slots(definition.outputs),
            definition,
            {key: tensors.decode(defaults[key]) for key in defaults},
        )


class Servable:
    """A loaded version. `close` frees it; nobody may be running it then."""

    def __init__(self, directory: str, options: LoadOptions) -> None:
        self.directory = directory
        self._hold = Hold(directory) if "://" not in directory else None
        try:
            loaded = sessions.load(directory, options)
        except BaseException:
            self._release_hold()
            raise
        self._session, meta_graph = loaded.session, loaded.meta_graph
        self.single_threaded = loaded.single_threaded
        self.graph = meta_graph.graph_def
        self.signatures = {
            name: Signature.of(name, definition)
            for name, definition in meta_graph.signature_def.items()
            if name != "__saved_model_init_op"
        }
        self.signature_defs = dict(meta_graph.signature_def)
        self._options = options
        self._proofs: dict[tuple[str, ...], Proof] = {}
        self._programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()
        self._lock = threading.Lock()

    def program(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Program:
        """What computes these outputs from these inputs; made once, which can take seconds."""
        key = _key(inputs, outputs)
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._make_program(key, inputs, outputs)
                if len(self._programs) > _MAX_PROGRAMS:
                    self._programs.popitem(last=False)
            return self._programs[key]

    def made_program(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Program | None:
        return self._programs.get(_key(inputs, outputs))

    def prepare(self) -> None:
        """Make the program of each signature, so that no request has to wait for it."""
        for signature in self.signatures.values():
            try:
                self.program(tuple(signature.inputs.values()), tuple(signature.outputs.values()))
            except Exception as error:
                log.warning(
                    "%s: signature %r cannot be run: %s", self.directory, signature.name, error
                )

    def close(self) -> None:
        self._programs.clear()
        self._session.close()
        self._release_hold()

    def _make_program(
        self, key: tuple[Any, ...], inputs: Sequence[Slot], outputs: Sequence[Slot]
    ) -> Program:
        feeds, fetches = key
        # A tensor may be asked for under several names, but is fetched once; and one that is fed
        # cannot be fetched: below 0 in `picks` are the places of the inputs, from the end.
        unique = tuple(dict.fromkeys(name for name in fetches if name not in feeds))
        picks = tuple(
            feeds.index(name) - len(feeds) if name in feeds else unique.index(name)
            for name in fetches
        )
        finding = self._finding(inputs, fetches)
        seconds = self._options.run_seconds if finding.may_wait else 0.0
        return Program(
            tf_private.session_callable(self._session, feeds, unique, seconds),
            picks=None if unique == fetches else picks,
            joins=self._joins(inputs, outputs, finding.row_by_row),
            changes_state=graph_scan.changes_state(self.graph, fetches),
            may_wait=finding.may_wait,
        )

    def _finding(self, inputs: Sequence[Slot], fetches: Sequence[str]) -> Finding:
        """What the graph says. Whoever asks for other outputs of a signature finds it known."""
        shapes = {slot.tensor: slot.shape for slot in inputs}
        key = tuple(shapes)
        if key not in self._proofs:
            self._proofs[key] = Proof(self.graph, shapes)
        return self._proofs[key].of(fetches)

    def _joins(
        self, inputs: Sequence[Slot], outputs: Sequence[Slot], is_proven: bool
    ) -> JoinableShapes | None:
        if not inputs or not all(_has_free_rows(slot) for slot in (*inputs, *outputs)):
            return None
        if self._options.rows_are_independent:
            return JoinableShapes()
        return (
            JoinableShapes(tuple((slot.shape or ())[1:] for slot in inputs)) if is_proven else None
        )

    def _release_hold(self) -> None:
        if self._hold is not None:
            self._hold.release()


def _key(inputs: Sequence[Slot], outputs: Sequence[Slot]) -> tuple[tuple[str, ...], ...]:
    return tuple(slot.tensor for slot in inputs), tuple(slot.tensor for slot in outputs)


def _has_free_rows(slot: Slot) -> bool:
    return bool(slot.shape) and slot.shape is not None and slot.shape[0] == -1


def _slots(infos: Any) -> dict[str, Slot]:
    """By name; one for each part of what is sparse or ragged."""
    slots = {}
    for alias in sorted(infos):
        info = infos[alias]
        kind = info.WhichOneof("encoding")
        if kind == "coo_sparse":
            coo = info.coo_sparse
            parts: tuple[tuple[str, int], ...] = (
                (coo.indices_tensor_name, DT_INT64),
                (coo.values_tensor_name, info.dtype),
                (coo.dense_shape_tensor_name, DT_INT64),
            )
            names = part_names(alias, "sparse", 3)
        elif kind == "composite_tensor":
            components = info.composite_tensor.components
            parts = tuple((component.name, component.dtype) for component in components)
            names = part_names(alias, "ragged", len(parts))
        else:
            slots[alias] = _slot(alias, info)
            continue
        for name, (tensor, number) in zip(names, parts, strict=True):
            known = tensors.KINDS.get(number)
            # Without a shape: rows of several requests cannot be put one after the other.
            slots[name] = Slot(name, tensor, number, known and known[0], None)
    return slots


def _slot(alias: str, info: Any) -> Slot:
    shape = info.tensor_shape
    dims = None if shape.unknown_rank else tuple(dim.size for dim in shape.dim)
    kind = tensors.KINDS.get(info.dtype)
    return Slot(alias, info.name, info.dtype, kind and kind[0], dims)
