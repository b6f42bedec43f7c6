"""Examples per second of a wide & deep model on census-like TFRecords, end to end."""

from __future__ import annotations

import tempfile
from typing import Any

from environments import PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import dnn, tabular

_BATCH = 128
_HIDDEN = [100, 75, 50, 25]
_STEPS_PER_CALL = 100


class _Examples:
    """Counts examples where the hooks count steps."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def tick(self, steps: int = 1) -> None:
        self._turns.tick(steps * _BATCH)


def _input(tf: Any) -> Any:
    return lambda: tabular.dataset(tf, tabular.census_file(tf), tabular.census_spec(tf), _BATCH)


def _train(turns: Turns, input_fn: Any = None, **config: Any) -> None:
    import tensorflow as tf

    import estimand as est

    wide, deep = tabular.census_columns(est.feature_column)
    estimator = est.DNNLinearCombinedClassifier(
        model_dir=tempfile.mkdtemp(),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=_HIDDEN,
        linear_optimizer=lambda: _keras().optimizers.Ftrl(0.05),
        dnn_optimizer=lambda: _keras().optimizers.Adagrad(0.05),
        config=est.RunConfig(**config),
    )
    counter = dnn.estimand_counter(_Examples(turns), _STEPS_PER_CALL)
    estimator.train(input_fn or _input(tf), hooks=[counter])


def _keras() -> Any:
    import keras

    return keras


def estimand(turns: Turns) -> None:
    _train(turns)


def estimand_own_input(turns: Turns) -> None:
    import tensorflow as tf

    import estimand as est

    _train(
        turns,
        est.inputs.tfrecord_input_fn(
            tabular.census_file(tf),
            tabular.census_spec(tf),
            label_key="label",
            batch_size=_BATCH,
            shuffle_buffer=10_000,
            drop_remainder=True,
        ),
    )


def upstream(turns: Turns) -> None:
    import tensorflow as tf

    legacy = tf.keras.optimizers.legacy
    wide, deep = tabular.census_columns(tf.feature_column)
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=tempfile.mkdtemp(),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=_HIDDEN,
        linear_optimizer=lambda: legacy.Ftrl(0.05),
        dnn_optimizer=lambda: legacy.Adagrad(0.05),
    )
    estimator.train(_input(tf), hooks=[dnn.upstream_counter(_Examples(turns))])


def keras_fit(turns: Turns) -> None:
    """Preprocessing layers in the pipeline, as Keras advises; one optimizer instead of two."""
    import keras
    import tensorflow as tf

    transform, sizes = _keras_preprocessing(tf, keras)
    model = _keras_model(keras, sizes)
    model.compile(
        keras.optimizers.Adagrad(0.05),
        keras.losses.BinaryCrossentropy(from_logits=True),
        steps_per_execution=_STEPS_PER_CALL,
        jit_compile=False,
    )
    data = _input(tf)().map(transform, num_parallel_calls=tf.data.AUTOTUNE)
    model.fit(
        data.prefetch(tf.data.AUTOTUNE),
        steps_per_epoch=10**9,
        verbose=0,
        callbacks=[dnn.keras_counter(_Examples(turns))],
    )


def _keras_preprocessing(tf: Any, keras: Any) -> tuple[Any, dict[str, int]]:
    layers = keras.layers
    lookups = {
        name: layers.StringLookup(vocabulary=tabular.vocabulary(name), num_oov_indices=1)
        for name in tabular.CENSUS_WORDS
        if name not in ("occupation", "native_country")
    }
    hashes = {name: layers.Hashing(1000) for name in ("occupation", "native_country")}
    buckets = layers.Discretization([float(age) for age in tabular.AGES])
    crosses = [layers.HashedCrossing(1000) for _ in range(3)]

    def transform(features: Any, label: Any) -> Any:
        out = {name: layer(features[name]) for name, layer in {**lookups, **hashes}.items()}
        out["ages"] = buckets(features["age"])
        education, occupation = features["education"], features["occupation"]
        out["cross_0"] = crosses[0]((education, occupation))
        out["cross_1"] = crosses[1]((features["native_country"], occupation))
        older = tf.strings.join([tf.strings.as_string(out["ages"]), education])
        out["cross_2"] = crosses[2]((older, occupation))
        out["numbers"] = tf.stack([features[name] for name in tabular.CENSUS_NUMBERS], axis=1)
        return out, label

    sizes = {name: tabular.CENSUS_WORDS[name] + 1 for name in lookups}
    sizes.update(dict.fromkeys([*hashes, "cross_0", "cross_1", "cross_2"], 1000), ages=11)
    return transform, sizes


def _keras_model(keras: Any, sizes: dict[str, int]) -> Any:
    layers = keras.layers
    inputs = {name: keras.Input((), dtype="int64", name=name) for name in sizes}
    inputs["numbers"] = keras.Input((len(tabular.CENSUS_NUMBERS),), name="numbers")
    wide = [
        layers.Embedding(size, 1, embeddings_initializer="zeros")(inputs[name])
        for name, size in sizes.items()
    ]
    indicated = ("workclass", "education", "marital_status", "relationship")
    deep = [
        inputs["numbers"],
        *(layers.CategoryEncoding(sizes[n], output_mode="one_hot")(inputs[n]) for n in indicated),
        *(layers.Embedding(1000, 8)(inputs[n]) for n in ("occupation", "native_country")),
    ]
    net = layers.Concatenate()(deep)
    for units in _HIDDEN:
        net = layers.Dense(units, activation="relu")(net)
    return keras.Model(inputs, layers.Add()([layers.Dense(1)(net), *wide]))


_ESTIMAND = "Estimand, DNNLinearCombinedClassifier"
_OWN_INPUT = "the same with est.inputs.tfrecord_input_fn"
_UPSTREAM = "tf.estimator, DNNLinearCombinedClassifier"
_KERAS = "Keras fit, steps_per_execution=100"

WORKLOAD = Workload(
    title="Wide & deep on census-like TFRecords, batch 128",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand),
        Contestant(_OWN_INPUT, PROJECT, estimand_own_input),
        Contestant(_UPSTREAM, UPSTREAM, upstream),
        Contestant(_KERAS, PROJECT, keras_fit),
    ],
    baseline=[_UPSTREAM],
    measures=[Measure(unit="examples/s")],
    targets=[
        Target(_OWN_INPUT, [_UPSTREAM], at_least=3.5),
        Target(_OWN_INPUT, [_KERAS], at_least=1.3),
    ],
    rounds=12,
    quick_rounds=3,
)
