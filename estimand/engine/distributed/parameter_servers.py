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
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.cluster.addresses import answers
from estimand.cluster.worker_addresses import addresses_of_workers
from estimand.core import tf_private
from estimand.engine.variables.engine_variable import EngineVariable
from estimand.engine.variables.maker import VariableMaker

_SERVER = "/job:ps/replica:0/task:{}/device:CPU:0"
_SECONDS_BETWEEN_LOOKS = 5.0
_LOOKS_IN_VAIN = 2
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError)


class Servers(VariableMaker):
    """The parameter servers, and which variable of one model is on which of them."""

    are_remote = are_on_servers = True

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy) -> None:
        self.strategy = strategy
        cluster = tf_private.cluster_of_servers(strategy)
        self.workers: int = cluster.num_tasks("worker")
        self.partitioner = tf_private.variable_partitioner(strategy)
        self._bytes = [0] * cluster.num_tasks("ps")
        self._made: dict[str, tuple[EngineVariable, int]] = {}

    @functools.cached_property
    def coordinator(self) -> Any:
        """Hands work to the workers that are there."""
        return tf_private.coordinator_of(self.strategy, addresses_of_workers(self.strategy))

    def present(self) -> frozenset[int]:
        """The numbers of the workers that take part now."""
        return tf_private.workers_there(self.coordinator)

    def awaited(self) -> frozenset[int]:
        """Whose shares of the input make it up: of all, or where workers may leave, of the rest."""
        present = self.present()
        may_leave = addresses_of_workers(self.strategy).model_dir is not None
        return present if may_leave and present else frozenset(range(self.workers))

    def make(self, *, is_local: bool, asynchronous: bool, **kwargs: Any) -> EngineVariable:
        """A variable on one of the servers, unless it belongs to a trace that is run here."""
        if is_local and not asynchronous:
            return super().make(is_local=True, asynchronous=False, **kwargs)
        value = kwargs["initial_value"]
        if not tf.is_tensor(value):
            value = kwargs["initial_value"] = tf.convert_to_tensor(value, kwargs.get("dtype"))
        name = kwargs["name"]
        # What an optimizer keeps for a variable is updated by the same op: it has to be beside it.
        owner, number = self._owner(name, value.shape)
        with tf.device(_SERVER.format(number)):
            variable = EngineVariable(**kwargs)
        self._bytes[number] += (value.shape.num_elements() or 1) * (value.dtype.size or 1)
        self._made[_words(name)] = variable, number
        if owner is not None:
            _save_as_slice(variable, name, owner)
        return variable

    def beside(
        self, name: str, shape: Any, *, is_local: bool, asynchronous: bool
    ) -> contextlib.AbstractContextManager[Any]:
        """A large table is drawn on its server: it need not fit into the chief, or be sent."""
        known = tf.TensorShape(shape)
        if (is_local and not asynchronous) or not known.is_fully_defined():
            return super().beside(name, shape, is_local=is_local, asynchronous=asynchronous)
        return tf.device(_SERVER.format(self._owner(name, known)[1]))

    def _owner(self, name: str, shape: tf.TensorShape) -> tuple[EngineVariable | None, int]:
        """The variable that this one is named after, if any, and the server to be on."""
        words = _words(name)
        owners = [w for w, (v, _) in self._made.items() if w in words and v.shape == shape]
        if owners:
            return self._made[max(owners, key=len)]
        return None, self._bytes.index(min(self._bytes))

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


def _save_as_slice(slot: EngineVariable, name: str, owner: EngineVariable) -> None:
    """A checkpoint has what belongs to the parts of a variable under one name, too."""
    part = tf_private.save_slice(owner)
    if part is None:
        return
    whole, own = part[0], owner.name.split(":")[0]
    for form in (lambda text: text, lambda text: text.replace("/", "_")):
        if form(own) in name:
            tf_private.save_like(slot, owner, name.replace(form(own), form(whole)))
            return


def _words(name: str) -> str:
    """A name such that those of v1, canned and Keras slots contain their variable's.

    >>> _words("net/w") in _words("net/w/Adam"), _words("net/w") in _words("adam/net_w_momentum")
    (True, True)
    """
    return "_" + re.sub(r"[/:]", "_", name) + "_"


class AnswerLost(Exception):
    """A worker did what it was given, and was gone before its answer had been fetched."""


def answer_of(scheduled: Any, strategy: tf.distribute.Strategy) -> Any:
    """What a worker answers; raises `AnswerLost` if the answer is gone with the worker.

    TensorFlow notices a lost server when a worker stumbles over it. Where the workers are gone as
    well, as after a signal to all processes, it would wait for them for ever. And while a worker
    that is lost at its work has it done again by another one, its answer stays with it until it is
    asked for.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def fetch() -> None:
        try:
            results.append(scheduled.fetch())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=fetch, name="estimand-answer", daemon=True)
    thread.start()
    looks_in_vain = 0
    while thread.is_alive():
        thread.join(_SECONDS_BETWEEN_LOOKS)
        looks_in_vain = looks_in_vain + 1 if thread.is_alive() and _gone(strategy) else 0
        if looks_in_vain == _LOOKS_IN_VAIN:
            raise tf.errors.UnavailableError(None, None, "a parameter server does not answer")
    if not errors:
        return results[0]
    in_vain = isinstance(errors[0], tf.errors.OpError) and tf_private.has_answer(scheduled)
    if in_vain and not _gone(strategy):
        raise AnswerLost from errors[0]
    raise errors[0]


def _gone(strategy: tf.distribute.ParameterServerStrategy) -> list[str]:
    """The servers that do not answer."""
    addresses = tf_private.cluster_of_servers(strategy).job_tasks("ps")
    return [f"ps {i} at {a}" for i, a in enumerate(addresses) if not answers(a)]


def lost_servers(strategy: tf.distribute.ParameterServerStrategy) -> str:
    """Which do not answer, in words."""
    gone = _gone(strategy)
    if not gone:
        return "a parameter server, or the way to it, was lost"
    return f"{', '.join(gone)} {'was' if len(gone) == 1 else 'were'} lost"
