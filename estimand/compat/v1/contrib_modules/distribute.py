"""`tf.contrib.distribute`: strategies with the arguments they once had."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core.errors import ConfigError

OneDeviceStrategy = tf.distribute.OneDeviceStrategy
CollectiveAllReduceStrategy = tf.distribute.MultiWorkerMirroredStrategy


class DistributeConfig(NamedTuple):
    """Strategies for `RunConfig(experimental_distribute=...)`."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


class MirroredStrategy(tf.distribute.MirroredStrategy):
    """`tf.distribute.MirroredStrategy` that can also be told a number of GPUs."""

    def __init__(
        self,
        devices: Any = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        **ignored: Any,
    ) -> None:
        del ignored
        count = num_gpus if num_gpus is not None else num_gpus_per_worker
        if count is not None:
            if devices is not None:
                raise ConfigError(
                    "MirroredStrategy must be given only one of `devices` and `num_gpus`; "
                    f"given: devices={devices!r}, num_gpus={count}."
                )
            gpus = len(tf.config.list_logical_devices("GPU"))
            if count > gpus:
                raise ConfigError(
                    f"MirroredStrategy(num_gpus={count}) asks for more GPUs than there are: "
                    f"{gpus}. Leave num_gpus out to use those there are, or the CPU."
                )
            devices = [f"/gpu:{i}" for i in range(count)] or ["/cpu:0"]
        super().__init__(devices, cross_device_ops)


def ParameterServerStrategy(*args: Any, **kwargs: Any) -> Any:
    """`tf.compat.v1.distribute.experimental.ParameterServerStrategy`."""
    kwargs.pop("num_gpus_per_worker", None)
    return tf.compat.v1.distribute.experimental.ParameterServerStrategy(*args, **kwargs)
