"""What the strategies of `tf.distribute` keep to themselves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import Swap, swapped
from estimand.core.tf_private.execution import eager_mode

_KERAS_SETTINGS = ("dtype_policy", "floatx", "image_data_format", "epsilon")


def order_collectives_of(strategy: tf.distribute.Strategy) -> None:
    """Give the launchers of collectives the token that orders what they launch in functions.

    They have none if the strategy was made where nothing is executed eagerly, inside of a `Graph`
    or after `disable_eager_execution()`, and look for it all the same when they are used elsewhere.
    """
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable

    for name in ("_cross_device_ops", "_host_cross_device_ops", "_collective_ops"):
        ways = getattr(strategy.extended, name, None)
        for launcher in getattr(ways, "_launchers", ()):
            if launcher._ordering_token is None:
                with eager_mode(), tf.device(launcher._device):
                    launcher._ordering_token = ResourceVariable(0.0)


@contextlib.contextmanager
def v1_optimizers_share_the_loss(
    strategy: tf.distribute.Strategy, wanted: bool = True
) -> Iterator[None]:
    """Let v1 optimizers divide a mean loss by the number of replicas, or not.

    Under `tf.estimator` they did so, unless the last v1 loss was a sum: replicas add up their
    gradients. The switch, `_scale_loss_for_estimator_enabled`, was made for estimators and never
    exported; it cannot be nested, so the attribute behind it is set.
    """
    before = strategy._scale_loss_for_estimator
    strategy._scale_loss_for_estimator = wanted
    try:
        yield
    finally:
        strategy._scale_loss_for_estimator = before


@contextlib.contextmanager
def collective_keys_in_the_graph() -> Iterator[None]:
    """Write the keys by which devices find each other's part of a sum into the graph.

    By default TensorFlow hands new ones to a function at each call of it. Parts of a traced graph
    are copied into many functions, which would be called without; and as all processes run the
    same steps in the same order, a key may be used again and again, for tensors of one shape.
    """
    from tensorflow.python.distribute.cross_device_utils import CollectiveReplicaLauncher

    swaps: list[Swap] = [
        (CollectiveReplicaLauncher, "_prefer_unique_instance_key", lambda original: False),
        (CollectiveReplicaLauncher, "all_reduce_indexed_slices", lambda original: _rows_of_all),
    ]
    with swapped(swaps):
        yield


def _rows_of_all(launcher: Any, mine: tf.IndexedSlices, options: Any = None) -> tf.IndexedSlices:
    """The rows of a sparse gradient, of all devices one after the other.

    How many there are differs from device to device and from step to step, but a key stands for
    one shape: all fill up theirs to a power of two, and each of these has keys of its own.
    """
    with tf.device(launcher._device):
        counts = launcher._all_gather(tf.shape(mine.indices), options)
        powers = tf.constant([1 << i for i in range(31)])
        exponent = tf.reduce_sum(tf.cast(tf.reduce_max(counts) > powers, tf.int32))
        room = tf.gather(powers, exponent)

        def of_all(rows: tf.Tensor) -> tf.Tensor:
            missing = tf.concat([[room - tf.shape(rows)[0]], tf.shape(rows)[1:]], axis=0)
            filled = tf.concat([rows, tf.zeros(missing, rows.dtype)], axis=0)
            with tf.device("CPU:0"):
                key = exponent + (launcher._next_instance_key() * 32 + (1 << 30))
            launcher._next_instance_key = lambda: key
            try:
                gathered = launcher._all_gather(filled, options)
            finally:
                del launcher._next_instance_key
            parts = [gathered[i * room : i * room + counts[i]] for i in range(launcher._group_size)]
            return tf.concat(parts, axis=0)

        values = of_all(mine.values)
        with tf.control_dependencies([values]):
            indices = of_all(mine.indices)
        return tf.IndexedSlices(values, indices, mine.dense_shape)


def keras_thread_settings() -> dict[str, Any]:
    """Settings that Keras keeps per thread, such as the dtype policy: replicas have their own."""
    if "keras" not in sys.modules:
        return {}
    from keras.src.backend.common import global_state

    settings = {name: global_state.get_global_attribute(name) for name in _KERAS_SETTINGS}
    return {name: value for name, value in settings.items() if value is not None}


@contextlib.contextmanager
def keras_thread_settings_applied(settings: dict[str, Any]) -> Iterator[None]:
    """The settings of another thread, in this one."""
    if not settings:
        yield
        return
    from keras.src.backend.common import global_state

    before = {name: global_state.get_global_attribute(name) for name in settings}
    for name, value in settings.items():
        global_state.set_global_attribute(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            global_state.set_global_attribute(name, value)


@contextlib.contextmanager
def keras_losses_are_whole() -> Iterator[None]:
    """Let Keras losses be those of a replica's batch, as all other losses of a model function are.

    Under a strategy they divide themselves by the number of replicas, which whoever makes the
    train_op does here for every kind of loss.
    """
    from keras.src.losses import loss

    names = ("scale_loss_for_distribution", "unscale_loss_for_distribution")
    with swapped((loss, name, lambda original: lambda value: value) for name in names):
        yield


@contextlib.contextmanager
def keras_seeds_differ_by_replica() -> Iterator[None]:
    """Let the random numbers of Keras layers, such as dropout masks, be others on each replica.

    A seed generator's state is a variable, equal in all replicas of all processes: so would the
    masks be. The first replica keeps the numbers of a process that trains alone.
    """
    import keras

    def by_replica(original: Callable[..., Any]) -> Callable[..., Any]:
        def next_seed(self: Any, *args: Any, **kwargs: Any) -> Any:
            seed = original(self, *args, **kwargs)
            context = tf.distribute.get_replica_context()
            if context is None:
                return seed
            number = tf.get_static_value(context.replica_id_in_sync_group)
            # Far apart: layers are often given neighbouring seeds.
            return seed + tf.constant([int(number) * 1_000_003, 0], seed.dtype) if number else seed

        return next_seed

    with swapped([(keras.random.SeedGenerator, "next", by_replica)]):
        yield


def variable_belongs_to(variable: Any, strategy: tf.distribute.Strategy) -> None:
    """A strategy of one device makes plain variables, and wants to find in them that it did."""
    variable._distribute_strategy = strategy


def keras_gradients_are_summed(optimizer: Any) -> None:
    """Tell a Keras optimizer that the gradients it gets are those of all replicas already.

    It would add them up itself, but only after having clipped those of each replica.
    """
    optimizer._all_reduce_sum_gradients = lambda pairs: pairs


def keras_optimizer_belongs_to(optimizer: Any, strategy: tf.distribute.Strategy) -> None:
    """A Keras optimizer made outside of the model function did not see the strategy."""
    optimizer._distribution_strategy = strategy


def variable_partitioner(strategy: tf.distribute.Strategy) -> Any:
    """The `variable_partitioner` that a ParameterServerStrategy was made with, which it hides."""
    return getattr(strategy.extended, "_variable_partitioner", None)


def cluster_of_servers(strategy: tf.distribute.ParameterServerStrategy) -> tf.train.ClusterSpec:
    """Its cluster; the public `cluster_resolver` of this one strategy is None."""
    return strategy._cluster_resolver.cluster_spec()


def whole_variable(copy: tf.Variable) -> Any:
    """The mirrored variable that a variable is a copy in; a plain one is whole itself.

    The way back from a copy is a weak reference on its handle.
    """
    reference = getattr(copy.handle, "_distributed_container", None)
    whole = None if reference is None else reference()
    return copy if whole is None else whole
