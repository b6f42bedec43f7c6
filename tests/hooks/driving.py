"""Three ways to run hooks: in a small loop of the engine, in an evaluation, and in a v1 session.

The model is the same everywhere: loss = sum((x * w)^2), x = [1, 2], w starting at ones, plain
gradient descent with rate 0.01. `LOSSES` is what tf.estimator 2.15 logged for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.core import tf_private
from estimand.engine.events import EventWriter
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.tracing.trace import Trace, trace_model
from estimand.engine.variables.store import VariableStore

v1 = tf.compat.v1
LOSSES = {0: 5.0, 3: 3.3112626, 4: 2.9036388, 6: 2.2553828, 8: 1.7773725, 9: 1.5868809}
BATCH = np.array([1.0, 2.0], np.float32)

Extend = Callable[[tf.Tensor], dict[str, Any]]


def build_model(x: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
    loss = tf.identity(tf.reduce_sum((x * w) ** 2), name="loss")
    tf.identity(w * 1e-9, name="tiny")
    train = v1.train.GradientDescentOptimizer(0.01)
    return loss, train.minimize(loss, global_step=v1.train.get_global_step())


def trace(mode: str = "train", extend: Extend = lambda loss: {}) -> Trace:
    """The model traced for `mode`; `extend` may build more and give fields of the spec."""

    def model_fn(features: tf.Tensor, labels: Any, mode: str) -> est.EstimatorSpec:
        loss, train_op = build_model(features)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, **extend(loss))

    return trace_model(
        model_fn,
        mode,
        (tf.TensorSpec([2]), None),
        VariableStore(),
        seed=1,
        create_global_step=v1.train.create_global_step,
    )


class SmallLoop:
    """As much of the training loop as hooks can see."""

    def __init__(self, trace: Trace, hooks: Sequence[Any], batches: int | None = None) -> None:
        self.trace = trace
        self.model_dir = None
        self.motionless_steps = 0
        self.last_loss: float | None = None
        self.saved: list[tuple[int, str, str, bool]] = []
        self.looked_at: list[int] = []
        self.stop_reason: str | None = None
        self._batches = batches
        self._session = TracedSession(trace, self._next_batch)
        self._runner = HookRunner(hooks, self._session)

    def global_step(self) -> int:
        with tf_private.eager_mode():
            return self.trace.step_now()

    def save_checkpoint(
        self,
        step: int,
        *,
        directory: str | None = None,
        basename: str = "model.ckpt",
        synchronous: bool = False,
    ) -> str:
        self.saved.append((step, str(directory), basename, synchronous))
        return f"{directory}/{basename}-{step}"

    def request_stop(self, reason: str) -> None:
        self.stop_reason = reason

    def run(self, target: int) -> SmallLoop:
        for hook in self._runner.hooks:
            if hasattr(hook, "bind"):
                hook.bind(self)
        self._runner.begin()
        self._runner.after_create_session(self.global_step())
        try:
            while not self._finished(target):
                self._block(target)
        except tf.errors.OutOfRangeError:
            pass
        self._runner.end()
        return self

    def _finished(self, target: int) -> bool:
        stops = [target, *(getattr(h, "stop_step", None) for h in self._runner.hooks)]
        reached = self.global_step() >= min(s for s in stops if s is not None)
        return reached or self._runner.stop_requested or self.stop_reason is not None

    def _block(self, target: int) -> None:
        step = self.global_step()
        stops = [getattr(h, "stop_step", None) for h in self._runner.hooks]
        limit = min(s for s in [target, *stops] if s is not None) - step
        count = min(limit, self._runner.steps_to_next_look(step) or limit)
        look = self._runner.before_run(step, count)
        fetched: dict[int, Any] = {}
        for index in range(count):
            last = index == count - 1 and look is not None
            fetched = self._step(look) if last else self._step(None)
        for hook in self._runner.hooks:
            if hasattr(hook, "check"):
                hook.check(self.last_loss, self.global_step())
        if look is not None:
            self.looked_at.append(self.global_step())
            self._runner.after_run(look, fetched, self.global_step())

    def _step(self, look: Any) -> dict[int, Any]:
        plan = None if look is None else look.plan
        fetches = [self.trace.spec.loss, self.trace.spec.train_op]
        reads = [] if plan is None else [v.numpy() for v in plan.reads]
        graph_fetches = [] if plan is None else list(plan.graph_fetches)
        feeds = [] if look is None else look.feeds
        values = [] if look is None else look.feed_values
        inputs = [t for t in self.trace.inputs if t.name not in {f.name for f in feeds}]
        batch = self._next_batch()[: len(inputs)]
        results = self.trace.prune([*fetches, *graph_fetches], [*inputs, *feeds])(*batch, *values)
        self.last_loss = float(results[0])
        tensors = iter(results[len(results) - sum(hasattr(f, "dtype") for f in graph_fetches) :])
        flat = [next(tensors).numpy() if hasattr(f, "dtype") else None for f in graph_fetches]
        return {} if plan is None else plan.rebuild(reads, flat)

    def _next_batch(self) -> list[tf.Tensor]:
        if self._batches is not None:
            if self._batches == 0:
                raise tf.errors.OutOfRangeError(None, None, "End of sequence")
            self._batches -= 1
        return [tf.constant(BATCH)]


def evaluate(trace: Trace, hooks: Sequence[Any], batches: int) -> None:
    """Hooks in an evaluation: no loop to be bound to, and a step that stands still."""
    session = TracedSession(trace, lambda: [tf.constant(BATCH)])
    runner = HookRunner(hooks, session)
    runner.begin()
    runner.after_create_session(0)
    for done in range(batches):
        look = runner.before_run(done, 1)
        if look is None or look.plan is None:
            continue
        results = trace.prune(list(look.plan.graph_fetches), trace.inputs)(tf.constant(BATCH))
        reads = [v.numpy() for v in look.plan.reads]
        fetched = look.plan.rebuild(reads, [r.numpy() for r in results])
        runner.after_run(look, fetched, done + 1)
    runner.end()


def monitored_session(
    hooks: Callable[[tf.Tensor], Sequence[Any]], steps: int, scaffold: Any = None
) -> None:
    """Hooks in a v1 session of TensorFlow, which calls them at every step."""
    with tf.Graph().as_default():
        v1.train.create_global_step()
        loss, train_op = build_model(tf.constant(BATCH))
        # With several threads a v1 session does not order a fetched step against its update.
        config = v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
        creator = v1.train.ChiefSessionCreator(scaffold() if scaffold else None, config=config)
        with v1.train.MonitoredSession(creator, hooks(loss)) as session:
            for _ in range(steps):
                if session.should_stop():
                    break
                session.run(train_op)


def close_event_file(directory: Any) -> None:
    """Everything recorded into a directory is in its file, whoever recorded it."""
    EventWriter.get(str(directory)).close()
    with tf.Graph().as_default():
        v1.summary.FileWriterCache.get(str(directory)).close()
