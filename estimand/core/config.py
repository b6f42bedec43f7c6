"""`RunConfig`: how to run, as opposed to what to train."""

from __future__ import annotations

import copy
import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from estimand.core.config_rules import check, shown
from estimand.core.errors import ConfigError
from estimand.core.names import naming_unknown
from estimand.core.tf_config import TaskConfig, TaskType, parse_tf_config

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["RunConfig", "TaskType"]

_log = logging.getLogger(__name__)
# Living objects: a copied strategy would not own the variables made under the original.
_SHARED_BY_COPIES = ("train_distribute", "eval_distribute", "experimental_distribute", "device_fn")


class _Default:
    """Marks "not given", where None means "never"."""

    def __repr__(self) -> str:
        return "<default>"


_DEFAULT: Any = _Default()


class _Setting:
    """A read-only attribute `x`, kept in `_x`, where subclasses in the wild look for it."""

    def __init__(self, doc: str | None) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        if self.__doc__ is None:  # an argument: what the class says of it
            told = re.search(rf"^ +{name}: (.+)$", owner.__doc__ or "", re.M)
            self.__doc__ = told and told[1]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance, "_" + self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(
            f"RunConfig.{self._name} cannot be assigned; use config.replace({self._name}=...)."
        )


def _setting(doc: str | None = None) -> Any:
    return _Setting(doc)


class RunConfig:
    """Settings of a run, and this process's place in the cluster as `TF_CONFIG` gives it.

    Immutable by intent: `replace` returns a changed copy.

    Args:
      model_dir: directory of checkpoints, events and exports.
      tf_random_seed: seed of the graph; None draws one at the first start.
      save_summary_steps: write summaries every so many steps; 0 or None: no.
      save_checkpoints_steps: save a checkpoint every so many steps.
      save_checkpoints_secs: save a checkpoint every so many seconds.
      session_config: a `ConfigProto`; its threads and devices count.
      keep_checkpoint_max: how many recent checkpoints to keep; 0: all.
      keep_checkpoint_every_n_hours: keep one for good every n hours.
      log_step_count_steps: log loss and steps per second this often.
      train_distribute: strategy for training.
      device_fn: accepted for old code; `op` to a device.
      protocol: accepted for old code; the servers speak gRPC.
      eval_distribute: strategy for evaluation.
      experimental_distribute: an object with train_distribute, eval_distribute.
      experimental_max_worker_delay_secs: upper bound of a worker's delay.
      session_creation_timeout_secs: how long to wait for the cluster.
      checkpoint_save_graph_def: whether to write the graph beside checkpoints.
      run_eagerly: run model_fn step by step in Python, for debugging.
      block_mode: how blocks are run: auto, plain, single_thread, xla, onednn.
      max_steps_per_call: upper bound of the steps run in one call.
      save_input_position: save the input's position beside checkpoints.
      save_meta_graph: write model.ckpt-N.meta; None: if old code expects.
      progress: live line and log lines; False: neither; True: always live.
      check_data: look through the first batch for likely mistakes.
      variable_partitioner: splits variables among servers.

    >>> config = RunConfig(model_dir="/tmp/run", save_checkpoints_steps=500)
    >>> config
    RunConfig(model_dir='/tmp/run', save_checkpoints_steps=500)
    >>> config.replace(save_checkpoints_secs=60).save_checkpoints_steps is None
    True
    """

    model_dir: str | None = _setting()
    tf_random_seed: int | None = _setting()
    save_summary_steps: int | None = _setting()
    save_checkpoints_steps: int | None = _setting()
    save_checkpoints_secs: float | None = _setting()
    keep_checkpoint_max: int | None = _setting()
    keep_checkpoint_every_n_hours: float | None = _setting()
    log_step_count_steps: int | None = _setting()
    train_distribute: tf.distribute.Strategy | None = _setting()
    device_fn: Callable[[Any], str] | None = _setting()
    protocol: str | None = _setting()
    eval_distribute: tf.distribute.Strategy | None = _setting()
    experimental_distribute: Any = _setting()
    experimental_max_worker_delay_secs: int | None = _setting()
    session_creation_timeout_secs: int | None = _setting()
    checkpoint_save_graph_def: bool = _setting()

    run_eagerly: bool = _setting()
    block_mode: str = _setting()
    max_steps_per_call: int | None = _setting()
    save_input_position: bool = _setting()
    save_meta_graph: bool | None = _setting()
    progress: bool | None = _setting()
    check_data: bool = _setting()
    variable_partitioner: Callable[..., Any] | None = _setting()

    task_type: str = _setting("The role of this process.")
    task_id: int = _setting("Its index among those of the same role.")
    is_chief: bool = _setting("Whether this process writes checkpoints and summaries.")
    master: str = _setting("Address of this process's server; '' when it works alone.")
    evaluation_master: str = _setting("The same for evaluation.")
    num_ps_replicas: int = _setting("Number of parameter servers.")
    num_worker_replicas: int = _setting("Number of workers, the chief among them.")
    global_id_in_cluster: int | None = _setting("Position among all training processes.")
    service: dict[str, Any] | None = _setting("What TF_CONFIG says under 'service', if anything.")
    _session_config: tf.compat.v1.ConfigProto | None

    @naming_unknown
    def __init__(
        self,
        model_dir: str | bytes | os.PathLike[str] | None = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: int | None = _DEFAULT,
        save_checkpoints_secs: float | None = _DEFAULT,
        session_config: tf.compat.v1.ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: tf.distribute.Strategy | None = None,
        device_fn: Callable[[Any], str] | None = None,
        protocol: str | None = None,
        eval_distribute: tf.distribute.Strategy | None = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: int | None = 7200,
        checkpoint_save_graph_def: bool = True,
        *,
        run_eagerly: bool = False,
        block_mode: str = "auto",
        max_steps_per_call: int | None = None,
        save_input_position: bool = True,
        save_meta_graph: bool | None = None,
        progress: bool | None = None,
        check_data: bool = True,
        variable_partitioner: Callable[..., Any] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _REPLACEABLE}
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = 600
        given["save_checkpoints_steps"] = _none_if_default(save_checkpoints_steps)
        given["save_checkpoints_secs"] = _none_if_default(save_checkpoints_secs)
        task = parse_tf_config(os.environ)
        if task != TaskConfig():
            _log.info("TF_CONFIG environment variable: %s", os.environ.get("TF_CONFIG"))
        given["model_dir"] = _agreed_model_dir(_as_path(model_dir), task.model_dir)
        self._set(given)
        self._adopt_distribute_config()
        for name in _TASK_FIELDS:
            setattr(self, "_" + name, getattr(task, name))
        self._cluster = task.cluster
        self._min_workers = task.min_workers

    @property
    def session_config(self) -> tf.compat.v1.ConfigProto | None:
        """The `ConfigProto` given; in a cluster, one with device filters; alone, None."""
        if self._session_config is None and self._cluster:
            from estimand.core.session_config import cluster_session_config

            return cluster_session_config(self.task_type, self.task_id)
        return self._session_config

    @property
    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The training cluster; empty for a process that works alone, and for an evaluator."""
        import tensorflow as tf

        return tf.train.ClusterSpec({role: dict(tasks) for role, tasks in self._cluster.items()})

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with the given settings changed.

        Setting `save_checkpoints_steps` switches `save_checkpoints_secs` off, and vice versa.
        """
        for name in kwargs:
            if name not in _REPLACEABLE:
                raise ConfigError(
                    f"Replacing {name} is not supported. "
                    f"Allowed properties are {list(_REPLACEABLE)}."
                )
        steps, secs = "save_checkpoints_steps", "save_checkpoints_secs"
        if kwargs.get(steps) is not None:
            kwargs.setdefault(secs, None)
        elif kwargs.get(secs) is not None:
            kwargs.setdefault(steps, None)
        if "model_dir" in kwargs:
            kwargs["model_dir"] = _as_path(kwargs["model_dir"])
        changed = copy.deepcopy(self)
        changed._set(kwargs)
        return changed

    def _set(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            setattr(self, "_" + name, value)
        check(self._value_of)

    def _value_of(self, name: str) -> Any:
        """As it was given: without the default of `session_config`."""
        return getattr(self, "_" + name)

    def _adopt_distribute_config(self) -> None:
        """Takes the strategies out of a `DistributeConfig`-like object."""
        bundle = self.experimental_distribute
        if bundle is None:
            return
        if getattr(bundle, "remote_cluster", None):
            raise ConfigError(
                "experimental_distribute.remote_cluster is not supported: TensorFlow no longer "
                "has the standalone client. Start the program on every node with TF_CONFIG set."
            )
        for name in ("train_distribute", "eval_distribute"):
            strategy = getattr(bundle, name, None)
            if strategy is None:
                continue
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"Either `{name}` or`experimental_distribute.{name}` can be set. "
                    "Both were given; remove one."
                )
            setattr(self, "_" + name, strategy)

    def __deepcopy__(self, memo: dict[int, Any]) -> RunConfig:
        result = copy.copy(self)
        memo[id(self)] = result
        for name, value in vars(self).items():
            if name.removeprefix("_") not in _SHARED_BY_COPIES:
                setattr(result, name, copy.deepcopy(value, memo))
        return result

    def __repr__(self) -> str:
        changed = {
            name: getattr(self, "_" + name)
            for name, default in _DEFAULTS.items()
            if getattr(self, "_" + name) != default
        }
        if changed.get("save_checkpoints_secs", 0) is None:
            # Giving steps, be it None, already switches seconds off.
            changed["save_checkpoints_steps"] = self.save_checkpoints_steps
            del changed["save_checkpoints_secs"]
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in changed.items())
        return f"{type(self).__name__}({arguments})"


_DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for name, parameter in inspect.signature(RunConfig.__init__).parameters.items()
    if name != "self"
} | {"save_checkpoints_steps": None, "save_checkpoints_secs": 600}
_REPLACEABLE = tuple(_DEFAULTS)
_TASK_FIELDS = (
    "task_type",
    "task_id",
    "is_chief",
    "master",
    "evaluation_master",
    "num_ps_replicas",
    "num_worker_replicas",
    "global_id_in_cluster",
    "service",
)


def _none_if_default(value: Any) -> Any:
    return None if value is _DEFAULT else value


def _as_path(path: Any) -> str | None:
    if path is None:
        return None
    if not isinstance(path, str | bytes | os.PathLike):
        raise ConfigError(
            f"model_dir must be a string or a path, given: {path!r} ({type(path).__name__})."
        )
    text = os.fsdecode(path)
    if not text:
        raise ConfigError(
            "model_dir should be non-empty. Pass a directory, or None for a temporary one."
        )
    return text


def _agreed_model_dir(given: str | None, in_tf_config: str | None) -> str | None:
    if given and in_tf_config and given != in_tf_config:
        raise ConfigError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the "
            f'model_dir in TF_CONFIG. model_dir: {given}\nTF_CONFIG["model_dir"]: {in_tf_config}.\n'
        )
    return given or in_tf_config
