"""`tf.compat.v1.estimator.tpu` on CPUs and GPUs: what it was with `use_tpu=False`.

Much research code (BERT and its family) is written on `TPUEstimator`. Without a TPU it is an
Estimator that puts the batch size into `params` and understands `TPUEstimatorSpec`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.compat.tpu_spec import TPUEstimatorSpec
from estimand.compat.v1.old_estimator import Estimator
from estimand.compat.v1.optimizer_wrappers import OptimizerWrapper
from estimand.compat.v1.tpu_config import InputPipelineConfig, RunConfig, TPUConfig
from estimand.core.errors import ConfigError, EstimandError, ModelFnError
from estimand.core.spec import EstimatorSpec
from estimand.estimator.model_fn import argument_names, call_model_fn, takes_any_keyword

__all__ = [
    "CrossShardOptimizer",
    "EmbeddingConfigSpec",
    "InputPipelineConfig",
    "NoTPUError",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
]

_RESERVED = ("batch_size", "context")


class NoTPUError(EstimandError, NotImplementedError):
    """TPUs are not supported."""


class CrossShardOptimizer(OptimizerWrapper):
    """Added up the gradients of the cores of a TPU; without one there is nothing to add up."""

    def __init__(
        self,
        opt: Any,
        reduction: Any = tf.compat.v1.losses.Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        del reduction, group_assignment
        super().__init__(opt, name)


class EmbeddingConfigSpec:
    """Embeddings in the memory of TPUs: not supported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise _no_tpu("EmbeddingConfigSpec", "use tf.feature_column.embedding_column instead.")


class TPUEstimator(Estimator):
    """An Estimator whose functions find the batch size in `params["batch_size"]`.

    Args:
        use_tpu: must be False; there is no support for TPUs.
        train_batch_size: given to `input_fn` and `model_fn` in training; the other two likewise.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: dict[str, Any] | None = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = 1,
    ) -> None:
        del batch_axis, eval_on_tpu, export_to_tpu, export_to_cpu, export_saved_model_api_version
        if config is None or not isinstance(config, RunConfig):
            raise ConfigError(
                "`config` must be provided with type `tpu_config.RunConfig`, given: "
                f"{config!r}. Write tf.compat.v1.estimator.tpu.RunConfig(...)."
            )
        _check_params(params)
        if use_tpu:
            raise _no_tpu(
                "TPUEstimator(use_tpu=True)", "pass use_tpu=False to train on CPU or GPU."
            )
        if embedding_config_spec is not None:
            raise _no_tpu("embedding_config_spec", "leave it out.")
        super().__init__(
            model_fn=model_fn,  # type: ignore[arg-type]
            model_dir=model_dir,
            config=config,
            # An empty dict would not be told from no params by a model_fn without the argument.
            params=params,
            warm_start_from=warm_start_from,
        )
        self._batch_sizes = {
            "train": train_batch_size,
            "eval": eval_batch_size or train_batch_size,
            "infer": predict_batch_size,
        }
        self._exporting = False

    def train(self, input_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().train(self._sized(input_fn, "train"), *args, **kwargs)

    def evaluate(self, input_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        return super().evaluate(self._sized(input_fn, "eval"), *args, **kwargs)

    def predict(self, input_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return super().predict(self._sized(input_fn, "infer"), *args, **kwargs)

    def export_saved_model(self, *args: Any, **kwargs: Any) -> bytes:
        self._exporting = True
        try:
            return super().export_saved_model(*args, **kwargs)
        finally:
            self._exporting = False

    def _sized(self, input_fn: Callable[..., Any], mode: str) -> Callable[..., Any]:
        """`input_fn` with the batch size in its params."""

        @functools.wraps(input_fn)
        def sized_input_fn(*args: Any, **kwargs: Any) -> Any:
            if "params" in kwargs:
                kwargs["params"] = self._with_batch_size(kwargs["params"], mode)
            return input_fn(*args, **kwargs)

        return sized_input_fn

    def _with_batch_size(self, params: Any, mode: str) -> Any:
        size = self._batch_sizes[mode]
        if size is None:
            return params
        params = copy.copy(params)
        if hasattr(params, "add_hparam"):
            params.add_hparam("batch_size", size)
        else:
            params["batch_size"] = size
        return params

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: Any = None
    ) -> EstimatorSpec:
        model_fn = self._model_fn
        if "params" not in argument_names(model_fn) and not takes_any_keyword(model_fn):
            raise ModelFnError(
                f"model_fn ({model_fn}) does not include params argument, required by "
                'TPUEstimator to pass batch size as params["batch_size"]'
            )
        params = self.params
        if not self._exporting:
            params = self._with_batch_size(params, mode)
        if isinstance(params, dict):
            params["use_tpu"] = params.get("use_tpu", False)
        spec = call_model_fn(model_fn, features, labels, mode, params, config or self.config)
        return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec


def _check_params(params: Any) -> None:
    taken = [key for key in _RESERVED if isinstance(params, Mapping) and key in params]
    if taken:
        raise ConfigError(
            f"{list(_RESERVED)} are reserved keys but existed in params {params}. Batch sizes are "
            "given as train_batch_size, eval_batch_size and predict_batch_size."
        )


def _no_tpu(what: str, do: str) -> NoTPUError:
    return NoTPUError(f"{what} needs a TPU, which Estimand does not support: {do}")
