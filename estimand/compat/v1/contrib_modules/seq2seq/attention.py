"""`tf.contrib.seq2seq`: how places of a memory are scored for a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Probability = Callable[[Any, Any], Any]  # of scores, and of where was looked one step before


class AttentionMechanism:
    """The base class of all."""

    @property
    def alignments_size(self) -> Any:
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        raise NotImplementedError


class _BaseAttentionMechanism(AttentionMechanism):
    """A memory, [batch, time, depth], made ready to be asked.

    Subclasses outside of here score in `__call__(query, state)`, with `keys`, `query_layer` and
    `_probability_fn(scores, previous_alignments)`.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Probability,
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        del check_inner_dims_defined
        self.query_layer, self.memory_layer, self._name = query_layer, memory_layer, name
        memory = tf.convert_to_tensor(memory)
        self._mask = None
        if memory_sequence_length is not None:
            self._mask = tf.sequence_mask(memory_sequence_length, tf.shape(memory)[1])
            memory *= tf.cast(self._mask, memory.dtype)[:, :, tf.newaxis]
        self._mask_value, self._probability = score_mask_value, probability_fn
        self.values = memory
        self.keys = memory if memory_layer is None else memory_layer(memory)
        if custom_key_value_fn is not None:
            self.keys, self.values = custom_key_value_fn(self.keys, self.values)
        self._keys, self._values = self.keys, self.values
        self._batch_size = self.batch_size = tf.shape(memory)[0]
        size = tf.compat.dimension_value(memory.shape[1])
        self._alignments_size = tf.shape(memory)[1] if size is None else size

    def _probability_fn(self, scores: Any, previous: Any) -> Any:
        if self._mask is not None:
            low = scores.dtype.min if self._mask_value is None else self._mask_value
            scores = tf.where(self._mask, scores, tf.cast(low, scores.dtype))
        return self._probability(scores, previous)

    @property
    def alignments_size(self) -> Any:
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Where was looked before the first step."""
        return tf.zeros([batch_size, self._alignments_size], dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        return self.initial_alignments(batch_size, dtype)


class _Scoring(_BaseAttentionMechanism):
    """A mechanism by scores alone; the layer of its memory is always `memory_layer`."""

    def __init__(
        self, num_units: int, memory: Any, name: str, probability_fn: Probability, **given: Any
    ) -> None:
        layer = layers.Dense(num_units, use_bias=False, name="memory_layer")
        super().__init__(
            memory=memory, probability_fn=probability_fn, memory_layer=layer, name=name, **given
        )
        self._num_units = num_units

    def __call__(self, query: Any, state: Any = None) -> tuple[Any, Any]:
        with v1.variable_scope(None, self._name, [query]):
            scores = self._scores(query)
        alignments = self._probability_fn(scores, state)
        return alignments, alignments

    def _scores(self, query: Any) -> Any:
        raise NotImplementedError


class LuongAttention(_Scoring):
    """By the product of query and memory (Luong et al. 2015)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "LuongAttention",
        _monotonic: Any = None,
    ) -> None:
        del dtype
        super().__init__(
            num_units,
            memory,
            name,
            _monotonic or _of_scores(probability_fn),
            query_layer=None,
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
        )
        self._scale = scale

    def _scores(self, query: Any) -> Any:
        return _luong_score(query, self.keys, self._scale)


class BahdanauAttention(_Scoring):
    """By a layer over query and memory (Bahdanau et al. 2015)."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Any = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "BahdanauAttention",
        _monotonic: Any = None,
    ) -> None:
        del dtype
        super().__init__(
            num_units,
            memory,
            name,
            _monotonic or _of_scores(probability_fn),
            query_layer=layers.Dense(num_units, use_bias=False, name="query_layer"),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
        )
        self._normalize = normalize

    def _scores(self, query: Any) -> Any:
        return _bahdanau_score(self.query_layer(query), self.keys, self._normalize)


def _of_scores(probability_fn: Any) -> Probability:
    fn = probability_fn or tf.nn.softmax
    return lambda scores, previous: fn(scores)


def _luong_score(query: Any, keys: Any, scale: bool) -> tf.Tensor:
    scores = tf.squeeze(tf.matmul(query[:, tf.newaxis], keys, transpose_b=True), 1)
    if scale:
        scores *= v1.get_variable("attention_g", [], query.dtype, v1.ones_initializer())
    return scores


def _bahdanau_score(processed_query: Any, keys: Any, normalize: bool) -> tf.Tensor:
    units, dtype = tf.compat.dimension_value(keys.shape[2]), processed_query.dtype
    asked = processed_query[:, tf.newaxis]
    v = v1.get_variable("attention_v", [units], dtype)
    if not normalize:
        return tf.reduce_sum(v * tf.tanh(keys + asked), 2)
    start = v1.constant_initializer((1.0 / units) ** 0.5)
    g = v1.get_variable("attention_g", [], dtype, start)
    b = v1.get_variable("attention_b", [units], dtype, v1.zeros_initializer())
    direction = g * v * tf.math.rsqrt(tf.reduce_sum(v**2))
    return tf.reduce_sum(direction * tf.tanh(keys + asked + b), 2)


# Attention that only moves on (Raffel et al. 2017)


class _Monotonic(_Scoring):
    """Scores with a bias, which become the probability that a place is chosen."""

    _bias: float

    def _scores(self, query: Any) -> Any:
        start = v1.constant_initializer(self._bias)
        bias = v1.get_variable("attention_score_bias", [], query.dtype, start)
        return super()._scores(query) + bias

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        first = tf.zeros([batch_size], tf.int32)
        return tf.one_hot(first, self._alignments_size, dtype=dtype)


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Bahdanau's."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            memory_sequence_length,
            normalize,
            score_mask_value=score_mask_value,
            dtype=dtype,
            name=name,
            _monotonic=_monotonic_fn(sigmoid_noise, mode, sigmoid_noise_seed),
        )
        self._bias = score_bias_init


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Luong's."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        super().__init__(
            num_units,
            memory,
            memory_sequence_length,
            scale,
            score_mask_value=score_mask_value,
            dtype=dtype,
            name=name,
            _monotonic=_monotonic_fn(sigmoid_noise, mode, sigmoid_noise_seed),
        )
        self._bias = score_bias_init


def _monotonic_fn(noise: float, mode: str, seed: int | None) -> Probability:
    def probability(scores: Any, previous: Any) -> Any:
        if noise > 0:
            scores += noise * v1.random_normal(tf.shape(scores), dtype=scores.dtype, seed=seed)
        chosen = tf.cast(scores > 0, scores.dtype) if mode == "hard" else tf.sigmoid(scores)
        return monotonic_attention(chosen, previous, mode)

    return probability


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> tf.Tensor:
    """Where is looked, if each place from the last one on is chosen with its probability.

    >>> now = monotonic_attention([[0.5, 0.5, 1.0]], [[1.0, 0.0, 0.0]], "recursive")
    >>> now.numpy().tolist()
    [[0.5, 0.25, 0.25]]
    """
    p, previous = tf.convert_to_tensor(p_choose_i), tf.convert_to_tensor(previous_attention)
    if mode == "hard":
        p *= tf.cumsum(previous, axis=1)
        return p * tf.math.cumprod(1 - p, axis=1, exclusive=True)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * tf.cumsum(previous / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode != "recursive":
        raise ConfigError(f"mode must be 'recursive', 'parallel', or 'hard', not {mode!r}.")
    skipped = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)
    steps = tf.transpose(skipped), tf.transpose(previous)
    arrived = tf.scan(lambda x, step: step[0] * x + step[1], steps, tf.zeros_like(p[:, 0]))
    return p * tf.transpose(arrived)


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    """Products of numbers from 0 to 1, by the sum of their logarithms."""
    x = tf.convert_to_tensor(x)
    tiny = x.dtype.as_numpy_dtype(1.1754944e-38)
    return tf.exp(tf.cumsum(tf.math.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def hardmax(logits: Any, name: str | None = None) -> tf.Tensor:
    """One where a logit is the largest, else zero."""
    with v1.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        depth = tf.compat.dimension_value(logits.shape[-1]) or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)
