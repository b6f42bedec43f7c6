"""Training on workers that take their variables from parameter servers.

The chief computes nothing itself. It makes every variable on one of the servers, under the plain
name it has everywhere, and hands blocks of steps to whichever worker is free. Workers do not wait
for each other: each reads the variables as they are and applies its gradients when it has them.
No replica of the model knows of another one, so the model function is built as for one process;
only where its variables are made differs.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.cluster.addresses import answers
from estimand.core import tf_private
from estimand.core.errors import ClusterError
from estimand.engine.engine_variable import EngineVariable

_SERVER = "/job:ps/replica:0/task:{}/device:CPU:0"
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError)


def uses_servers(strategy: tf.distribute.Strategy | None) -> bool:
    """Whether variables live on parameter servers under `strategy`."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def in_sync(strategy: tf.distribute.Strategy | None) -> tf.distribute.Strategy | None:
    """`strategy`, if it is one whose replicas do the same steps together."""
    return None if uses_servers(strategy) else strategy


class Servers:
    """The parameter servers, and which variable of one model is on which of them."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy) -> None:
        self.strategy = strategy
        cluster = strategy.cluster_resolver.cluster_spec()
        self.workers: int = cluster.num_tasks("worker")
        self.partitioner = tf_private.variable_partitioner(strategy)
        self._bytes = [0] * cluster.num_tasks("ps")
        self._places: dict[str, tuple[tf.TensorShape, int]] = {}

    @classmethod
    def of(cls, strategy: tf.distribute.Strategy | None) -> Servers | None:
        return cls(strategy) if uses_servers(strategy) else None

    @functools.cached_property
    def coordinator(self) -> Any:
        """Hands work to the workers, and brings back those that were restarted."""
        return tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def make_variable(self, **kwargs: Any) -> EngineVariable:
        """A variable on one of the servers; called in eager mode."""
        value = kwargs["initial_value"]
        if not tf.is_tensor(value):
            value = kwargs["initial_value"] = tf.convert_to_tensor(value, kwargs.get("dtype"))
        with tf.device(_SERVER.format(self._place(kwargs["name"], value))):
            return EngineVariable(**kwargs)

    def _place(self, name: str, value: tf.Tensor) -> int:
        """Beside the variable it belongs to, or else where the fewest bytes are.

        What an optimizer keeps for a variable is named after it, and updated by the same op.
        """
        number = self._place_of_owner(name, value.shape)
        if number is None:
            number = self._bytes.index(min(self._bytes))
        self._places[_words(name)] = value.shape, number
        self._bytes[number] += (value.shape.num_elements() or 1) * (value.dtype.size or 1)
        return number

    def _place_of_owner(self, name: str, shape: tf.TensorShape) -> int | None:
        words = _words(name)
        owners = [
            owner
            for owner, (its_shape, _) in self._places.items()
            if owner in words and its_shape == shape
        ]
        return self._places[max(owners, key=len)][1] if owners else None

    @contextlib.contextmanager
    def partitioning(self) -> Iterator[None]:
        """Let `get_variable` split what it makes, as the strategy's partitioner says."""
        if self.partitioner is None:
            yield
            return
        scope = tf.compat.v1.get_variable_scope()
        with tf.compat.v1.variable_scope(
            scope, partitioner=self.partitioner, auxiliary_name_scope=False
        ):
            yield


def _words(name: str) -> str:
    """A name such that those of v1, canned and Keras slots contain their variable's.

    >>> _words("net/w") in _words("net/w/Adam"), _words("net/w") in _words("adam/net_w_momentum")
    (True, True)
    """
    return "_" + re.sub(r"[/:]", "_", name) + "_"


def brought_here(value: tf.Tensor, variable: Any) -> tf.Tensor:
    """A value read from `variable`, in the memory of this process."""
    if "/job:ps" not in (variable.device or ""):
        return value
    with tf.device("/device:CPU:0"):
        return tf.identity(value)


@contextlib.contextmanager
def losses_told(strategy: tf.distribute.Strategy | None) -> Iterator[None]:
    """Say in one sentence that a parameter server was lost."""
    try:
        yield
    except _LOST as error:
        if not uses_servers(strategy):
            raise
        raise ClusterError(
            f"Training cannot go on: {_lost_servers(strategy)}, and the variables with it. The "
            "last checkpoint is intact: start all processes again and training continues from "
            "there."
        ) from error


def _lost_servers(strategy: Any) -> str:
    addresses = strategy.cluster_resolver.cluster_spec().job_tasks("ps")
    gone = [f"ps {i} at {a}" for i, a in enumerate(addresses) if not answers(a)]
    if not gone:
        return "a parameter server, or the way to it, was lost"
    return f"{', '.join(gone)} {'was' if len(gone) == 1 else 'were'} lost"
