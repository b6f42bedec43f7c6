"""What is asked of objects of others: estimators, feature columns, optimizers.

Functions that are given one need not import its class, which may be of a higher layer, or of a
library that is not loaded yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from estimand.core.config import RunConfig


class EstimatorHandle(Protocol):
    """An estimator: ours, one of the canned models, or something else with these methods."""

    @property
    def config(self) -> RunConfig: ...

    @property
    def model_dir(self) -> str: ...

    def eval_dir(self, name: str | None = None) -> str: ...

    def latest_checkpoint(self) -> str | None: ...

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Any: ...

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]: ...

    def predict(self, input_fn: Callable[..., Any]) -> Iterator[Any]: ...

    def export_saved_model(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> Any: ...


class FeatureColumn(Protocol):
    """A column of `tf.feature_column` or `est.feature_column`."""

    @property
    def name(self) -> str: ...

    @property
    def parse_example_spec(self) -> dict[str, Any]: ...


class ApplyingOptimizer(Protocol):
    """An optimizer of Keras or of `tf.compat.v1.train`."""

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any: ...


# An optimizer, its name, or a function that makes one.
Optimizer = ApplyingOptimizer | str | Callable[[], Any] | None
