"""Checkpoints of V1 canned models under V2 names, and the other way round.

Values are what a checkpoint holds, by name. Weights keep their names; the state of the optimizers
moves. V1 kept no hyperparameters, so on the way to V2 they have to be given, or are the defaults
of V1's canned models.

>>> import numpy as np
>>> old = {"linear/linear_model/x/weights": np.zeros([1, 1]),
...        "linear/linear_model/x/weights/part_0/Ftrl": np.ones([1, 1]),
...        "linear/linear_model/x/weights/part_0/Ftrl_1": np.ones([1, 1]),
...        "global_step": np.int64(7)}
>>> new = to_v2(old)
>>> [name for name in new if name.endswith("/linear")]
['training/Ftrl/linear/linear_model/x/weights/linear']
>>> sorted(to_v1(new)) == sorted(old)
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from estimand.canned.optimizers.choice import BY_NAME
from estimand.canned.v1_names import _V1_INPUT_LAYER, INFIXES, SLOTS, source_of
from estimand.core.errors import CheckpointError, ConfigError

Values = Mapping[str, Any]

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in BY_NAME.values()}
_V1_SLOTS = {old: (kind, new) for kind, slots in SLOTS.items() for new, old in slots.items()}
_POWER = re.compile(r"(^|/)beta[12]_power(_\d+)?$")
_V2_STATE = re.compile(
    r"^(?P<outer>training(_\d+)?)/(?P<kind>[A-Za-z]+)(?P<suffix>_\d+)?/(?P<rest>.+)$"
)
_V1_SHARED = re.compile(
    re.escape(_V1_INPUT_LAYER) + r"(?P<name>[^/]+_shared_embedding)/embedding_weights$"
)
_V2_SHARED = re.compile(r"^[^/]+_shared_embedding$")


@dataclass
class _Optimizer:
    """What trained one part of a model: the deep one, the linear one, or all of it."""

    kind: str
    slots: list[tuple[str, str]] = field(default_factory=list)  # (variable, slot), as in V2
    scope: str = ""


# ------------------------------------------------------------------ to V2


def to_v2(
    values: Values,
    learning_rate: float | None = None,
    linear_learning_rate: float | None = None,
    momentum: float | None = None,
) -> dict[str, Any]:
    """The same state under the names of V2.

    `linear_learning_rate` is for the linear part of a wide and deep model.
    """
    parts = _parts(values)
    if any(_V2_STATE.match(name) for name in values):
        raise CheckpointError("The checkpoint has V2 names already (training/...).")
    weights, optimizers = _taken_apart(values, parts)
    rates = {"linear": linear_learning_rate, **{parts[0]: learning_rate}}
    hypers: dict[str, Any] = {}
    for part, optimizer in optimizers.items():
        rate = rates.get(part)
        hypers.update(_hypers(optimizer, _rate(rate, part, parts, optimizer, values), momentum))
    result = {_v2_name(name): values[name] for name in weights}
    wanted = [*hypers]
    for part, optimizer in optimizers.items():
        wanted += [f"training/{optimizer.scope}/{v}/{slot}" for v, slot in optimizer.slots]
        if part == "linear" and len(parts) > 1:
            wanted.append(f"training/{optimizer.scope}/iter")
    kinds = {optimizer.scope: optimizer.kind for optimizer in optimizers.values()}
    for name in wanted:
        source = source_of(name, values.keys(), hypers, kinds)
        assert source is not None, name  # every wanted name was made of one that is there
        value = np.asarray(source.compute([values[old] for old in source.names]))
        result[name] = value.astype(np.float32) if value.dtype == np.float64 else value
    return result


def _taken_apart(values: Values, parts: list[str]) -> tuple[list[str], dict[str, _Optimizer]]:
    """The names that stay, and the optimizers by the part that they trained."""
    weights, optimizers = [], {part: _Optimizer("") for part in parts}
    for name in sorted(values):
        slot = _v1_slot(name, values)
        if slot is None:
            if not _POWER.search(name):
                weights.append(name)
            continue
        variable, kind, new = slot
        part = "linear" if variable.startswith("linear/") and "linear" in optimizers else parts[0]
        if optimizers[part].kind not in ("", kind):
            raise CheckpointError(
                f"The {part} part has slots of two optimizers, {optimizers[part].kind} and {kind}; "
                "a canned model has one."
            )
        optimizers[part].kind = kind
        if name.endswith("/RMSProp_1") and not np.any(values[name]):
            continue  # V1 kept a momentum even where there was none
        optimizers[part].slots.append((_v2_name(variable), new))
    for number, part in enumerate(parts):
        optimizer = optimizers[part]
        optimizer.kind = optimizer.kind or "SGD"  # which keeps no slots
        same = number and optimizers[parts[0]].kind == optimizer.kind
        optimizer.scope = optimizer.kind + ("_1" if same else "")
    return weights, optimizers


def _v1_slot(name: str, values: Values) -> tuple[str, str, str] | None:
    """(variable, kind of optimizer, slot as of V2) of a V1 slot; None for other variables."""
    before, _, last = name.rpartition("/")
    if last not in _V1_SLOTS:
        if re.fullmatch(r"RMSProp_2|Adam_[2-9]", last):
            raise CheckpointError(f"{name} belongs to an optimizer that V2 has no names for.")
        return None
    kind, slot = _V1_SLOTS[last]
    for infix in INFIXES:
        variable = f"{before}/".removesuffix(infix) if f"{before}/".endswith(infix) else ""
        if variable in values:
            return variable, kind, slot
    return None


def _hypers(optimizer: _Optimizer, rate: float, momentum: float | None) -> dict[str, Any]:
    keeps_momentum = any(slot == "momentum" for _, slot in optimizer.slots)
    if keeps_momentum and momentum is None:
        raise ConfigError(
            f"The checkpoint has the momentum of {optimizer.kind}, but V1 did not save how much "
            "of it is kept at each step. Give --momentum, e.g. 0.9."
        )
    values = dict(_KINDS[optimizer.kind](learning_rate=rate)._hypers)
    if keeps_momentum:
        values["momentum"] = momentum
    return {f"training/{optimizer.scope}/{name}": value for name, value in values.items()}


def _rate(
    given: float | None, part: str, parts: list[str], optimizer: _Optimizer, values: Values
) -> float:
    """The learning rate: what is given, or what V1's canned models had by default."""
    if given is not None:
        return given
    if any(slot == "momentum" and optimizer.kind == "SGD" for _, slot in optimizer.slots):
        option = "--linear-learning-rate" if part != parts[0] else "--learning-rate"
        raise ConfigError(
            "V1 kept momentum as a sum of gradients, V2 as a sum of steps: to convert it, the "
            f"learning rate is needed. Give {option}."
        )
    if len(parts) > 1:
        columns = sum(bool(re.match(r"linear/linear_model/[^/]+/weights$", n)) for n in values)
        return 0.001 if part == "dnn" else min(0.005, 1.0 / math.sqrt(max(columns, 1)))
    return {"dnn": 0.05, "linear": 0.2, "baseline": 0.3}[part]


def _v2_name(variable: str) -> str:
    shared = _V1_SHARED.match(variable)
    return shared["name"] if shared else variable


# ------------------------------------------------------------------ to V1


def to_v1(values: Values) -> dict[str, Any]:
    """The same state under the names of V1; hyperparameters are left out, as V1 had none."""
    parts = _parts(values)
    state = {name: match for name in values if (match := _V2_STATE.match(name))}
    if not state:
        raise CheckpointError("The checkpoint has no V2 names (training/...) to convert.")
    result = {_v1_name(name): values[name] for name in values if name not in state}
    infix = {"dnn": "/t_0/", "linear": "/part_0/"}.get(parts[0], "/") if len(parts) == 1 else "/"
    head = f"{parts[0]}/head/" if len(parts) == 1 and parts[0] != "baseline" else "head/"
    step = int(np.asarray(values.get("global_step", 0)))
    for name, match in state.items():
        variable, _, slot = match["rest"].rpartition("/")
        scope = f"{match['outer']}/{match['kind']}{match['suffix'] or ''}"
        if not variable:
            if slot in ("beta_1", "beta_2"):
                power = f"{head}{slot.replace('_', '')}_power{match['suffix'] or ''}"
                result[power] = np.float32(np.asarray(values[name]) ** (step + 1))
            continue
        old = SLOTS.get(match["kind"], {}).get(slot)
        if old is None:
            raise CheckpointError(f"V1 has no name for {name}.")
        value = np.asarray(values[name])
        if old == "Momentum":
            value = value / -np.asarray(values[f"{scope}/learning_rate"])
        result[f"{_v1_name(variable)}{infix}{old}"] = value
        if old == "RMSProp" and f"{scope}/{variable}/momentum" not in values:
            result[f"{_v1_name(variable)}{infix}RMSProp_1"] = np.zeros_like(value)
    return result


def _v1_name(variable: str) -> str:
    if _V2_SHARED.match(variable):
        return f"{_V1_INPUT_LAYER}{variable}/embedding_weights"
    return variable


def _parts(values: Values) -> list[str]:
    """Which parts the model has, the one whose optimizer counts the global step first."""
    parts = [p for p in ("dnn", "linear", "baseline") if any(n.startswith(f"{p}/") for n in values)]
    if not parts:
        raise CheckpointError(
            "This is no checkpoint of a canned model: it has no variables below dnn/, linear/ or "
            "baseline/. Only those were named differently in V1."
        )
    return parts
