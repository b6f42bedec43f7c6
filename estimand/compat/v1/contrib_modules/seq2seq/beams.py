"""`tf.contrib.seq2seq`: the best sequences, searched with beams."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimand.compat.v1.contrib_modules.seq2seq.decoding import Decoder
from estimand.compat.v1.contrib_modules.seq2seq.helpers import lookup_of
from estimand.core.errors import ConfigError

v1 = tf.compat.v1


class BeamSearchDecoderState(NamedTuple):
    """What is known of each beam, [batch, beams]."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any = ()


class BeamSearchDecoderOutput(NamedTuple):
    """Of each step: which word, and to the beam of which place it was added."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences, [batch, time, beams], best first, and the steps to them."""

    predicted_ids: Any
    beam_search_decoder_output: Any


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_width` best sequences at each step.

    The initial state is that of `beam_width` copies of each example: see `tile_batch`.
    """

    tracks_own_finished = True

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: Any = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        if coverage_penalty_weight:
            raise NotImplementedError(
                "BeamSearchDecoder was given coverage_penalty_weight="
                f"{coverage_penalty_weight}, which is not offered. Leave it out."
            )
        self._cell, self._output_layer, self._width = cell, output_layer, beam_width
        self._embed = lookup_of(embedding)
        self._start, self._end = tf.cast(start_tokens, tf.int32), tf.cast(end_token, tf.int32)
        if self._start.shape.rank != 1 or self._end.shape.rank != 0:
            raise ConfigError("start_tokens must be a vector, and end_token a scalar")
        self._batch_size = tf.size(self._start)
        self._static_batch = self._start.shape.as_list()[0]
        self._penalty, self._reorders = length_penalty_weight, reorder_tensor_arrays
        self._cell_state = tf.nest.map_structure(self._split, initial_state)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: Any = None) -> tuple[Any, Any, Any]:
        del name
        shape = [self._batch_size, self._width]
        dtype = next(x.dtype for x in tf.nest.flatten(self._cell_state) if x.dtype.is_floating)
        first = tf.zeros([self._batch_size], tf.int32)
        # All beams are the same at first: only one of them goes on.
        log_probs = tf.one_hot(first, self._width, 0.0, float("-inf"), dtype=dtype)
        finished = tf.zeros(shape, tf.bool)
        state = BeamSearchDecoderState(
            self._cell_state,
            self._shaped(log_probs),
            self._shaped(finished),
            self._shaped(tf.zeros(shape, tf.int64)),
        )
        start = tf.tile(self._start[:, tf.newaxis], [1, self._width])
        return state.finished, self._embed(start), state

    def step(self, time: Any, inputs: Any, state: Any, name: Any = None) -> tuple[Any, ...]:
        del time
        with v1.name_scope(name, "BeamSearchDecoderStep"):
            given = tf.nest.map_structure(self._merge, inputs)
            cell_state = tf.nest.map_structure(self._merge, state.cell_state)
            made, cell_state = self._cell(given, cell_state)
            logits = tf.nest.map_structure(self._split, made)
            if self._output_layer is not None:
                logits = self._output_layer(logits)
            output, log_probs, finished, lengths = self._chosen(logits, state)
            cell_state = tf.nest.map_structure(
                lambda x: self._of_parents(self._split(x), output.parent_ids), cell_state
            )
            following = BeamSearchDecoderState(cell_state, log_probs, finished, lengths)
            return output, following, self._embed(output.predicted_ids), finished

    def _chosen(self, logits: Any, state: Any) -> tuple[Any, ...]:
        """The best continuations, and what is known of them."""
        words = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        steps = tf.nn.log_softmax(logits)
        # A finished sequence can only be continued by its end, which costs nothing.
        only_end = tf.one_hot(self._end, words, 0.0, steps.dtype.min, dtype=steps.dtype)
        done = state.finished[:, :, tf.newaxis]
        totals = state.log_probs[:, :, tf.newaxis] + tf.where(done, only_end, steps)
        grows = tf.cast(~done, tf.int64) * tf.one_hot(self._end, words, 0, 1, dtype=tf.int64)
        lengths = state.lengths[:, :, tf.newaxis] + grows
        scores = totals / self._length_penalty(lengths, totals.dtype)

        flat = [self._batch_size, self._width * words]
        best, places = tf.math.top_k(tf.reshape(scores, flat), self._width)
        places.set_shape([self._static_batch, self._width])
        log_probs = tf.gather(tf.reshape(totals, flat), places, batch_dims=1)
        ids, parents = places % words, places // words
        before = self._of_parents(state.finished, parents)
        finished = before | tf.equal(ids, self._end)
        lengths = self._of_parents(state.lengths, parents) + tf.cast(~before, tf.int64)
        output = BeamSearchDecoderOutput(
            self._shaped(best), self._shaped(ids), self._shaped(parents)
        )
        return output, self._shaped(log_probs), self._shaped(finished), self._shaped(lengths)

    def _length_penalty(self, lengths: Any, dtype: Any) -> Any:
        """By Wu et al. 2016."""
        if not tf.is_tensor(self._penalty) and self._penalty == 0:
            return tf.ones([], dtype)
        weight = tf.cast(self._penalty, dtype)
        return ((5.0 + tf.cast(lengths, dtype)) / 6.0) ** weight

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        del sequence_lengths
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        if self._reorders:
            state = tf.nest.map_structure(
                lambda x: self._reordered(x, outputs.parent_ids, final_state.lengths),
                final_state.cell_state,
            )
            final_state = final_state._replace(cell_state=state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _reordered(self, array: Any, parents: Any, lengths: Any) -> Any:
        """What was written at each step, such as alignments, along each sequence."""
        if not isinstance(array, tf.TensorArray):
            return array
        written = array.stack()
        time, own = tf.shape(parents)[0], tf.range(self._width)
        beams = tf.broadcast_to(own, tf.shape(parents))
        longest = tf.cast(tf.reduce_max(lengths, axis=1), tf.int32)
        order = gather_tree(beams, parents, longest, self._width + 1)
        within = tf.transpose(tf.sequence_mask(lengths, time), [2, 0, 1])
        order = tf.where(within, order, beams)
        rest = tf.shape(written)[2:]
        split = tf.reshape(written, tf.concat([tf.shape(parents), rest], 0))
        ordered = tf.gather(split, order, batch_dims=2)
        return tf.reshape(ordered, tf.shape(written))

    # [batch * beams, ...], as the cell has it, and [batch, beams, ...]

    def _split(self, x: Any) -> Any:
        if isinstance(x, tf.TensorArray) or x.shape.rank == 0:
            return x
        rest = x.shape[1:]
        shape = tf.concat([[self._batch_size, self._width], tf.shape(x)[1:]], 0)
        split = tf.reshape(x, shape)
        split.set_shape(tf.TensorShape([self._static_batch, self._width]).concatenate(rest))
        return split

    def _merge(self, x: Any) -> Any:
        if isinstance(x, tf.TensorArray) or x.shape.rank < 2:
            return x
        merged = tf.reshape(x, tf.concat([[self._batch_size * self._width], tf.shape(x)[2:]], 0))
        static = None if self._static_batch is None else self._static_batch * self._width
        merged.set_shape(tf.TensorShape([static]).concatenate(x.shape[2:]))
        return merged

    def _of_parents(self, x: Any, parents: Any) -> Any:
        if isinstance(x, tf.TensorArray) or x.shape.rank < 2:
            return x
        chosen = tf.gather(x, parents, batch_dims=1)
        chosen.set_shape(x.shape)
        return chosen

    def _shaped(self, x: Any) -> Any:
        x.set_shape([self._static_batch, self._width])
        return x


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any
) -> tf.Tensor:
    """The sequences that lead to each of the last beams: all are [time, batch, beams].

    >>> steps, parents = [[[1, 2]], [[3, 4]]], [[[0, 0]], [[1, 0]]]
    >>> gather_tree(steps, parents, [2], 9).numpy().tolist()
    [[[2, 1]], [[3, 4]]]
    """
    step_ids, parent_ids = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
    end = tf.cast(end_token, step_ids.dtype)
    lengths = tf.cast(max_sequence_lengths, tf.int32)[:, tf.newaxis]
    last = tf.broadcast_to(tf.range(tf.shape(step_ids)[2]), tf.shape(step_ids)[1:])

    def back(following: Any, step: Any) -> Any:
        _, beams = following
        time, ids, parents = step
        there = time < lengths
        chosen = tf.where(there, tf.gather(ids, beams, batch_dims=1), end)
        return chosen, tf.where(there, tf.gather(parents, beams, batch_dims=1), beams)

    times = tf.range(tf.shape(step_ids)[0])
    begun = tf.zeros_like(step_ids[0]), tf.cast(last, parent_ids.dtype)
    ids, _ = tf.scan(back, (times, step_ids, parent_ids), begun, reverse=True)
    ended = tf.cumsum(tf.cast(tf.equal(ids, end), tf.int32), exclusive=True) > 0
    return tf.where(ended, end, ids)
