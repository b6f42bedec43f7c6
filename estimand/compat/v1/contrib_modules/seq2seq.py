"""`tf.contrib.seq2seq`: decoders that are fed by a helper, and their loss.

Searching with beams is not offered: `tensorflow_addons` took it along, and has ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

v1 = tf.compat.v1


class BasicDecoderOutput(NamedTuple):
    """Logits and the words chosen by them."""

    rnn_output: Any
    sample_id: Any


class TrainingHelper:
    """Feeds the true sequence."""

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: Any = None
    ) -> None:
        del name
        inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
        self._inputs = inputs if time_major else tf.nest.map_structure(_swapped, inputs)
        self.sequence_length = tf.cast(sequence_length, tf.int32)
        self.batch_size = tf.size(self.sequence_length)

    def initialize(self) -> tuple[Any, Any]:
        return self.sequence_length <= 0, tf.nest.map_structure(lambda x: x[0], self._inputs)

    def sample(self, time: Any, outputs: Any, state: Any) -> Any:
        del time, state
        return tf.argmax(outputs, -1, output_type=tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any) -> Any:
        del outputs, sample_ids
        following = time + 1
        last = tf.nest.map_structure(
            lambda x: x[tf.minimum(following, tf.shape(x)[0] - 1)], self._inputs
        )
        return following >= self.sequence_length, last, state


class GreedyEmbeddingHelper:
    """Feeds back the most likely word."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        table = embedding
        self._embed = table if callable(table) else lambda ids: tf.nn.embedding_lookup(table, ids)
        self._start = tf.cast(start_tokens, tf.int32)
        self._end = tf.cast(end_token, tf.int32)
        self.batch_size = tf.size(self._start)

    def initialize(self) -> tuple[Any, Any]:
        return tf.zeros([self.batch_size], tf.bool), self._embed(self._start)

    def sample(self, time: Any, outputs: Any, state: Any) -> Any:
        del time, state
        return tf.argmax(outputs, -1, output_type=tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any) -> Any:
        del time, outputs
        return tf.equal(sample_ids, self._end), self._embed(sample_ids), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds back a word drawn by its probability."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature or 1.0, seed

    def sample(self, time: Any, outputs: Any, state: Any) -> Any:
        del time, state
        drawn = tf.random.categorical(outputs / self._temperature, 1, tf.int32, self._seed)
        return tf.squeeze(drawn, 1)


class BasicDecoder:
    """A cell, what feeds it, and the layer that makes logits of what it gives."""

    def __init__(
        self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None
    ) -> None:
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    def initialize(self, name: Any = None) -> tuple[Any, Any, Any]:
        del name
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> tuple[Any, ...]:
        del name
        with v1.name_scope("BasicDecoderStep"):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            chosen = self._helper.sample(time, outputs, state)
            finished, inputs, state = self._helper.next_inputs(time, outputs, state, chosen)
        return BasicDecoderOutput(outputs, chosen), state, inputs, finished


def dynamic_decode(
    decoder: Any,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Let a decoder run until all sequences are finished: outputs, last state, lengths."""
    del swap_memory
    with v1.variable_scope(scope, "decoder") as opened:
        opened.set_caching_device(None)
        finished, inputs, state = decoder.initialize()
        # The first step outside of the loop: there variables are made, and shapes become known.
        first, next_state, next_inputs, ended = decoder.step(tf.constant(0), inputs, state)
        opened.reuse_variables()
        limit = None if maximum_iterations is None else tf.cast(maximum_iterations, tf.int32)
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, 0, dynamic_size=True, element_shape=x.shape), first
        )

        def take(time: Any, made: Any, done: Any, old: Any, new: Any, written: Any) -> Any:
            if impute_finished:
                made = tf.nest.map_structure(lambda x: _unless(done, x, tf.zeros_like(x)), made)
                new = tf.nest.map_structure(lambda o, n: _unless(done, n, o), old, new)
            written = tf.nest.map_structure(lambda a, x: a.write(time, x), written, made)
            return written, new

        def body(time: Any, written: Any, state: Any, inputs: Any, done: Any, lengths: Any) -> Any:
            made, new, following, ended = decoder.step(time, inputs, state)
            written, new = take(time, made, done, state, new, written)
            lengths += tf.cast(~done, tf.int32)
            return time + 1, written, new, following, done | ended, lengths

        def goes_on(
            time: Any, written: Any, state: Any, inputs: Any, done: Any, lengths: Any
        ) -> Any:
            del written, state, inputs, lengths
            more = ~tf.reduce_all(done)
            return more if limit is None else more & (time < limit)

        arrays, next_state = take(0, first, finished, state, next_state, arrays)
        lengths = tf.cast(~finished, tf.int32)
        begun = (tf.constant(1), arrays, next_state, next_inputs, finished | ended, lengths)
        _, arrays, state, _, _, lengths = tf.while_loop(
            goes_on, body, begun, parallel_iterations=parallel_iterations
        )
        outputs = tf.nest.map_structure(lambda a: a.stack(), arrays)
    if not output_time_major:
        outputs = tf.nest.map_structure(_swapped, outputs)
    return outputs, state, lengths


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """The weighted cross entropy of sequences: [batch, time, classes] and [batch, time]."""
    with v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        of = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = of(labels=targets, logits=logits) * weights
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(losses) / (tf.reduce_sum(weights) + 1e-12)
        if average_across_timesteps:
            return tf.reduce_sum(losses, 1) / (tf.reduce_sum(weights, 1) + 1e-12)
        if average_across_batch:
            return tf.reduce_sum(losses, 0) / (tf.reduce_sum(weights, 0) + 1e-12)
        return losses


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each element of a batch so many times."""
    with v1.name_scope(name, "tile_batch"):
        return tf.nest.map_structure(lambda x: tf.repeat(x, multiplier, axis=0), t)


def _swapped(x: Any) -> Any:
    """Time and batch the other way round."""
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _unless(done: Any, value: Any, otherwise: Any) -> Any:
    if value.shape.rank == 0:
        return value
    shape = tf.concat([tf.shape(done), tf.ones([value.shape.rank - 1], tf.int32)], 0)
    return tf.where(tf.reshape(done, shape), otherwise, value)
