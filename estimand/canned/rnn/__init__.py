"""Recurrent models over sequence feature columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.canned.deep_and_linear import check_features
from estimand.canned.linear import tuple_of
from estimand.canned.optimizers import choose_optimizer, for_many_models
from estimand.canned.rnn.layers import USE_DEFAULT, check_cells, recurrent_layer
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.checkpoints.substitutes import Source, note_substitutes
from estimand.estimator.estimator import Estimator
from estimand.heads import Head, SequentialHeadWrapper, binary_or_multi_class_head
from estimand.heads.losses import SUM_OVER_BATCH_SIZE

# What an optimizer given by name gets: recurrent gradients are prone to grow.
LEARNING_RATE = 0.05
CLIP_NORM = 5.0
_SEED_STATE = re.compile(r"(^|/)seed_generator(_\d+)?/seed_generator_state$")


class RNNEstimator(Estimator):
    """Recurrent model with any head.

    Args:
      head: what the model predicts; with `return_sequences` a `SequentialHeadWrapper`.
      sequence_feature_columns: `sequence_numeric_column`, or embedding and indicator columns of
        `sequence_categorical_column_*`. All have to have the same lengths in an example.
      context_feature_columns: dense columns, given to the network at every step.
      units: the size of the recurrent layer, or a list of sizes of layers upon each other.
      cell_type: `'simple_rnn'` (default), `'lstm'`, `'gru'`, or a class like
        `keras.layers.LSTMCell`, called as `cell_type(units=n)`.
      rnn_cell_fn: instead of both, a function that returns a Keras cell, or a list of them.
      return_sequences: predict at every step, not once after the last.
      optimizer: as in other canned models; one given by name has the learning rate 0.05 and
        clips each gradient to norm 5.
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.

    >>> import estimand as est
    >>> words = est.feature_column.sequence_categorical_column_with_hash_bucket("words", 100)
    >>> columns = [est.feature_column.embedding_column(words, 4)]
    >>> estimator = est.RNNEstimator(est.RegressionHead(), columns, units=[8], cell_type="gru")
    """

    def __init__(
        self,
        head: Head,
        sequence_feature_columns: Sequence[FeatureColumn],
        context_feature_columns: Sequence[FeatureColumn] | None = None,
        units: Any = None,
        cell_type: Any = USE_DEFAULT,
        rnn_cell_fn: Callable[[], Any] | None = None,
        return_sequences: bool = False,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        config: RunConfig | None = None,
    ) -> None:
        if return_sequences and not isinstance(head, SequentialHeadWrapper):
            raise ConfigError(
                "Provided head must be a `_SequentialHead` object when `return_sequences` is set "
                f"to True. Write est.SequentialHeadWrapper({type(head).__name__}(...))."
            )
        check_cells(units, cell_type, rnn_cell_fn)
        sizes = units if isinstance(units, int) else tuple(units or ())
        model_fn = rnn_model_fn(
            head,
            tuple_of(sequence_feature_columns),
            tuple_of(context_feature_columns),
            lambda: recurrent_layer(sizes, cell_type, rnn_cell_fn, return_sequences),
            optimizer,
        )
        super().__init__(model_fn, model_dir, config)


class RNNClassifier(RNNEstimator):
    """Recurrent classifier, of sequences or (`return_sequences`) of their steps.

    `sequence_mask` is the name under which the mask of steps, true where there is one, is looked
    for in the features, and given out among the predictions; without such a feature it is
    computed from the lengths. The other arguments are those of `RNNEstimator` and of
    classifiers.

    Args:
      sequence_feature_columns: columns of the features that are sequences.
      context_feature_columns: columns of the features that are given at every step.
      units: the size of the layer, or a list of sizes.
      cell_type: 'simple_rnn', 'lstm', 'gru', or a class of Keras cells.
      rnn_cell_fn: a function that returns the cell, in place of `units` and `cell_type`.
      return_sequences: predict at every step, not once after the last.
      model_dir: where checkpoints and event files live; training continues from there.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      optimizer: a name, a Keras or v1 optimizer, or a function that returns one.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      sequence_mask: name of the feature that says which steps there are.
      config: a RunConfig.

    >>> import estimand as est, tensorflow as tf
    >>> words = tf.feature_column.sequence_categorical_column_with_identity("words", 10)
    >>> classifier = est.RNNClassifier(
    ...     [tf.feature_column.embedding_column(words, 4)], units=[8], cell_type="gru")
    >>> def input_fn():
    ...     words = tf.sparse.from_dense([[1, 2, 3], [4, 5, 0]])
    ...     return tf.data.Dataset.from_tensors(({"words": words}, [1, 0])).repeat(20)
    >>> classifier.train(input_fn).evaluate(input_fn, steps=1)["accuracy"]
    1.0
    """

    def __init__(
        self,
        sequence_feature_columns: Sequence[FeatureColumn],
        context_feature_columns: Sequence[FeatureColumn] | None = None,
        units: Any = None,
        cell_type: Any = USE_DEFAULT,
        rnn_cell_fn: Callable[[], Any] | None = None,
        return_sequences: bool = False,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sequence_mask: str = "sequence_mask",
        config: RunConfig | None = None,
    ) -> None:
        head: Head = binary_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
        if return_sequences:
            # It says so itself where it cannot use a column.
            head = SequentialHeadWrapper(head, sequence_mask, weight_column)  # type: ignore[arg-type]
        super().__init__(
            head,
            sequence_feature_columns,
            context_feature_columns,
            units,
            cell_type,
            rnn_cell_fn,
            return_sequences,
            model_dir,
            optimizer,
            config,
        )


def rnn_model_fn(
    head: Head,
    sequence_columns: Any,
    context_columns: Any,
    make_layer: Callable[[], Any],
    optimizer: Any,
) -> Callable[..., EstimatorSpec]:
    """The model function of a recurrent model."""
    optimizer = for_many_models(optimizer)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        check_features(features)
        features = dict(features)  # the mask is added to it
        logits, mask, variables = _logits(
            features, sequence_columns, context_columns, make_layer(), head, mode
        )
        key = getattr(head, "input_sequence_mask_key", None)
        if key is not None:
            features.setdefault(key, mask)
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            optimizer=_optimizer(optimizer) if mode == ModeKeys.TRAIN else None,
            trainable_variables=variables,
            logits=logits,
        )

    return model_fn


def _logits(
    features: dict[str, Any],
    sequence_columns: Any,
    context_columns: Any,
    recurrent: Any,
    head: Head,
    mode: str,
) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
    """Logits, the mask of steps, and what is to be trained; under upstream's variable names."""
    import keras

    from estimand.features.keras_layers import DenseFeatures, SequenceFeatures

    sequence_features = SequenceFeatures(sequence_columns, name="sequence_features")
    inputs, lengths = sequence_features(features)
    layers = [sequence_features]
    with tf.name_scope("rnn_model/sequence_input_layer"):
        tf.compat.v1.summary.histogram("sequence_length", lengths)
    if context_columns:
        context_features = DenseFeatures(context_columns, name="dense_features")
        inputs = _with_context(inputs, context_features(features))
        layers.append(context_features)
    # As long as the batch, not as the longest example: a batch may be padded further.
    mask = tf.sequence_mask(lengths, maxlen=tf.shape(inputs)[1])
    with keras.name_scope("rnn_model"):
        output = recurrent(inputs, mask=mask, training=mode == ModeKeys.TRAIN)
        dense = keras.layers.Dense(head.logits_dimension, name="logits")
        logits = dense(output)
    note_substitutes(tf.compat.v1.get_default_graph(), _seed_for_keras_3)
    layers += [recurrent, dense]
    return logits, mask, [v for layer in layers for v in layer.trainable_variables]


def _seed_for_keras_3(name: str, stored: Collection[str]) -> Source | None:
    """The cells of Keras 3 keep a seed for dropout, which older checkpoints do not have."""
    del stored
    return Source((), np.zeros(2, np.uint32)) if _SEED_STATE.search(name) else None


def _with_context(inputs: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
    """The context, repeated at every step, before the inputs of each step."""
    steps = tf.shape(inputs)[1]
    repeated = tf.repeat(context[:, None, :], steps, axis=1)
    return tf.concat([inputs, repeated], axis=2)


def _optimizer(given: Any) -> Any:
    chosen = choose_optimizer(given, LEARNING_RATE)
    if not isinstance(given, str):
        return chosen
    return type(chosen)(learning_rate=LEARNING_RATE, clipnorm=CLIP_NORM)
