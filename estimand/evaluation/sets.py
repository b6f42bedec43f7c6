"""Evaluation on several replicas, where the input need not give a batch for each of them.

The metrics of a replica are updated by ops of its own. So of a last set that lacks batches those
replicas count that got one, and every batch of the input counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.engine.feeding.feeder import Feeder
from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.runner import HookRunner, Look
from estimand.engine.tracing.trace import Trace


def run_drawn_set(trace: Trace, feeder: Feeder, runner: HookRunner, done: int) -> bool:
    """Take up to one batch for each replica and count them; False when there was none."""
    batches = feeder.next_batches()
    look = runner.before_run(done, 1)
    if not batches:
        return False
    fetched = _run(trace, batches, look)
    if look is not None:
        runner.after_run(look, fetched, done + 1)
    return True


def _run(trace: Trace, batches: Sequence[list[tf.Tensor]], look: Look | None) -> Any:
    assert trace.metrics is not None
    plan = look.plan if look is not None and look.plan is not None else fetching.plan(trace, [])
    targets = trace.metrics.updates(replicas=len(batches))
    given = [tensor for batch in batches for tensor in batch]
    feeds = trace.inputs[: len(given)]
    if look is not None and trace.needs_input(plan.graph_fetches):
        # Hooks see the first replica's tensors, but may have asked for those of all.
        given += batches[0] * (len(trace.inputs) // len(batches[0]) - len(batches))
        feeds = trace.inputs
    extra = (look.feeds, look.feed_values) if look is not None else ([], [])
    reads = [fetching.to_numpy(v) for v in plan.reads]
    ops = [t if isinstance(t, tf.Operation) else t.op for t in targets]
    values = iter(trace.prune([*ops, *plan.graph_fetches], [*feeds, *extra[0]])(*given, *extra[1]))
    fetched = [
        None if isinstance(f, tf.Operation) else fetching.to_numpy(next(values))
        for f in plan.graph_fetches
    ]
    return plan.rebuild(reads, fetched)
