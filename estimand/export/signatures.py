"""From receivers and export outputs to the signatures of a SavedModel."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import SpecError
from estimand.core.export_output import (
    ClassificationOutput,
    EvalOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
)
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec

_log = logging.getLogger("tensorflow")

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# Mode -> the tag of its MetaGraph.
TAGS = {
    ModeKeys.TRAIN: "train",
    ModeKeys.EVAL: "eval",
    ModeKeys.PREDICT: tf.saved_model.SERVING,
}


def signatures_for(spec: EstimatorSpec, receiver: Any) -> dict[str, Any]:
    """The `SignatureDef`s by name; called while the graph of `spec` is being built."""
    if spec.mode != ModeKeys.PREDICT:
        output = TrainOutput if spec.mode == ModeKeys.TRAIN else EvalOutput
        nothing = isinstance(spec.predictions, dict) and not spec.predictions
        predictions = None if nothing else spec.predictions
        made = output(spec.loss, predictions, spec.eval_metric_ops or None)
        return {TAGS[spec.mode]: made.as_signature_def(receiver.receiver_tensors)}
    outputs = _export_outputs(spec)
    signatures, excluded = _serving_signatures(outputs, receiver.receiver_tensors, "")
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    _add_default(signatures, outputs, receiver.receiver_tensors)
    for name, tensors in alternatives.items():
        more, more_excluded = _serving_signatures(outputs, tensors, f"{name}:")
        twice = sorted(signatures.keys() & more.keys())
        if twice:
            raise SpecError(
                f"Two signatures have the name {twice[0]!r}: one of export_outputs, one of the "
                f"receiver alternative {name!r}. Rename the alternative or the export output."
            )
        signatures.update(more)
        excluded.update(more_excluded)
    _report(signatures, excluded)
    if not signatures:
        reasons = "\n".join(f"  {name}: {why}" for name, why in excluded.items())
        raise SpecError(f"No signature of this model can be served:\n{reasons}")
    return signatures


def _export_outputs(spec: EstimatorSpec) -> Mapping[str, Any]:
    if not spec.export_outputs:
        raise SpecError(
            "The EstimatorSpec of mode PREDICT has no export_outputs, so there is nothing to "
            f"serve; given: {spec.export_outputs!r}. Leave export_outputs out to serve the "
            "predictions, or pass e.g. export_outputs={'serving_default': "
            "est.export.PredictOutput(predictions)}."
        )
    names = [str(key) for key in spec.export_outputs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(
            f"Two entries of export_outputs make one signature name: {twice}. Given: "
            f"{list(spec.export_outputs)}."
        )
    return {str(key or "None"): output for key, output in spec.export_outputs.items()}


def _serving_signatures(
    outputs: Mapping[str, Any], receivers: Mapping[str, Any], prefix: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Those that work with these receivers, and why the others do not."""
    signatures: dict[str, Any] = {}
    excluded: dict[str, str] = {}
    for name, output in outputs.items():
        try:
            signature = output.as_signature_def(receivers)
            _check_fed(receivers, signature)
        except ValueError as error:
            excluded[prefix + name] = str(error)
        else:
            signatures[prefix + name] = signature
    return signatures, excluded


def _add_default(
    signatures: dict[str, Any], outputs: Mapping[str, Any], receivers: Mapping[str, Any]
) -> None:
    """Let a model that is fed raw features have a default signature too.

    Classify and regress signatures take serialized examples only: where the default was one of
    them, what it would have answered, or the `predict` signature, takes its place.
    """
    if DEFAULT in signatures or DEFAULT not in outputs:
        return
    predicting = [
        name
        for name, s in signatures.items()
        if s.method_name == tf.saved_model.PREDICT_METHOD_NAME
    ]
    if predicting:
        signatures[DEFAULT] = signatures["predict" if "predict" in predicting else predicting[0]]
        return
    plain = _as_predict_output(outputs[DEFAULT])
    if plain is not None:
        made, _ = _serving_signatures({DEFAULT: plain}, receivers, "")
        signatures.update(made)


def _as_predict_output(output: Any) -> PredictOutput | None:
    if isinstance(output, ClassificationOutput):
        parts = {"classes": output.classes, "scores": output.scores}
        return PredictOutput({k: v for k, v in parts.items() if v is not None})
    if isinstance(output, RegressionOutput):
        return PredictOutput({"outputs": output.value})
    return None


def _check_fed(receivers: Mapping[str, Any], signature: Any) -> None:
    """Raise if an output needs a placeholder that these receivers leave unfed."""
    graph = tf.compat.v1.get_default_graph()
    fed = set(_tensor_names(receivers.values()))
    captured = {inner.op.name for _, inner in getattr(graph, "captures", ())}
    for name, info in signature.outputs.items():
        start = graph.as_graph_element(info.name or _parts(info)[0])
        unfed = _unfed_placeholder(start, fed, captured)
        if unfed is not None:
            raise SpecError(
                f"Output {name!r} cannot be computed from the inputs {sorted(receivers)}: it "
                f"needs placeholder {unfed!r}, which is not among them."
            )


def _tensor_names(values: Iterable[Any]) -> list[str]:
    return [t.name for t in tf.nest.flatten(list(values), expand_composites=True)]


def _parts(info: Any) -> list[str]:
    coo = info.coo_sparse
    if coo.values_tensor_name:
        return [coo.values_tensor_name]
    return [part.name for part in info.composite_tensor.components]


def _unfed_placeholder(start: tf.Tensor, fed: set[str], captured: set[str]) -> str | None:
    stack, seen = [start], set()
    while stack:
        tensor = stack.pop()
        if tensor.name in fed or tensor.op.name in seen:
            continue
        if tensor.op.type in ("Placeholder", "PlaceholderV2") and tensor.op.name not in captured:
            return tensor.op.name
        seen.add(tensor.op.name)
        stack.extend(tensor.op.inputs)
    return None


def _report(signatures: Mapping[str, Any], excluded: Mapping[str, str]) -> None:
    kinds = {"classify": "Classify", "regress": "Regress", "predict": "Predict"}
    for kind, title in kinds.items():
        names = [n for n, s in signatures.items() if s.method_name.endswith(f"/{kind}")]
        _log.info("Signatures INCLUDED in export for %s: %s", title, names or None)
    for name, why in excluded.items():
        _log.info("Signature %r left out of the export: %s", name, why)
    if DEFAULT not in signatures:
        _log.warning("Export includes no default signature!")
