"""Model functions made up at random: what they consist of is a document that can be kept.

A description has `layers` (each a name, or a list of a name and the layers inside of it), an
`optimizer`, a way of `training`, and possibly a `fault` in place of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf
from hypothesis import strategies as st

import estimand as est
from tests.differential import blocks, more_blocks
from tests.differential.comparing import Program
from tests.differential.trainings import OF_V1, TRAININGS
from tests.differential.zoo import registry

v1 = tf.compat.v1
Description = dict[str, Any]

assert more_blocks.__name__  # imported for the blocks that it registers


def _by_step() -> tf.Tensor:
    """As old code has it: conditions inside of conditions."""
    step = v1.train.get_global_step()
    return v1.train.piecewise_constant(step, [3, 6, 9], [0.05, 0.03, 0.02, 0.01])


def _decayed() -> tf.Tensor:
    step = v1.train.get_global_step()
    warm = tf.cast(step, tf.float32) * 0.002
    decayed = v1.train.exponential_decay(0.02, step, 4, 0.5, staircase=True)
    return tf.cond(step < 4, lambda: warm, lambda: decayed)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "v1 gradient descent": lambda: v1.train.GradientDescentOptimizer(0.02),
    "v1 momentum": lambda: v1.train.MomentumOptimizer(0.02, 0.9),
    "v1 adam": lambda: v1.train.AdamOptimizer(0.01),
    "v1 adagrad": lambda: v1.train.AdagradOptimizer(0.05),
    "v1 ftrl": lambda: v1.train.FtrlOptimizer(0.05),
    "v1 schedule": lambda: v1.train.MomentumOptimizer(_by_step(), 0.9),
    "v1 decay": lambda: v1.train.AdamOptimizer(_decayed()),
    "v1 rmsprop": lambda: v1.train.RMSPropOptimizer(0.01),
    "keras sgd": lambda: keras.optimizers.SGD(0.02, momentum=0.9),
    "keras adam": lambda: keras.optimizers.Adam(0.01),
    "keras averages": lambda: keras.optimizers.SGD(0.02, use_ema=True, ema_overwrite_frequency=5),
    "keras accumulates": lambda: keras.optimizers.RMSprop(0.01, gradient_accumulation_steps=2),
}


def descriptions() -> st.SearchStrategy[Description]:
    """Small programs first, which is also what failing ones shrink to."""
    inner = st.sampled_from(sorted(set(blocks.SIMPLE) - blocks.OUTSIDE_ONLY))
    holder = st.sampled_from(sorted(blocks.HOLDING))
    inside = st.recursive(
        inner,
        lambda more: st.tuples(holder, st.lists(more, min_size=1, max_size=2)).map(list),
        max_leaves=3,
    )
    layer = st.one_of(st.sampled_from(sorted(blocks.SIMPLE)), inside)
    fault = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(blocks.FAULTS))
    return st.fixed_dictionaries(
        {
            "layers": st.lists(layer, min_size=1, max_size=5),
            "optimizer": st.sampled_from(sorted(OPTIMIZERS)),
            "training": st.sampled_from(list(TRAININGS)),
            "fault": fault,
            "fault_inside": st.sampled_from([None, "cond", "function", "loop"]),
            "seed": st.integers(0, 10**6),
        }
    )


def program_of(description: Description) -> Program:
    """The program that a description describes."""
    names = set(names_in(description["layers"]))
    fault = description["fault"]

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        return build(description, features, labels)

    return Program(
        "generated",
        "generated",
        model_fn,
        generated_rows,
        random=bool(names & blocks.RANDOM),
        branches=bool(names & blocks.BRANCHING),
        tolerance=1000.0 if names & blocks.COARSE else 25.0,
        fails=tf.errors.InvalidArgumentError if fault else None,
        fails_at=blocks.BAD,
    )


def names_in(layers: Iterable[Any]) -> Iterable[str]:
    for layer in layers:
        yield layer if isinstance(layer, str) else layer[0]
        if not isinstance(layer, str):
            yield from names_in(layer[1])


def build(description: Description, features: Any, labels: tf.Tensor) -> est.EstimatorSpec:
    around = blocks.Surroundings(features)
    x = features["x"]
    if description["fault"]:
        layer = blocks.failing(description["fault"], around)
        if description["fault_inside"]:
            holder = blocks.HOLDING[description["fault_inside"]]
            layer = holder(around, layer)
            x = tf.abs(x)  # into the branch that has it
        x = layer(x)
    for layer in made(description["layers"], around):
        x = layer(x)
    kernel = around.variable("out", [blocks.WIDTH, registry.CLASSES])
    logits = tf.clip_by_value(x, -20.0, 20.0) @ kernel
    loss = registry.cross_entropy(labels, logits)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        return trained(description, tf.identity(loss), logits, labels)


def made(layers: Iterable[Any], around: blocks.Surroundings) -> list[blocks.Layer]:
    """Layers with all variables there are, before any is called."""
    found = []
    for layer in layers:
        if isinstance(layer, str):
            found.append(blocks.SIMPLE[layer](around))
        else:
            inside = made(layer[1], around)
            found.append(blocks.HOLDING[layer[0]](around, one_after_the_other(inside)))
    return found


def one_after_the_other(layers: list[blocks.Layer]) -> blocks.Layer:
    def call(x: tf.Tensor) -> tf.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return call


def trained(
    description: Description, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    name, training = description["optimizer"], description["training"]
    if training in OF_V1 and not name.startswith("v1"):
        training = "minimize"
    return TRAININGS[training](OPTIMIZERS[name](), loss, logits, labels)


def generated_rows() -> tf.data.Dataset:
    """x: six numbers; id: 0 to 9; n: the number of the batch, from 1 on."""

    def numbered(number: tf.Tensor, batch: Any) -> Any:
        features, labels = batch
        return features | {"n": number + 1}, labels

    return registry.rows().enumerate().map(numbered)
