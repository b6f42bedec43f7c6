"""v1 optimizers in canned models, with their state under the names that `tf.estimator` gave it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.canned import v1_names


@dataclass(frozen=True)
class V1Naming:
    """How one canned model of `tf.compat.v1.estimator` named the state of its optimizer.

    Its variables were partitioned, into one part each: slots got that part's name (`t_0`,
    `part_0`) between the variable's and their own. Adam's powers were made inside the head.
    """

    infix: str = ""
    head_scope: str = ""


class V1Optimizer:
    """A `tf.compat.v1.train.Optimizer` as the engine wants it."""

    def __init__(self, wrapped: tf.compat.v1.train.Optimizer, naming: V1Naming) -> None:
        self.wrapped = wrapped
        self._naming = naming

    def make_train_op(
        self, loss: tf.Tensor, variables: Sequence[tf.Variable], global_step: tf.Variable
    ) -> tf.Operation:
        """An op that applies the gradients of `loss`; the global step is left to the caller."""
        del global_step
        v1_names.note_v1_optimizer()
        with self._names(variables):
            return self.wrapped.minimize(loss, var_list=list(variables))

    def minimize(
        self, loss: tf.Tensor, global_step: tf.Variable | None = None, var_list: Any = None
    ) -> tf.Operation:
        """For heads that make the training step themselves, as those of TensorFlow 1 did."""
        variables = tf.compat.v1.trainable_variables() if var_list is None else list(var_list)
        v1_names.note_v1_optimizer()
        with self._names(variables):
            return self.wrapped.minimize(loss, global_step=global_step, var_list=variables)

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Apply gradients now, in eager mode."""
        with self._names(variables):
            self.wrapped.apply_gradients(list(zip(gradients, variables, strict=True)))

    def __repr__(self) -> str:
        return repr(self.wrapped)

    @contextlib.contextmanager
    def _names(self, variables: Sequence[tf.Variable]) -> Iterator[None]:
        known = {v.name.split(":")[0] for v in variables}

        def create(next_creator: Any, **kwargs: Any) -> tf.Variable:
            kwargs["name"] = self._slot_name(kwargs.get("name"), known)
            return next_creator(**kwargs)

        scope = f"{self._naming.head_scope}/" if self._naming.head_scope else None
        with contextlib.ExitStack() as stack:
            stack.enter_context(tf.compat.v1.name_scope(scope))
            # Slots are made from the context around the graph that is being built.
            with tf.init_scope():
                stack.enter_context(tf.variable_creator_scope(create))
            stack.enter_context(tf.variable_creator_scope(create))
            yield

    def _slot_name(self, name: str | None, known: set[str]) -> str | None:
        # Ends in "/": the name is meant as it stands, whatever scope is open.
        variable, _, slot = (name or "").rstrip("/").rpartition("/")
        if not self._naming.infix or variable not in known:
            return name
        return f"{variable}/{self._naming.infix}/{slot}/"
