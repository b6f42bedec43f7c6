"""`tf.contrib.crf`: linear-chain conditional random fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[tf.Tensor, Any]:
    """The log-likelihood of tag sequences, and the transitions, a variable if none are given.

    `inputs` are scores of shape [batch, time, tags].
    """
    inputs = tf.convert_to_tensor(inputs)
    tags = int(inputs.shape[2])
    if transition_params is None:
        transition_params = v1.get_variable("transitions", [tags, tags])
    scores = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return scores - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
    """The score of each sequence of tags, not normalized."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> tf.Tensor:
    """The scores of the tags themselves."""
    inputs = tf.convert_to_tensor(inputs)
    chosen = tf.gather(inputs, tf.cast(tag_indices, tf.int32), batch_dims=2)
    return tf.reduce_sum(chosen * _mask(sequence_lengths, inputs), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> tf.Tensor:
    """The scores of going from each tag to the next."""
    tags = tf.cast(tag_indices, tf.int32)
    transitions = tf.convert_to_tensor(transition_params)
    steps = tf.gather_nd(transitions, tf.stack([tags[:, :-1], tags[:, 1:]], 2))
    known = tf.sequence_mask(_lengths(sequence_lengths) - 1, tf.shape(steps)[1], steps.dtype)
    return tf.reduce_sum(steps * known, 1)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> tf.Tensor:
    """The logarithm of the sum over all sequences of tags."""
    alphas = _forward(inputs, sequence_lengths, transition_params, tf.reduce_logsumexp)
    empty = tf.equal(_lengths(sequence_lengths), 0)
    total = tf.reduce_logsumexp(alphas, 1)
    return tf.where(empty, tf.zeros_like(total), total)


def _forward(inputs: Any, lengths: Any, transition_params: Any, join: Any) -> tf.Tensor:
    """For each tag, all ways that end in it at the end of a sequence, joined into one number."""
    inputs = tf.convert_to_tensor(inputs)
    transitions = tf.convert_to_tensor(transition_params)[tf.newaxis]
    known = tf.transpose(tf.sequence_mask(_lengths(lengths), tf.shape(inputs)[1]))

    def step(state: tf.Tensor, given: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        scores, is_known = given
        following = scores + join(state[:, :, tf.newaxis] + transitions, axis=1)
        return tf.where(is_known[:, tf.newaxis], following, state)

    by_time = tf.transpose(inputs, [1, 0, 2])
    return tf.foldl(step, (by_time[1:], known[1:]), initializer=by_time[0])


def crf_decode(
    potentials: Any, transition_params: Any, sequence_length: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """The best sequences of tags, [batch, time], and their scores."""
    potentials = tf.convert_to_tensor(potentials)
    transitions = tf.convert_to_tensor(transition_params)[tf.newaxis]
    lengths = _lengths(sequence_length)
    known = tf.transpose(tf.sequence_mask(lengths, tf.shape(potentials)[1]))
    by_time = tf.transpose(potentials, [1, 0, 2])
    count = tf.shape(potentials)[2]
    stay = tf.broadcast_to(tf.range(count)[tf.newaxis], tf.shape(by_time[0]))

    def step(
        state: tuple[tf.Tensor, tf.Tensor], given: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        scores, is_known = given
        ways = state[0][:, :, tf.newaxis] + transitions
        following = scores + tf.reduce_max(ways, 1)
        came_from = tf.argmax(ways, 1, output_type=tf.int32)
        where = is_known[:, tf.newaxis]
        return tf.where(where, following, state[0]), tf.where(where, came_from, stay)

    states, sources = tf.scan(step, (by_time[1:], known[1:]), (by_time[0], stay))
    last = tf.cond(tf.shape(states)[0] > 0, lambda: states[-1], lambda: by_time[0])
    end = tf.argmax(last, 1, output_type=tf.int32)
    back = tf.scan(
        lambda tag, source: tf.gather(source, tag, batch_dims=1), sources, end, reverse=True
    )
    tags = tf.transpose(tf.concat([back, end[tf.newaxis]], 0))
    tags = tf.where(tf.transpose(known), tags, tf.zeros_like(tags))
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(last, 1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """The best tags of one sequence of scores, [time, tags], and their score, in NumPy."""
    score, transitions = np.asarray(score), np.asarray(transition_params)
    best, sources = score[0], []
    for row in score[1:]:
        ways = best[:, None] + transitions
        sources.append(ways.argmax(0))
        best = row + ways.max(0)
    tags = [int(best.argmax())]
    for source in reversed(sources):
        tags.append(int(source[tags[-1]]))
    return tags[::-1], best.max()


def _lengths(lengths: Any) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(lengths), tf.int32)


def _mask(lengths: Any, inputs: tf.Tensor) -> tf.Tensor:
    return tf.sequence_mask(_lengths(lengths), tf.shape(inputs)[1], inputs.dtype)
