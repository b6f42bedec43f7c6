"""What a model function may return, and leave in its graph."""

from __future__ import annotations

from typing import Any

from estimand.core.errors import ModelFnError
from estimand.core.spec import EstimatorSpec


def checked_spec(spec: Any, mode: str) -> EstimatorSpec:
    """`spec` if it is one, and of this mode."""
    if hasattr(spec, "as_estimator_spec"):
        spec = spec.as_estimator_spec()
    if not isinstance(spec, EstimatorSpec):
        raise ModelFnError(
            "model_fn should return an EstimatorSpec. "
            f"In mode {mode!r} it returned {type(spec).__name__}: {spec!r}. {_advice(spec)}"
        )
    if spec.mode is None:  # a model function for one mode need not know it
        spec = EstimatorSpec(**{**spec._asdict(), "mode": mode})
    if spec.mode != mode:
        raise ModelFnError(
            f"model_fn was called with mode {mode!r} but returned an EstimatorSpec of mode "
            f"{spec.mode!r}. Pass the `mode` argument on: est.EstimatorSpec(mode=mode, ...)."
        )
    return spec


def _advice(returned: Any) -> str:
    if returned is None:
        return (
            "Is a return missing in one of the branches? End each with return est.EstimatorSpec("
            "mode, ...)."
        )
    if hasattr(returned, "compile") and hasattr(returned, "fit"):
        return (
            "Call the Keras model on the features and make a spec of what it gives; or compile it "
            "and write est.keras.model_to_estimator(model)."
        )
    return "Return est.EstimatorSpec(mode, loss=..., train_op=...) or the like."
