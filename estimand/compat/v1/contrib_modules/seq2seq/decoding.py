"""`tf.contrib.seq2seq`: decoders, and the loop that runs them."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1.contrib_modules.rnn.networks import transpose_batch_time as _swapped

v1 = tf.compat.v1


class BasicDecoderOutput(NamedTuple):
    """Logits and the words chosen by them."""

    rnn_output: Any
    sample_id: Any


class Decoder:
    """What `dynamic_decode` runs, step by step."""

    # Whether `step` tells of all sequences which are finished, not only of those that end now.
    tracks_own_finished = False

    @property
    def batch_size(self) -> Any:
        """How many sequences there are."""
        raise NotImplementedError

    def initialize(self, name: Any = None) -> tuple[Any, Any, Any]:
        """Which are finished, the first inputs, and the first state."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> tuple[Any, ...]:
        """Outputs, the state, inputs of the next step, and which are finished."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """What is made of all outputs and of the last state."""
        raise NotImplementedError


class BasicDecoder(Decoder):
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
            # By name: old helpers have the arguments in different orders.
            chosen = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, inputs, state = self._helper.next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=chosen
            )
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

        def finished_now(before: Any, ended: Any) -> Any:
            # Beams change their places, and know themselves which of them are at an end.
            return ended if getattr(decoder, "tracks_own_finished", False) else before | ended

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
            return time + 1, written, new, following, finished_now(done, ended), lengths

        def goes_on(
            time: Any, written: Any, state: Any, inputs: Any, done: Any, lengths: Any
        ) -> Any:
            del written, state, inputs, lengths
            more = ~tf.reduce_all(done)
            return more if limit is None else more & (time < limit)

        arrays, next_state = take(0, first, finished, state, next_state, arrays)
        lengths = tf.cast(~finished, tf.int32)
        done = finished_now(finished, ended)
        begun = (tf.constant(1), arrays, next_state, next_inputs, done, lengths)
        _, arrays, state, _, _, lengths = tf.while_loop(
            goes_on, body, begun, parallel_iterations=parallel_iterations
        )
        outputs = tf.nest.map_structure(lambda a: a.stack(), arrays)
        if hasattr(decoder, "finalize"):
            with contextlib.suppress(NotImplementedError):  # as the base class has it
                outputs, state = decoder.finalize(outputs, state, lengths)
    if not output_time_major:
        outputs = tf.nest.map_structure(_swapped, outputs)
    return outputs, state, lengths


def _unless(done: Any, value: Any, otherwise: Any) -> Any:
    if value.shape.rank == 0:
        return value
    shape = tf.concat([tf.shape(done), tf.ones([value.shape.rank - 1], tf.int32)], 0)
    return tf.where(tf.reshape(done, shape), otherwise, value)
