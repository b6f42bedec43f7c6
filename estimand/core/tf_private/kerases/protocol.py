"""What differs between Keras 2 and Keras 3, as far as it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf


class Keras(Protocol):
    """One of the two."""

    package: str  # whose modules the classes of this Keras are in

    def library(self) -> Any:
        """The public module: `keras` or `tf_keras`."""

    def learning_rate(self, optimizer: Any) -> Any:
        """What an optimizer takes its rate from: a schedule, a function, or a number."""

    def setting(self, optimizer: Any, name: str) -> Any:
        """What an optimizer was told under a name; None if it was not, or cannot say."""

    def variables(self, optimizer: Any) -> list[tf.Variable]:
        """The variables that an optimizer has made so far."""

    def gradients(self, optimizer: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        """The gradients of a loss of the graph, as the optimizer wants them taken."""

    def join_strategy(self, optimizer: Any) -> None:
        """Let it take gradients that all replicas have summed up, wherever it was made."""

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Let it make its variables, if that is not a part of `apply`."""

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Let an optimizer change `variables` by gradients that replicas have summed up already."""
