"""`tf.contrib.seq2seq`: what a decoder is fed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.rnn.networks import transpose_batch_time as _swapped

v1 = tf.compat.v1


class Helper:
    """Chooses words by what a decoder gives, and feeds it."""

    _batch_size: Any

    @property
    def batch_size(self) -> Any:
        """How many sequences there are."""
        return self._batch_size

    @property
    def sample_ids_shape(self) -> tf.TensorShape:
        """The shape of a choice, without the batch."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        return tf.int32

    def initialize(self, name: Any = None) -> tuple[Any, Any]:
        """Which sequences are finished, and the first inputs."""
        raise NotImplementedError

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        """What is chosen."""
        raise NotImplementedError

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None
    ) -> Any:
        """Which are finished, the next inputs, and the state."""
        raise NotImplementedError


class CustomHelper(Helper):
    """One made of three functions."""

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize, self._sample, self._next = initialize_fn, sample_fn, next_inputs_fn
        self._shape, self._dtype = tf.TensorShape(sample_ids_shape or []), sample_ids_dtype

    @property
    def batch_size(self) -> Any:
        return tf.size(self._initialize()[0])

    @property
    def sample_ids_shape(self) -> tf.TensorShape:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype or tf.int32

    def initialize(self, name: Any = None) -> tuple[Any, Any]:
        del name
        return self._initialize()

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del name
        return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None
    ) -> Any:
        del name
        return self._next(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Feeds the true sequence."""

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: Any = None
    ) -> None:
        del name
        inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
        self._inputs = inputs if time_major else tf.nest.map_structure(_swapped, inputs)
        self.sequence_length = tf.cast(sequence_length, tf.int32)
        self._batch_size = tf.size(self.sequence_length)

    def initialize(self, name: Any = None) -> tuple[Any, Any]:
        del name
        return self.sequence_length <= 0, tf.nest.map_structure(lambda x: _row(x, 0), self._inputs)

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state, name
        return tf.argmax(outputs, -1, output_type=tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        del outputs, sample_ids, name
        following = time + 1
        last = tf.nest.map_structure(lambda x: _row(x, following), self._inputs)
        return following >= self.sequence_length, last, state


class GreedyEmbeddingHelper(Helper):
    """Feeds back the most likely word."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embed = lookup_of(embedding)
        self._start = tf.cast(start_tokens, tf.int32)
        self._end = tf.cast(end_token, tf.int32)
        self._batch_size = tf.size(self._start)

    def initialize(self, name: Any = None) -> tuple[Any, Any]:
        del name
        return tf.zeros([self.batch_size], tf.bool), self._embed(self._start)

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state, name
        return tf.argmax(outputs, -1, output_type=tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None
    ) -> Any:
        del time, outputs, name
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

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state, name
        drawn = tf.random.categorical(outputs / self._temperature, 1, tf.int32, self._seed)
        return tf.squeeze(drawn, 1)


class InferenceHelper(Helper):
    """Feeds back what a function chooses, until another says that it is the end."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._choose, self._ends, self._next = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = tf.TensorShape(sample_shape), sample_dtype
        self._start = tf.convert_to_tensor(start_inputs)
        self._batch_size = tf.shape(self._start)[0]

    @property
    def sample_ids_shape(self) -> tf.TensorShape:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: Any = None) -> tuple[Any, Any]:
        del name
        return tf.zeros([self.batch_size], tf.bool), self._start

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state, name
        return self._choose(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: Any = None
    ) -> Any:
        del time, outputs, name
        following = sample_ids if self._next is None else self._next(sample_ids)
        return self._ends(sample_ids), following, state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds now and then a word drawn by its probability (Bengio et al. 2015).

    Where none was drawn, `sample` gives -1.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: Any = None,
    ) -> None:
        super().__init__(inputs, sequence_length, time_major, name)
        self._embed, self._probability = lookup_of(embedding), sampling_probability
        self._seeds = seed, scheduling_seed

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, state, name
        seed, scheduling_seed = self._seeds
        drawn = tf.squeeze(tf.random.categorical(outputs, 1, tf.int32, seed), 1)
        lots = v1.random_uniform([self.batch_size], seed=scheduling_seed)
        return tf.where(self._probability > lots, drawn, -tf.ones_like(drawn))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        finished, true, state = super().next_inputs(time, outputs, state)
        ids: Any = sample_ids
        drawn = self._embed(tf.maximum(ids, 0))
        return finished, tf.where((ids > -1)[:, tf.newaxis], drawn, true), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Feeds now and then what the decoder gave; `sample` tells for which sequences."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Any], Any] | None = None,
        auxiliary_inputs: Any = None,
        name: Any = None,
        next_input_layer: Callable[[Any], Any] | None = None,
    ) -> None:
        self._more: Any = None
        if auxiliary_inputs is not None:
            more = tf.convert_to_tensor(auxiliary_inputs)
            inputs = tf.concat([inputs, more], -1)
            self._more = more if time_major else _swapped(more)
        super().__init__(inputs, sequence_length, time_major, name)
        self._probability, self._seed = sampling_probability, seed
        self._next = next_inputs_fn or next_input_layer

    @property
    def sample_ids_dtype(self) -> Any:
        return tf.bool

    def sample(self, time: Any, outputs: Any, state: Any, name: Any = None) -> Any:
        del time, outputs, state, name
        return v1.random_uniform([self.batch_size], seed=self._seed) < self._probability

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: Any = None
    ) -> Any:
        finished, true, state = super().next_inputs(time, outputs, state)
        given = outputs if self._next is None else self._next(outputs)
        if self._more is not None:
            given = tf.concat([given, _row(self._more, time + 1)], -1)
        chosen: Any = sample_ids
        return finished, tf.where(chosen[:, tf.newaxis], given, true), state


def lookup_of(embedding: Any) -> Callable[[Any], Any]:
    """A function from ids to rows."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


def _row(x: Any, time: Any) -> Any:
    """What there is at a time; the last where it is over."""
    return x[tf.minimum(time, tf.shape(x)[0] - 1)]
