"""A program of the v1 days: serialized examples with image bytes in, tensors by name out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from tests.export.conftest import run_config, v1

SIZE, CLASSES = 4, 2


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    input_tensor = features["input"]
    flat = tf.reshape(input_tensor, [-1, SIZE * SIZE * 3])
    logits = tf.matmul(flat, v1.get_variable("logits/kernel", [SIZE * SIZE * 3, CLASSES]))
    probs = tf.nn.softmax(logits, name="output_score")
    predictions = tf.argmax(probs, axis=-1, name="output_label")
    predictions_dict = {"score": probs, "label": predictions}
    if mode == est.ModeKeys.PREDICT:
        predictions_output = est.export.PredictOutput(predictions_dict)
        return est.EstimatorSpec(
            mode=mode,
            predictions=predictions_dict,
            export_outputs={tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predictions_output},
        )
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _preprocess_image(encoded: tf.Tensor) -> tf.Tensor:
    """Patches of an image, as one batch."""
    image = tf.io.decode_png(encoded, channels=3)
    image = tf.cast(image, tf.float32) / 255.0
    return tf.stack([image[:SIZE, :SIZE], image[SIZE:, SIZE:]])


def serving_input_receiver_fn() -> Any:
    inputs = v1.placeholder(dtype=tf.string, name="input_image")
    feature_config = {"image/encoded": tf.io.FixedLenFeature(shape=[], dtype=tf.string)}
    tf_example = v1.parse_example(inputs, feature_config)
    patch_images = tf.map_fn(_preprocess_image, tf_example["image/encoded"], dtype=tf.float32)
    patch_images = tf.squeeze(patch_images, axis=[0])
    receive_tensors = {"example": inputs}
    features = {"input": patch_images}
    return est.export.ServingInputReceiver(features, receive_tensors)


def load_graph(trained_model: str) -> Any:
    session = v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        v1.saved_model.loader.load(session, [tf.saved_model.SERVING], trained_model)
    return session


def predict_pb(session: Any, image_bytes: bytes) -> tuple[np.ndarray, np.ndarray]:
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image_bytes]))
    example = tf.train.Example(features=tf.train.Features(feature={"image/encoded": feature}))
    serialized = example.SerializeToString()
    input_tensor = session.graph.get_tensor_by_name("input_image:0")
    labels = session.graph.get_tensor_by_name("output_label:0")
    scores = session.graph.get_tensor_by_name("output_score:0")
    return session.run([labels, scores], feed_dict={input_tensor: [serialized]})


def test_image_bytes_in_and_named_tensors_out(tmp_path: Path) -> None:
    chance = np.random.RandomState(2)
    image = chance.randint(0, 256, [2 * SIZE, 2 * SIZE, 3]).astype(np.uint8)

    def input_fn() -> tf.data.Dataset:
        images = image[None, :SIZE, :SIZE].astype(np.float32)
        return tf.data.Dataset.from_tensors(({"input": images}, [1])).repeat(3)

    model = est.Estimator(model_fn, tmp_path / "model", run_config()).train(input_fn)
    path = model.export_savedmodel(
        export_dir_base=str(tmp_path / "serving"),
        serving_input_receiver_fn=serving_input_receiver_fn,
    )
    session = load_graph(path.decode())
    labels, scores = predict_pb(session, tf.io.encode_png(image).numpy())
    session.close()

    patches = np.stack([image[:SIZE, :SIZE], image[SIZE:, SIZE:]]).reshape(2, -1) / 255.0
    logits = patches @ model.get_variable_value("logits/kernel")
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, wanted, rtol=1e-4)
    assert labels.tolist() == wanted.argmax(axis=1).tolist()
