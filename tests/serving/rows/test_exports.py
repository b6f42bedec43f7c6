"""Exports as people make them: their requests are joined, and get the answers of each alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.serving.batching.programs import Program, same_rows
from estimand.serving.flags import TENSORFLOW, Flags
from estimand.serving.models.loader import STATEMENT, ServableLoader
from tests.serving import making

layers = keras.layers
fc = est.feature_column
Arrays = list[np.ndarray]


def opened(directory: Path, signature: str = "serving_default", **flags) -> tuple[Program, list]:
    """A signature's program, and its inputs."""
    servable = ServableLoader(Flags(**flags)).open(TENSORFLOW, str(directory))
    found = servable.signatures[signature]
    inputs = list(found.inputs.values())
    return servable.program(inputs, list(found.outputs.values())), inputs


def check(program: Program, requests: Sequence[Arrays]) -> None:
    """That they may be joined, and are answered alike then."""
    assert program.may_batch
    assert all(program.joins.allow(request) for request in requests)
    joined = [np.concatenate(column) for column in zip(*requests, strict=True)]
    together = program.run(joined)
    start = 0
    for request in requests:
        end = start + len(request[0])
        assert same_rows([array[start:end] for array in together], program.run(request))
        start = end


# ---------------------------------------------------------------- Keras


def _dense() -> keras.Model:
    inputs = layers.Input([8])
    hidden = layers.BatchNormalization()(layers.Dense(16, activation="relu")(inputs))
    return keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.Dropout(0.5)(hidden)))


def _pictures() -> keras.Model:
    stack = [
        layers.Input([12, 12, 3]),
        layers.Rescaling(1 / 255),
        layers.Conv2D(4, 3, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.DepthwiseConv2D(3),
        layers.UpSampling2D(),
        layers.Conv2DTranspose(3, 3, strides=2),
        layers.Flatten(),
        layers.Dense(3),
    ]
    return keras.Sequential(stack)


def _words() -> keras.Model:
    stack = [
        layers.Input([None], dtype="int32"),
        layers.Embedding(20, 4, mask_zero=True),
        layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
        layers.GRU(3),
        layers.Dense(2),
    ]
    return keras.Sequential(stack)


def _attention() -> keras.Model:
    inputs = layers.Input([None, 8])
    attended = layers.LayerNormalization()(inputs + layers.MultiHeadAttention(2, 4)(inputs, inputs))
    pooled = layers.GlobalAveragePooling1D()(layers.Dense(6, activation="gelu")(attended))
    return keras.Model(inputs, layers.Dense(3)(pooled))


def _several() -> keras.Model:
    words = layers.Input([1], dtype="string", name="word")
    numbers = layers.Input([3], name="numbers")
    found = layers.StringLookup(vocabulary=["a", "b", "c"])(words)
    embedded = layers.Flatten()(layers.Embedding(10, 3)(found))
    both = layers.Concatenate()([embedded, numbers])
    return keras.Model([words, numbers], [layers.Dense(2)(both), layers.Add()([embedded, numbers])])


def _values(random: np.random.Generator, rows: int, slot) -> np.ndarray:
    shape = (rows, *(5 if size < 0 else size for size in slot.shape[1:]))
    if slot.kind.hasobject:
        return random.choice(np.array([b"a", b"b", b"z"], object), shape)
    if slot.kind.kind == "i":
        return random.integers(0, 20, shape).astype(slot.kind)
    return random.normal(size=shape).astype(slot.kind)


@pytest.mark.parametrize("make", [_dense, _pictures, _words, _attention, _several])
def test_keras_models(make: Callable[[], keras.Model], tmp_path: Path) -> None:
    make().export(str(tmp_path), verbose=False)
    program, inputs = opened(tmp_path)
    random = np.random.default_rng(1)
    check(program, [[_values(random, rows, slot) for slot in inputs] for rows in (2, 1, 3)])
    assert not program.may_wait


def test_a_rank_that_the_signature_does_not_have_is_not_joined(tmp_path: Path) -> None:
    """TensorFlow Serving feeds any shape, but the proof is about the signature's."""
    making.write_function(
        tmp_path,
        lambda x: {"y": tf.reduce_sum(x, -1, keepdims=True) + x},
        {"x": tf.TensorSpec([None, 3], tf.float32)},
    )
    program, _ = opened(tmp_path)
    assert program.joins.allow([np.zeros([2, 3], np.float32)])
    assert not program.joins.allow([np.zeros([2], np.float32)])
    assert not program.joins.allow([np.zeros([2, 4], np.float32)])
    assert not program.joins.allow([np.zeros([2, 3, 1], np.float32)])


# ---------------------------------------------------------------- canned estimators


def _columns() -> dict[str, object]:
    word = fc.categorical_column_with_vocabulary_list("c", ["r", "g", "b"], num_oov_buckets=1)
    text = fc.categorical_column_with_hash_bucket("h", 10)
    return {
        "x": fc.numeric_column("x"),
        "v": fc.numeric_column("v", [3]),
        "buckets": fc.bucketized_column(fc.numeric_column("x"), [0.0, 1.0]),
        "word": word,
        "words": fc.indicator_column(word),
        "embedded": fc.embedding_column(text, 3),
        "crossed": fc.crossed_column(["c", "h"], 20),
        "weighted": fc.weighted_categorical_column(text, "w"),
    }


def _example(random: np.random.Generator) -> bytes:
    """With none, one or several words."""
    example = tf.train.Example()
    feature = example.features.feature
    feature["x"].float_list.value.append(random.normal())
    feature["v"].float_list.value.extend(random.normal(size=3))
    for name in ("c", "h"):
        words = random.choice([b"r", b"g", b"p"], random.integers(0, 4))
        feature[name].bytes_list.value.extend(words.tolist())
    return example.SerializeToString()


def _data() -> tf.data.Dataset:
    features = {
        "x": np.float32([[1], [2]]),
        "v": np.float32([[1, 2, 3], [3, 2, 1]]),
        "c": np.array([["r"], ["g"]]),
        "h": np.array([["p"], ["q"]]),
        "w": np.float32([[1], [2]]),
    }
    return tf.data.Dataset.from_tensors((features, np.array([[1], [0]]))).repeat(2)


def _export(estimator, columns: Sequence[object], base: Path) -> Path:
    estimator.train(_data)
    spec = fc.make_parse_example_spec(columns)
    receiver = est.export.build_parsing_serving_input_receiver_fn(spec)
    return Path(os.fsdecode(estimator.export_saved_model(str(base), receiver)))


def _wide_and_deep(base: Path) -> Path:
    made = _columns()
    wide = [made["buckets"], made["word"], made["crossed"]]
    deep = [made["x"], made["v"], made["words"], made["embedded"]]
    estimator = est.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[4], batch_norm=True
    )
    return _export(estimator, [*wide, *deep], base)


def _linear(base: Path) -> Path:
    columns = [_columns()[name] for name in ("x", "word", "crossed")]
    return _export(est.LinearRegressor(columns), columns, base)


@pytest.mark.parametrize("make", [_wide_and_deep, _linear])
def test_canned_estimators_that_parse_examples(make: Callable[[Path], Path], tmp_path) -> None:
    directory = make(tmp_path)
    random = np.random.default_rng(2)
    requests = [
        [np.array([_example(random) for _ in range(rows)], object)] for rows in (3, 1, 1, 4)
    ]
    for signature in ("serving_default", "predict", "regression"):
        check(opened(directory, signature)[0], requests)


def test_weights_that_may_be_those_of_another_request_are_not_joined(tmp_path: Path) -> None:
    """Two entries and one weight here, one entry and two weights there: together they fit."""
    columns = [_columns()["weighted"]]
    directory = _export(est.LinearRegressor(columns), columns, tmp_path)
    assert not opened(directory)[0].may_batch


# ---------------------------------------------------------------- who says so


def _write_largest(directory: Path) -> None:
    making.write_function(
        directory,
        lambda x: {"y": tf.cond(tf.reduce_max(x) > 1000.0, lambda: x * 0.0, lambda: x * 2.0)},
        {"x": tf.TensorSpec([None], tf.float32)},
    )


def test_what_is_not_proven_is_joined_where_the_operator_says_so(tmp_path: Path) -> None:
    _write_largest(tmp_path)
    assert not opened(tmp_path)[0].may_batch
    servable = ServableLoader(Flags()).open(TENSORFLOW, str(tmp_path), joins=True)
    signature = servable.signatures["serving_default"]
    assert servable.program(
        list(signature.inputs.values()), list(signature.outputs.values())
    ).may_batch


def test_what_is_not_proven_is_joined_where_the_export_says_so(tmp_path: Path) -> None:
    _write_largest(tmp_path)
    (tmp_path / STATEMENT).parent.mkdir()
    (tmp_path / STATEMENT).touch()
    assert opened(tmp_path)[0].may_batch


def test_nobody_can_say_so_of_random_numbers(tmp_path: Path) -> None:
    making.write_function(
        tmp_path,
        lambda x: {"y": x + tf.random.uniform(tf.shape(x))},
        {"x": tf.TensorSpec([None], tf.float32)},
    )
    (tmp_path / STATEMENT).parent.mkdir()
    (tmp_path / STATEMENT).touch()
    assert not opened(tmp_path)[0].may_batch


def test_a_tflite_model_is_joined_only_where_somebody_says_so(tmp_path: Path) -> None:
    class Half(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
        def call(self, x):
            return {"y": x * 0.5}

    half = Half()
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [half.call.get_concrete_function()], half
    )
    (tmp_path / "model.tflite").write_bytes(converter.convert())
    assert not opened(tmp_path, prefer_tflite_model=True)[0].may_batch
    (tmp_path / STATEMENT).parent.mkdir()
    (tmp_path / STATEMENT).touch()
    assert opened(tmp_path, prefer_tflite_model=True)[0].may_batch
