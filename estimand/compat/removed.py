"""Names that are gone, and what stands in their place; without TensorFlow."""

from __future__ import annotations

import re

# Patterns of paths below tensorflow -> what to do. Names in backticks exist; a test looks.
_FORESTS = "see docs/classical_models.md; needs pip install 'estimand[forests]'"
HINTS: dict[str, str] = {
    r"estimator\.BoostedTreesClassifier": f"`est.GradientBoostedTreesClassifier` ({_FORESTS})",
    r"estimator\.BoostedTreesRegressor": f"`est.GradientBoostedTreesRegressor` ({_FORESTS})",
    r"estimator\.(BoostedTrees|experimental\.boosted_trees)\w*": (
        f"`est.GradientBoostedTreesClassifier` or `est.GradientBoostedTreesRegressor` ({_FORESTS})"
    ),
    r"estimator\.(tpu|TPU\w+)(\..*)?": "`estimand.compat.v1.tpu` (without TPUs, docs/legacy.md)",
    r"estimator\.(Dynamic|StateSaving)Rnn\w+": "`est.RNNEstimator` and `est.RNNClassifier`",
    r"contrib\.tensor_forest.*": f"`est.RandomForestClassifier` ({_FORESTS})",
    r"contrib\.boosted_trees.*": f"`est.GradientBoostedTreesClassifier` ({_FORESTS})",
    r"contrib\.learn\.(Estimator|SKCompat)": "`tf.estimator.Estimator`",
    r"contrib\.learn\.(\w+(Classifier|Regressor))": r"`tf.estimator.\1`",
    r"contrib\.factorization\.KMeans\w*": "`est.KMeans`",
    r"contrib\.(distributions|bayesflow).*": (
        "tfp.distributions and its siblings, of the package tensorflow-probability"
    ),
    r"contrib\.gan(\..*)?": "the package tensorflow-gan",
    r"contrib\.kfac(\..*)?": "the package kfac",
    r"contrib\.lite(\..*)?": "`tf.lite`",
    r"contrib\.mixed_precision(\..*)?": "`tf.keras.mixed_precision`",
    r"contrib\.(quantize|model_pruning)(\..*)?": "the package tensorflow-model-optimization",
    r"contrib\.nccl(\..*)?": "`tf.distribute.NcclAllReduce`",
    r"contrib\.(bigtable|hadoop|ignite|kafka|kinesis|libsvm)(\..*)?": "the package tensorflow-io",
    r"contrib\.saved_model(\..*)?": "`tf.saved_model`, and `tf.keras.models` for those of Keras",
    r"contrib\.keras\.(\w+)": r"`tf.keras.\1`",
    r"contrib\.stateless\.stateless_random_(\w+)": r"`tf.random.stateless_\1`",
    r"contrib\.layers\.batch_norm": "`tf.layers.batch_normalization`",
    r"contrib\.layers\.convolution(2d)?": "`tf.layers.conv2d`",
    r"contrib\.layers\.max_pool2d": "`tf.layers.max_pooling2d`",
    r"contrib\.layers\.avg_pool2d": "`tf.layers.average_pooling2d`",
    r"contrib\.layers\.real_valued_column": "`tf.feature_column.numeric_column`",
    r"contrib\.layers\.sparse_column_with_(hash_bucket|keys|integerized_feature)": (
        "a column of `tf.feature_column.categorical_column_with_hash_bucket` and its siblings"
    ),
    r"contrib\.layers\.one_hot_column": "`tf.feature_column.indicator_column`",
    r"contrib\.layers\.optimize_loss": "`est.minimize`",
    r"contrib\.slim.*": "that of the package tf-slim, which estimand run uses once it is installed",
    r"contrib\.cudnn_rnn.*": "cells of `tf.nn.rnn_cell` with `tf.nn.dynamic_rnn`",
    r"contrib\.metrics\.streaming_(\w+)": r"`tf.metrics.\1`",
    r"contrib\.training\.bucket_by_sequence_length": "`tf.data.Dataset.bucket_by_sequence_length`",
    r"keras\.layers\.CuDNN(LSTM|GRU)": r"`tf.keras.layers.\1`",
    r"keras\.backend\.(get_session|set_session|clear_session)": (
        "nothing: Keras has no session; configure by est.RunConfig"
    ),
    r"keras\.backend\.(set_)?learning_phase": "the argument `training` of layers",
    r"keras\.utils\.multi_gpu_model": (
        "est.RunConfig(train_distribute=`tf.distribute.MirroredStrategy`())"
    ),
    r"keras\.wrappers\.scikit_learn.*": "nothing in Keras; the package scikeras",
    r"keras\.experimental\.export_saved_model": "`tf.saved_model.save`",
    r"keras\.preprocessing\.image\.ImageDataGenerator": "`tf.keras.utils.image_dataset_from_directory`",  # noqa: E501
}


def replacement(path: str) -> str | None:
    """What to use in the place of a path below `tensorflow`; None if that is not known.

    >>> replacement("contrib.factorization.KMeansClustering")
    '`est.KMeans`'
    """
    for pattern, text in HINTS.items():
        match = re.fullmatch(pattern, path)
        if match is not None:
            return match.expand(text) if "\\" in text else text
    return None
