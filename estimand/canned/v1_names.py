"""How the canned models of `tf.compat.v1.estimator` named their variables in checkpoints.

The weights go by the same names as ever. The state of the optimizers does not: what is now
`training/Adagrad/dnn/logits/kernel/accumulator` was `dnn/logits/kernel/t_0/Adagrad`, and the
hyperparameters were in no checkpoint at all. `source_of` finds, for a variable of today, what an
old checkpoint has in its place.

>>> old = {"dnn/logits/kernel", "dnn/logits/kernel/t_0/Adagrad", "global_step"}
>>> source_of("training/Adagrad/dnn/logits/kernel/accumulator", old).names
('dnn/logits/kernel/t_0/Adagrad',)
>>> source_of("training/Adagrad/learning_rate", old, {"training/Adagrad/learning_rate": 0.05})
Source(names=(), value=0.05)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.checkpoints.substitutes import Source, note_substitutes

# Kind of optimizer -> our slot -> the slot's name in v1.
SLOTS = {
    "Adagrad": {"accumulator": "Adagrad"},
    "Adam": {"m": "Adam", "v": "Adam_1"},
    "Ftrl": {"accumulator": "Ftrl", "linear": "Ftrl_1"},
    "RMSprop": {"rms": "RMSProp", "momentum": "RMSProp_1"},
    "SGD": {"momentum": "Momentum"},
}
# What stood between a variable's name and the slot's: deep models, linear ones, the others.
INFIXES = ("/t_0/", "/part_0/", "/")
_SMALLEST_TRUSTED_POWER = 1e-30  # nearer to zero, float32 has lost what it was a power of

# A MultiHead of n heads trains in `training_<n>/`.
_TRAINING = re.compile(r"^(?P<outer>training(_\d+)?)/(?P<scope>[^/]+)/(?P<rest>.+)$")
_SHARED = re.compile(r"^[^/]+_shared_embedding$")
_V1_INPUT_LAYER = "dnn/input_from_feature_columns/input_layer/"
_V1_PART = re.compile(r"/(t|part)_0$")
_V1_SHARED_WEIGHTS = re.compile(
    re.escape(_V1_INPUT_LAYER) + r"(?P<name>[^/]+_shared_embedding)/embedding_weights$"
)
_POWER = re.compile(r"(^|/)beta(?P<number>[12])_power(?P<second>_1)?$")


def source_of(
    name: str,
    stored: Collection[str],
    hypers: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Source | None:
    """Where a v1 checkpoint with the variables `stored` has the value of the variable `name`.

    `hypers` are today's values of hyperparameters, by variable name: v1 kept none. `kinds` tells
    what kind of optimizer a scope below `training/` is, where the scope's name does not.
    """
    if _SHARED.match(name):
        old = f"{_V1_INPUT_LAYER}{name}/embedding_weights"
        return Source((old,)) if old in stored else None
    match = _TRAINING.match(name)
    if match is None or any(_TRAINING.match(n) for n in stored):
        return None  # no state of an optimizer, or no v1 checkpoint
    scope, rest = match["scope"], match["rest"]
    kind = (kinds or {}).get(scope) or re.sub(r"_\d+$", "", scope)
    if rest == "iter":
        return Source(("global_step",)) if "global_step" in stored else None
    if "/" not in rest:
        return _hyper_source(name, rest, scope, stored, hypers or {})
    rate = (hypers or {}).get(f"{match['outer']}/{scope}/learning_rate")
    return _slot_source(rest, kind, stored, rate)


def source_in_v2(name: str, stored: Collection[str]) -> Source | None:
    """The other way round: where a checkpoint of today has the value of a v1 variable.

    >>> today = {"training/Adagrad/dnn/logits/kernel/accumulator", "training/Adagrad/decay"}
    >>> source_in_v2("dnn/logits/kernel/t_0/Adagrad", today).names
    ('training/Adagrad/dnn/logits/kernel/accumulator',)
    """
    if power := _POWER.search(name):
        beta = f"training/Adam{power['second'] or ''}/beta_{power['number']}"
        if beta not in stored or "global_step" not in stored:
            return None
        return Source((beta, "global_step"), lambda b, n: np.asarray(b) ** (np.asarray(n) + 1.0))
    before, _, v1_slot = name.rpartition("/")
    kind, slot = next(
        ((k, new) for k, slots in SLOTS.items() for new, old in slots.items() if old == v1_slot),
        ("", ""),
    )
    variable = _V1_PART.sub("", before)
    shared = _V1_SHARED_WEIGHTS.match(variable)
    variable = shared["name"] if shared else variable
    scopes = [f"training/{kind}{suffix}" for suffix in ("", "_1")]
    scope = next((s for s in scopes if any(n.startswith(f"{s}/{variable}/") for n in stored)), None)
    if scope is None:
        return None
    slot_name = f"{scope}/{variable}/{slot}"
    if slot_name not in stored:
        # v1 kept a momentum even where there was none.
        return Source((), 0.0) if v1_slot == "RMSProp_1" else None
    if v1_slot != "Momentum":
        return Source((slot_name,))
    rate = f"{scope}/learning_rate"
    return Source((slot_name, rate), lambda steps, r: steps / -r) if rate in stored else None


def _slot_source(rest: str, kind: str, stored: Collection[str], rate: Any) -> Source | None:
    variable, _, slot = rest.rpartition("/")
    v1_slot = SLOTS.get(kind, {}).get(slot)
    if _SHARED.match(variable):
        variable = f"{_V1_INPUT_LAYER}{variable}/embedding_weights"
    candidates = [f"{variable}{infix}{v1_slot}" for infix in INFIXES]
    old = next((n for n in candidates if n in stored), None)
    if v1_slot is None or old is None:
        return None
    if v1_slot != "Momentum":
        return Source((old,))
    if not isinstance(rate, (int, float)):
        return None
    # v1 summed up gradients and applied the rate to the sum; Keras sums up the steps.
    return Source((old,), lambda total: -rate * np.asarray(total))


def _hyper_source(
    name: str, hyper: str, scope: str, stored: Collection[str], hypers: Mapping[str, Any]
) -> Source | None:
    given = hypers.get(name)
    if not isinstance(given, (int, float)):
        return None
    if hyper in ("beta_1", "beta_2"):
        suffix = re.search(r"_\d+$", scope)
        power = hyper.replace("_", "") + "_power" + (suffix[0] if suffix else "")
        # Made inside the head: dnn/head/beta1_power, or whatever the head was called.
        old = min((n for n in stored if f"/{n}".endswith(f"/{power}")), key=len, default=None)
        if old is not None and "global_step" in stored:
            return Source((old, "global_step"), lambda p, n: _root(p, n, given))
    return Source((), given)


def _root(power: Any, step: Any, given: float) -> float:
    """The beta of which `power` is the (step + 1)th power."""
    power, step = float(np.asarray(power)), int(np.asarray(step))
    if power < _SMALLEST_TRUSTED_POWER:
        return given
    return power ** (1.0 / (step + 1))


def note_optimizer(
    kind: str, scope: str, hypers: Mapping[str, Any], slots: Mapping[str, float]
) -> None:
    """Let the model being built take this optimizer's state from v1 checkpoints, too.

    And from those of today's `tf.estimator`, which has no slots for shared embeddings: it never
    trained them. Theirs start from the values `slots`.
    """
    values = {scope + name: value for name, value in hypers.items()}
    kinds = {scope.split("/")[1]: kind}

    def find(name: str, stored: Collection[str]) -> Source | None:
        if not name.startswith(scope):
            return None
        if name in values and name in stored:
            # Given as 0 and not as 0.0, a hyperparameter was saved as an integer.
            return Source((name,), lambda number: number)
        variable, _, slot = name.removeprefix(scope).rpartition("/")
        if _SHARED.match(variable) and variable in stored and slot in slots:
            return Source((), slots[slot])
        return source_of(name, stored, values, kinds)

    note_substitutes(tf.compat.v1.get_default_graph(), find)


def note_v1_optimizer() -> None:
    """Let the model being built, which has v1 names, be restored from today's checkpoints, too."""
    note_substitutes(tf.compat.v1.get_default_graph(), source_in_v2)


def note_shared_embeddings() -> None:
    """Let the model being built take shared embeddings from checkpoints of the other names, too."""

    def find(name: str, stored: Collection[str]) -> Source | None:
        if _SHARED.match(name):
            return source_of(name, stored)
        shared = _V1_SHARED_WEIGHTS.match(name)
        return Source((shared["name"],)) if shared and shared["name"] in stored else None

    note_substitutes(tf.compat.v1.get_default_graph(), find)
