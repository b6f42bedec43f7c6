"""Predict: named arrays in, named arrays out, by a signature."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.core.files import varints
from estimand.serving.batching.lane import Lane
from estimand.serving.batching.pending_lane import PendingLane
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.models.servable import DEFAULT_SIGNATURE, Signature, Slot
from estimand.serving.protos import tensors
from estimand.serving.status import StatusError, failed_precondition, invalid

_MAX_PLANS = 256
_METHODS_OF_PREDICT = (
    "tensorflow/serving/predict",
    "tensorflow/serving/classify",
    "tensorflow/serving/regress",
)


@dataclass(frozen=True)
class Plan:
    """A signature and a choice of its outputs, resolved. `lane.run` takes the inputs in order."""

    lane: Lane | PendingLane
    picks: tuple[int, ...] | None  # which of the lane's outputs are answered; None for all
    signature: Signature
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    keys: tuple[bytes, ...]  # each output's key, as it begins its entry of the answer
    spec: bytes  # the model_spec of the answer, serialized

    @functools.cached_property
    def only_input(self) -> tuple[str, int] | None:
        """Its name and type; None if there are several."""
        return (self.inputs[0].alias, self.inputs[0].number) if len(self.inputs) == 1 else None


def predict_plan_for(
    version: LoadedVersion,
    name: str,
    wanted: tuple[str, ...] = (),
    check_method: bool = False,
) -> Plan:
    plan = version.plans.get((name, wanted))
    if plan is None:
        plan = _make_plan(version, name or DEFAULT_SIGNATURE, wanted, check_method)
        if len(version.plans) >= _MAX_PLANS:
            version.plans.clear()
        version.plans[name, wanted] = plan
    assert isinstance(plan, Plan)
    return plan


def _make_plan(
    version: LoadedVersion, name: str, wanted: tuple[str, ...], check_method: bool
) -> Plan:
    signature = version.servable.signatures.get(name)
    if signature is None:
        raise failed_precondition(f'Serving signature key "{name}" not found.')
    if check_method and signature.method not in _METHODS_OF_PREDICT:
        raise StatusError.of(
            "INTERNAL",
            "Expected prediction signature method_name to be one of "
            f"{{{', '.join(_METHODS_OF_PREDICT)}}}. Was: {signature.method}",
        )
    outputs = _chosen(signature, wanted)
    inputs = tuple(signature.inputs.values())
    lane, picks = _lane_for(version, signature, outputs)
    return Plan(
        lane,
        picks,
        signature,
        inputs,
        outputs,
        tuple(tensors.length_delimited(0x0A, slot.alias.encode()) for slot in outputs),
        tensors.length_delimited(0x12, _spec(version, name)),
    )


def _lane_for(
    version: LoadedVersion, signature: Signature, outputs: tuple[Slot, ...]
) -> tuple[Lane | PendingLane, tuple[int, ...] | None]:
    """That of all outputs, or of some of them, for a few choices; and where in it they are."""
    inputs, computed = tuple(signature.inputs.values()), tuple(signature.outputs.values())
    if outputs == computed:
        return version.lane(inputs, computed), None
    some = tuple(slot for slot in computed if slot in outputs)
    if some != computed and version.has_room_for((signature.name, some)):
        computed = some
    return version.lane(inputs, computed), tuple(map(computed.index, outputs))


def _chosen(signature: Signature, wanted: tuple[str, ...]) -> tuple[Slot, ...]:
    if not wanted:
        return tuple(signature.outputs.values())
    chosen: dict[str, Slot] = {}
    for alias in wanted:
        if alias not in signature.outputs:
            expected = ",".join(signature.outputs)
            raise invalid(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in "
                f"the set {{{expected}}}."
            )
        if alias in chosen:
            raise invalid(f"duplicate output tensor alias: {alias}")
        chosen[alias] = signature.outputs[alias]
    return tuple(chosen.values())


def _spec(version: LoadedVersion, signature: str) -> bytes:
    from tensorflow_serving.apis import model_pb2

    spec = model_pb2.ModelSpec(name=version.name, signature_name=signature)
    spec.version.value = version.number
    return spec.SerializeToString()


def decode_inputs(plan: Plan, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """The arrays of a PredictRequest in the plan's order."""
    if len(inputs) != len(plan.inputs) or any(slot.alias not in inputs for slot in plan.inputs):
        return _with_defaults(plan, inputs)
    return [_decode(plan, slot, inputs[slot.alias]) for slot in plan.inputs]


def _decode(plan: Plan, slot: Slot, proto: Any) -> np.ndarray:
    if proto.dtype != slot.number:
        raise invalid(
            f"Expects arg[{plan.inputs.index(slot)}] to be {tensors.NAME_OF[slot.number]} but "
            f"{tensors.NAME_OF.get(proto.dtype, 'invalid')} is provided"
        )
    try:
        return tensors.decode(proto)
    except (ValueError, OverflowError) as error:
        raise invalid(f"tensor parsing error: {slot.alias}") from error


def _with_defaults(plan: Plan, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    known = plan.signature.inputs
    defaults = plan.signature.defaults
    missing = [alias for alias in known if alias not in inputs and alias not in defaults]
    extra = sorted(alias for alias in inputs if alias not in known)
    if not defaults and len(inputs) != len(known):
        sent = ",".join(sorted(inputs))
        raise invalid(
            f"input size does not match signature: {len(inputs)}!={len(known)} "
            f"len({{{sent}}}) != len({{{','.join(known)}}}). Sent extra: "
            f"{{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
        )
    if missing:
        slot = known[missing[0]]
        raise invalid(
            f"Signature input alias: {slot.alias}(feed name: {slot.tensor}) not found in request "
            f"and no default value provided. Inputs expected to be in the set "
            f"{{{','.join(known)}}}."
        )
    if extra:
        raise invalid(
            "Inputs contains invalid name. Used request inputs: "
            f"{','.join(alias for alias in known if alias in inputs)}. Unused: {','.join(extra)}."
        )
    return [
        _decode(plan, slot, inputs[alias]) if alias in inputs else defaults[alias]
        for alias, slot in known.items()
    ]


def encode_response(plan: Plan, outputs: Sequence[np.ndarray], as_content: bool) -> bytes:
    """A serialized PredictResponse."""
    parts: list[bytes] = []
    if plan.picks is not None:
        outputs = [outputs[place] for place in plan.picks]
    for key, array in zip(plan.keys, outputs, strict=True):
        if tensors.is_raw(array) and not as_content:
            parts += (_start_of_output(key, array.dtype, array.shape), array.tobytes())
        else:
            tensor = tensors.length_delimited(0x12, tensors.encode(array, as_content))
            parts.append(tensors.length_delimited(0x0A, key + tensor))
    parts.append(plan.spec)
    return b"".join(parts)


@functools.lru_cache(4096)
def _start_of_output(key: bytes, kind: np.dtype, shape: tuple[int, ...]) -> bytes:
    """An entry of the outputs up to its values."""
    head = tensors.head(kind, shape)
    values = math.prod(shape) * kind.itemsize
    start = key + b"\x12" + varints.encode(len(head) + values) + head
    return b"\x0a" + varints.encode(len(start) + values) + start
