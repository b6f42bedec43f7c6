"""`tf.contrib.legacy_seq2seq`: sequences as lists with one tensor for each step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Tensors = Sequence[Any]


def sequence_loss_by_example(
    logits: Tensors,
    targets: Tensors,
    weights: Tensors,
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """The weighted cross entropy of each sequence."""
    if not len(logits) == len(targets) == len(weights):
        raise ConfigError(
            "Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}."
        )
    with v1.name_scope(name, "sequence_loss_by_example"):
        of = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = tf.add_n(
            [
                of(labels=tf.reshape(target, [-1]), logits=logit) * weight
                for logit, target, weight in zip(logits, targets, weights, strict=True)
            ]
        )
        # A sequence of no weight is divided by almost nothing.
        return losses / (tf.add_n(list(weights)) + 1e-12) if average_across_timesteps else losses


def sequence_loss(
    logits: Tensors,
    targets: Tensors,
    weights: Tensors,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """The sum of these, or their mean."""
    with v1.name_scope(name, "sequence_loss"):
        losses = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps, softmax_loss_function
        )
        total = tf.reduce_sum(losses)
        return (
            total / tf.cast(tf.shape(targets[0])[0], total.dtype) if average_across_batch else total
        )


def rnn_decoder(
    decoder_inputs: Tensors,
    initial_state: Any,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A cell from a state on; `loop_function` makes the next input of an output."""
    with v1.variable_scope(scope or "rnn_decoder"):
        outputs: list[Any] = []
        state = initial_state
        for i, given in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                with v1.variable_scope("loop_function", reuse=True):
                    given = loop_function(outputs[-1], i)
            if i > 0:
                v1.get_variable_scope().reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(
    encoder_inputs: Tensors,
    decoder_inputs: Tensors,
    cell: Any,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """One cell reads, and from its last state on another of its kind is fed with the outputs."""
    with v1.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = v1.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Tensors,
    decoder_inputs: Tensors,
    cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """The same with one cell for both."""
    with v1.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = v1.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        v1.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_decoder(
    decoder_inputs: Tensors,
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A decoder of ids, which are looked up in `embedding`; it may be fed with its own."""
    with v1.variable_scope(scope or "embedding_rnn_decoder"):
        table = v1.get_variable("embedding", [num_symbols, embedding_size])

        def own(output: Any, step: int) -> Any:
            del step
            if output_projection is not None:
                output = v1.nn.xw_plus_b(output, *output_projection)
            row = tf.nn.embedding_lookup(table, tf.argmax(output, 1))
            return row if update_embedding_for_previous else tf.stop_gradient(row)

        rows = [tf.nn.embedding_lookup(table, ids) for ids in decoder_inputs]
        return rnn_decoder(rows, initial_state, cell, own if feed_previous else None)
