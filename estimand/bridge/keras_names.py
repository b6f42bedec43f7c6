"""Names: of a Keras model's variables in a checkpoint, of its inputs and of its outputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from estimand.core import tf_private
from estimand.core.errors import EstimandError, InputError

_NUMBERED = re.compile(r"(.+?)(?:_(\d+))?")


class KeyMissingError(EstimandError, KeyError):
    """A dict lacks a name that the Keras model asks for."""

    def __str__(self) -> str:  # KeyError would show the message in quotes, on one line
        return str(self.args[0])


# ------------------------------------------------------------------ variables


def variable_names(model: Any) -> list[str]:
    """The names of `model.variables` in a checkpoint, in their order.

    They tell the layers a variable is in: `dense_1/kernel`, `encoder/dense/kernel`. The numbers
    that Keras gives to nameless layers are counted within the model: Keras counts in the whole
    process, so that a model made a second time, or after another one, would not find its own
    checkpoint.
    """
    paths = [place for place, _ in tf_private.keras_variables_by_place(model)]
    kinds = {tf_private.keras_kind(layer) for layer in tf_private.keras_layers(model)}
    numbers: dict[str, set[int]] = {}
    for path in paths:
        for kind, number in filter(None, (_numbered(part, kinds) for part in path[:-1])):
            numbers.setdefault(kind, set()).add(number)
    ranks = {kind: sorted(numbered) for kind, numbered in numbers.items()}

    def renamed(part: str) -> str:
        numbered = _numbered(part, kinds)
        if numbered is None:
            return part
        kind, number = numbered
        rank = ranks[kind].index(number)
        return f"{kind}_{rank}" if rank else kind

    return unique("/".join([*map(renamed, path[:-1]), path[-1]]) for path in paths)


def _numbered(part: str, kinds: set[str]) -> tuple[str, int] | None:
    """Of a name that Keras made: what it was made from, and the number."""
    match = _NUMBERED.fullmatch(part)
    if match is None or match[1] not in kinds:
        return None
    return match[1], int(match[2] or 0)


def optimizer_name(optimizer: Any) -> str:
    """The name of an optimizer without the number that Keras gave it in this process."""
    numbered = _numbered(optimizer.name, {tf_private.keras_kind(optimizer)})
    return optimizer.name if numbered is None else numbered[0]


def unique(names: Any) -> list[str]:
    """The names, with _1, _2, … after those that have been before."""
    taken: list[str] = []
    for name in names:
        candidate, count = name, 1
        while candidate in taken:
            candidate, count = f"{name}_{count}", count + 1
        taken.append(candidate)
    return taken


# ------------------------------------------------------------------ inputs


def input_names(model: Any) -> list[str] | None:
    """What the features of a model are called; None where only its `call` knows."""
    accepted = _accepted_inputs(model)
    return None if accepted is None else [names[0] for names in accepted]


def _accepted_inputs(model: Any) -> list[list[str]] | None:
    """For each input, the names that it goes by; the one to use comes first."""
    tensors = _input_tensors(model)
    if tensors is None:
        return None
    if isinstance(tensors, Mapping):
        return [[key] for key in tensors]
    result = []
    for number, tensor in enumerate(tensors, 1):
        layer = tf_private.keras_layer_of(tensor)
        given = tensor.name if not tensor.name.startswith("keras_tensor") else layer
        # The last is what Keras 2 called inputs without a name.
        result.append(list(dict.fromkeys([given, layer, tensor.name, f"input_{number}"])))
    return result


def _input_tensors(model: Any) -> Any:
    import keras

    if not model.built:
        return None
    if isinstance(model, keras.Sequential):
        return list(model.inputs)
    if not hasattr(model, "output_names"):  # subclassed: only a functional model has them
        return None
    inputs = model.input
    if isinstance(inputs, Mapping):
        return inputs
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def model_inputs(model: Any, features: Any) -> Any:
    """Features as the model is called with them."""
    accepted = _accepted_inputs(model)
    if not isinstance(features, Mapping) or accepted is None:
        return features
    tensors = _input_tensors(model)
    if isinstance(tensors, Mapping):
        check_keys(list(tensors), features, "features", "inputs")
        return {key: features[key] for key in tensors}
    if len(accepted) == 1 and len(features) == 1:
        return next(iter(features.values()))  # there is nothing to mistake it for
    matching = [next((n for n in names if n in features), None) for names in accepted]
    if None in matching:
        check_keys([names[0] for names in accepted], features, "features", "inputs")
    values = [features[name] for name in matching]
    return values[0] if len(values) == 1 else values


def check_keys(wanted: Sequence[str], given: Mapping[str, Any], what: str, of: str) -> None:
    """Raise if a dict that an input function gives lacks a name of the model."""
    missing = set(wanted) - set(given)
    if missing:
        raise KeyMissingError(
            f"The dictionary passed into {what} does not cover requested {of} keys defined in "
            f"the keras model.\n\tExpected keys: {set(wanted)}\n\t{what} keys: {set(given)}"
            f"\n\tMissed keys: {missing}\nLet input_fn return {what} under these names."
        )


# ------------------------------------------------------------------ outputs


def output_names(model: Any) -> list[str] | None:
    """What the outputs of a model are called; None where only its `call` knows."""
    import keras

    if _input_tensors(model) is None:
        return None
    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    if isinstance(model.output, Mapping):
        return list(model.output)
    return unique(model.output_names)


def named_outputs(model: Any, outputs: Any) -> dict[str, Any]:
    """What a model answers, by the names of its outputs."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    flat = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    names = output_names(model)
    if names is None or len(names) != len(flat):
        names = [f"output_{number}" for number in range(1, len(flat) + 1)]
    return dict(zip(names, flat, strict=True))


def model_labels(model: Any, labels: Any, outputs: Any) -> Any:
    """Labels in the structure of the model's outputs."""
    if labels is None and not _makes_its_own_loss(model):
        raise InputError(
            "The Keras model was compiled with a loss, but input_fn returns no labels. Return "
            "(features, labels), for example a Dataset of such pairs."
        )
    if not isinstance(labels, Mapping) or isinstance(outputs, Mapping):
        return labels
    names = list(named_outputs(model, outputs))
    if len(names) == 1 and len(labels) == 1:
        return next(iter(labels.values()))
    check_keys(names, labels, "labels", "outputs")
    values = [labels[name] for name in names]
    return values if isinstance(outputs, (list, tuple)) else values[0]


def _makes_its_own_loss(model: Any) -> bool:
    """Compiled without a loss, or with a `compute_loss` of its own, which may need no labels."""
    import keras

    return getattr(model, "loss", None) is None or (
        type(model).compute_loss is not keras.Model.compute_loss
    )


def model_weights(model: Any, weights: Any, outputs: Any) -> Any:
    """Weights of samples in the structure of the outputs; an output without any has None."""
    if not isinstance(weights, Mapping):
        return weights
    names = list(named_outputs(model, outputs))
    if unknown := [name for name in weights if name not in names]:
        raise InputError(
            f"Unknown entries in sample_weights dictionary: {unknown}. Only expected following "
            f"keys: {names}"
        )
    if isinstance(outputs, Mapping):
        return {name: weights.get(name) for name in names}
    values = [weights.get(name) for name in names]
    return values if isinstance(outputs, (list, tuple)) else values[0]
