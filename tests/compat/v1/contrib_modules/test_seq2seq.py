"""Decoders of contrib against searches, losses and attention written in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib, layers, rnn_cell

v1 = tf.compat.v1
seq2seq = contrib.seq2seq
WORDS, UNITS, DEPTH, END = 5, 4, 3, 1


def normal(*shape: int) -> Any:
    return np.random.RandomState(0).normal(size=shape).astype(np.float32)


def run(build: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    with tf.Graph().as_default(), v1.Session() as session:
        made = build()
        session.run(v1.global_variables_initializer())
        random = np.random.RandomState(1)
        for variable in v1.trainable_variables():
            variable.load(random.normal(scale=1.5, size=variable.shape.as_list()), session)
        return session.run([made, {v.op.name: v for v in v1.global_variables()}])


# Beams


def log_probs_of(v: dict[str, Any], prefix: tuple[int, ...], state: Any) -> Any:
    """Of the word that comes next, by a plain cell from a state on."""
    table = v["embedding"]
    for word in (0, *prefix):
        given = np.concatenate([table[word], state])
        state = np.tanh(
            given @ v["decoder/basic_rnn_cell/kernel"] + v["decoder/basic_rnn_cell/bias"]
        )
    logits = state @ v["decoder/dense/kernel"]
    return logits - np.log(np.exp(logits).sum())


def best_by_beams(v: dict[str, Any], state: Any, width: int, steps: int, weight: float) -> Any:
    beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(steps):
        grown = []
        for words, total in beams:
            if END in words:
                grown.append((words, total))
                continue
            following = log_probs_of(v, words, state)
            grown += [((*words, word), total + following[word]) for word in range(WORDS)]

        # A sequence counts its end only when it has ended before.
        ended = {words for words, _ in beams if END in words}
        lengths = [len(w) - (END in w and w not in ended) for w, _ in grown]
        scores = [t / ((5 + n) / 6) ** weight for (_, t), n in zip(grown, lengths, strict=True)]
        beams = [grown[i] for i in np.argsort(scores)[::-1][:width]]
    return [words for words, _ in beams]


@pytest.mark.parametrize(("width", "weight"), [(1, 0.0), (2, 0.0), (3, 0.0), (3, 1.0)])
def test_beams_find_what_a_plain_search_finds(width: int, weight: float) -> None:
    start, steps = normal(2, UNITS), 4

    def build() -> Any:
        decoder = seq2seq.BeamSearchDecoder(
            rnn_cell.BasicRNNCell(UNITS),
            v1.get_variable("embedding", [WORDS, DEPTH]),
            tf.fill([2], 0),
            END,
            seq2seq.tile_batch(tf.constant(start), width),
            width,
            output_layer=layers.Dense(WORDS, use_bias=False, name="dense"),
            length_penalty_weight=weight,
        )
        outputs, state, lengths = seq2seq.dynamic_decode(decoder, maximum_iterations=steps)
        assert isinstance(outputs, seq2seq.FinalBeamSearchDecoderOutput)
        return outputs.predicted_ids, state.lengths, lengths

    (ids, lengths, _), v = run(build)
    assert ids.shape[0] == 2
    assert ids.shape[2] == width
    for example in range(2):
        expected = best_by_beams(v, start[example], width, steps, weight)
        for beam, words in enumerate(expected):
            found = ids[example, :, beam].tolist()
            whole = found[: found.index(END) + 1] if END in found else found
            assert tuple(whole) == words
            assert lengths[example, beam] == len(words)


def test_all_beams_find_the_most_probable_sequence() -> None:
    start, steps = normal(1, UNITS), 3
    width = WORDS ** (steps - 1)

    def build() -> Any:
        decoder = seq2seq.BeamSearchDecoder(
            rnn_cell.BasicRNNCell(UNITS),
            v1.get_variable("embedding", [WORDS, DEPTH]),
            [0],
            99,  # which is no word
            seq2seq.tile_batch(tf.constant(start), width),
            width,
            output_layer=layers.Dense(WORDS, use_bias=False, name="dense"),
        )
        return seq2seq.dynamic_decode(decoder, maximum_iterations=steps)[0].predicted_ids

    def total(words: tuple[int, ...]) -> float:
        return sum(log_probs_of(v, words[:i], start[0])[words[i]] for i in range(steps))

    ids, v = run(build)
    best = max(itertools.product(range(WORDS), repeat=steps), key=total)
    assert tuple(ids[0, :, 0]) == best


def test_one_beam_with_attention_is_greedy() -> None:
    memory = normal(2, 6, DEPTH)

    def decode(beams: bool) -> Any:
        table = v1.get_variable("embedding", [WORDS, DEPTH])
        with v1.variable_scope("attention"):
            lengths = tf.constant([6, 3])
            attention = seq2seq.LuongAttention(UNITS, tf.constant(memory), lengths, scale=True)
        cell = seq2seq.AttentionWrapper(
            rnn_cell.BasicLSTMCell(UNITS), attention, UNITS, alignment_history=True
        )
        projection = layers.Dense(WORDS, name="projection")
        state = cell.zero_state(2, tf.float32)
        if beams:
            decoder = seq2seq.BeamSearchDecoder(cell, table, [0, 0], END, state, 1, projection)
        else:
            helper = seq2seq.GreedyEmbeddingHelper(table, [0, 0], END)
            decoder = seq2seq.BasicDecoder(cell, helper, state, projection)
        outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
        if beams:
            return outputs.predicted_ids[:, :, 0], state.cell_state.alignment_history
        return outputs.sample_id, state.alignment_history.stack()

    (searched, history), _ = run(lambda: decode(True))
    (greedy, same_history), _ = run(lambda: decode(False))
    np.testing.assert_array_equal(searched, greedy)
    np.testing.assert_allclose(history, same_history, rtol=1e-5)
    assert history[:, 1, 3:].max() == 0  # behind the end of the second sequence


def test_trees_are_walked_from_their_leaves() -> None:
    ids = [[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]], [[-1, -1, -1]]]
    parents = [[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]], [[-1, -1, -1]]]
    found = seq2seq.gather_tree(ids, parents, [3], end_token=10)
    assert found.numpy().tolist() == [[[2, 2, 2]], [[6, 5, 6]], [[7, 8, 9]], [[10, 10, 10]]]


# Helpers


def decoded(helper: Any, cell: Any = None) -> Any:
    state = tf.zeros([2, WORDS])
    decoder = seq2seq.BasicDecoder(cell or rnn_cell.BasicRNNCell(WORDS), helper, state)
    return seq2seq.dynamic_decode(decoder, maximum_iterations=4)[0]


@pytest.mark.parametrize("kind", ["words", "outputs"])
def test_scheduled_sampling_between_never_and_always(kind: str) -> None:
    x, table = normal(2, 4, WORDS), normal(WORDS, WORDS)

    def helper(probability: float) -> Any:
        if kind == "outputs":
            return seq2seq.ScheduledOutputTrainingHelper(x, [4, 4], probability)
        return seq2seq.ScheduledEmbeddingTrainingHelper(x, [4, 4], table, probability, seed=3)

    true, _ = run(lambda: decoded(seq2seq.TrainingHelper(x, [4, 4])).rnn_output)
    never, _ = run(lambda: decoded(helper(0.0)))
    always, v = run(lambda: decoded(helper(1.0)))
    np.testing.assert_allclose(never.rnn_output, true, rtol=1e-5)
    kernel, bias = v["decoder/basic_rnn_cell/kernel"], v["decoder/basic_rnn_cell/bias"]
    state = given = None
    for time in range(4):
        given = x[:, 0] if time == 0 else given
        state = np.zeros((2, WORDS)) if state is None else state
        state = np.tanh(np.concatenate([given, state], 1) @ kernel + bias)
        np.testing.assert_allclose(always.rnn_output[:, time], state, rtol=1e-4, atol=1e-5)
        given = table[always.sample_id[:, time]] if kind == "words" else state
    assert (never.sample_id == (-1 if kind == "words" else False)).all()


def test_own_helpers_in_both_ways() -> None:
    start = normal(2, WORDS)

    class Own(seq2seq.Helper):
        """With the arguments as Tacotron has them."""

        batch_size = 2

        def initialize(self, name: Any = None) -> Any:
            return tf.constant([False, False]), tf.constant(start)

        def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
            return tf.constant([0, 0])

        def next_inputs(
            self, time: Any, outputs: Any, state: Any, name: Any = None, **_: Any
        ) -> Any:
            return tf.fill([2], time >= 2), outputs, state

    own = Own()
    custom = seq2seq.CustomHelper(own.initialize, own.sample, own.next_inputs)

    def inference() -> Any:
        return seq2seq.InferenceHelper(
            lambda outputs: outputs, [WORDS], tf.float32, start, lambda x: tf.zeros([2], tf.bool)
        )

    first, _ = run(lambda: decoded(own).rnn_output)
    second, _ = run(lambda: decoded(custom).rnn_output)
    third, _ = run(lambda: decoded(inference()).rnn_output)
    assert first.shape == (2, 3, WORDS)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third[:, :3])


# Attention


def monotonic(p: Any, previous: Any) -> Any:
    """By its definition: from where was looked, on to the first place that is chosen."""
    now = np.zeros_like(p)
    for b, start in np.ndindex(p.shape):
        left = previous[b, start]
        for place in range(start, p.shape[1]):
            now[b, place] += left * p[b, place]
            left *= 1 - p[b, place]
    return now


def test_monotonic_attention() -> None:
    random = np.random.RandomState(2)
    p = random.uniform(0.1, 0.9, size=(3, 6)).astype(np.float32)
    before = random.dirichlet(np.ones(6), size=3).astype(np.float32)
    for mode in ("recursive", "parallel"):
        now = seq2seq.monotonic_attention(p, before, mode)
        np.testing.assert_allclose(now, monotonic(p, before), rtol=1e-4, atol=1e-6)
    hard, one = np.round(p), np.eye(6, dtype=np.float32)[[1, 0, 3]]
    now = seq2seq.monotonic_attention(hard, one, "hard")
    np.testing.assert_allclose(now, monotonic(hard, one), atol=1e-6)
    with pytest.raises(ValueError, match="mode must be 'recursive', 'parallel', or 'hard'"):
        seq2seq.monotonic_attention(p, before, "soft")


@pytest.mark.parametrize("kind", ["BahdanauMonotonicAttention", "LuongMonotonicAttention"])
def test_monotonic_mechanisms(kind: str) -> None:
    memory, query = normal(2, 5, DEPTH), normal(2, UNITS)

    def build() -> Any:
        attention = getattr(seq2seq, kind)(UNITS, tf.constant(memory), score_bias_init=-1.0)
        first = attention.initial_alignments(2, tf.float32)
        return first, attention(tf.constant(query), first)[0]

    (first, now), v = run(build)
    keys = memory @ v["memory_layer/kernel"]
    if kind.startswith("Luong"):
        scores = (keys * query[:, None]).sum(2)
    else:
        asked = (query @ v[f"{kind}/query_layer/kernel"])[:, None]
        scores = (v[f"{kind}/attention_v"] * np.tanh(keys + asked)).sum(2)
    p = 1 / (1 + np.exp(-scores - v[f"{kind}/attention_score_bias"]))
    assert (first == np.eye(5)[[0, 0]]).all()
    np.testing.assert_allclose(now, monotonic(p, first), rtol=1e-3, atol=1e-5)


def test_hardmax_and_products() -> None:
    np.testing.assert_array_equal(seq2seq.hardmax([[1.0, 3.0, 2.0]]), [[0, 1, 0]])
    np.testing.assert_allclose(seq2seq.safe_cumprod([0.5, 0.5, 0.0]), [0.5, 0.25, 0], atol=1e-30)


def test_two_mechanisms_in_one_cell() -> None:
    memories = normal(2, 5, DEPTH), normal(2, 4, UNITS)

    def build() -> Any:
        mechanisms = [
            seq2seq.LuongAttention(UNITS, tf.constant(memories[0]), name="one"),
            seq2seq.BahdanauAttention(UNITS, tf.constant(memories[1]), name="two"),
        ]
        cell = seq2seq.AttentionWrapper(
            rnn_cell.GRUCell(UNITS), mechanisms, attention_layer_size=[2, 3]
        )
        assert cell.output_size == 5
        x = tf.constant(normal(2, 3, DEPTH))
        state = cell.zero_state(2, tf.float32)
        return v1.nn.dynamic_rnn(cell, x, initial_state=state, dtype=tf.float32)

    (outputs, state), _ = run(build)
    assert outputs.shape == (2, 3, 5)
    assert [one.shape for one in state.alignments] == [(2, 5), (2, 4)]
    np.testing.assert_allclose(state.alignments[1].sum(1), [1, 1], rtol=1e-5)


def test_a_mechanism_of_ones_own() -> None:
    base = contrib.seq2seq.python.ops.attention_wrapper.BahdanauAttention
    memory = normal(2, 5, DEPTH)

    class Sharp(base):  # type: ignore[misc, valid-type]
        def __call__(self, query: Any, state: Any) -> Any:
            asked = self.query_layer(query)[:, tf.newaxis]
            scores = tf.reduce_sum(self.keys * asked, 2) * 10.0
            alignments = self._probability_fn(scores, state)
            return alignments, alignments + state

    def build() -> Any:
        attention = Sharp(UNITS, tf.constant(memory), probability_fn=seq2seq.hardmax, name="sharp")
        cell = seq2seq.AttentionWrapper(rnn_cell.GRUCell(UNITS), attention)
        state = cell.zero_state(2, tf.float32)
        x = tf.constant(normal(2, 3, DEPTH))
        return v1.nn.dynamic_rnn(cell, x, initial_state=state, dtype=tf.float32)[1].attention_state

    sums, _ = run(build)
    assert (sums.sum(1) == 3).all()


# Losses


def test_losses_of_lists() -> None:
    logits, targets = normal(3, 2, WORDS), np.array([[0, 1], [2, 3], [4, 0]])
    weights = np.array([[1.0, 1.0], [1.0, 0.5], [0.0, 0.0]], np.float32)
    shifted = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    each = -np.take_along_axis(shifted, targets[..., None], 2)[..., 0] * weights
    legacy = contrib.legacy_seq2seq
    given = list(logits), list(targets), list(weights)
    by_example = legacy.sequence_loss_by_example(*given)
    np.testing.assert_allclose(by_example, each.sum(0) / weights.sum(0), rtol=1e-5)
    total = legacy.sequence_loss(*given, average_across_timesteps=False)
    np.testing.assert_allclose(total, each.sum() / 2, rtol=1e-5)
    with pytest.raises(ValueError, match="Lengths of logits, weights, and targets"):
        legacy.sequence_loss_by_example(given[0], given[1], [])


def test_a_reader_and_a_writer_of_lists() -> None:
    x, y = normal(3, 2, DEPTH), normal(2, 2, DEPTH)

    def build() -> Any:
        return contrib.legacy_seq2seq.basic_rnn_seq2seq(
            [tf.constant(one) for one in x],
            [tf.constant(one) for one in y],
            rnn_cell.GRUCell(UNITS),
        )

    (outputs, state), v = run(build)
    names = [f"basic_rnn_seq2seq/{part}/gru_cell/gates/kernel" for part in ("rnn", "rnn_decoder")]
    assert set(names) <= set(v)
    assert len(outputs) == 2
    np.testing.assert_array_equal(outputs[-1], state)


def test_batches_for_beams_of_nested_states() -> None:
    state = rnn_cell.LSTMStateTuple(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    tiled = seq2seq.tile_batch((state, state), 2)
    assert tiled[1].h.numpy().ravel().tolist() == [3, 3, 4, 4]
