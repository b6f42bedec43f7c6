"""The Xception program: records of JPEG images in, moving averages and focal loss checked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

from tests.legacy import xception_program as program
from tests.legacy.v1_view import tf

ROWS, STEPS = 16, 3


def images() -> tuple[np.ndarray, np.ndarray]:
    """Dark noise of class 0, bright noise of class 1."""
    random = np.random.RandomState(3)
    labels = np.arange(ROWS) % 2
    shape = (ROWS, program._PATCH_SIZE, program._PATCH_SIZE, 3)
    noise = random.randint(0, 128, shape) + 127 * labels[:, None, None, None]
    return noise.astype(np.uint8), labels


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("records") / "val-0.tfrecord")
    Feature, Bytes, Ints = tf.train.Feature, tf.train.BytesList, tf.train.Int64List
    with tf.python_io.TFRecordWriter(path) as writer:
        for image, label in zip(*images(), strict=True):
            encoded = tensorflow.io.encode_jpeg(image).numpy()
            feature = {
                "image_data": Feature(bytes_list=Bytes(value=[encoded])),
                "label": Feature(int64_list=Ints(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return path


@pytest.fixture(scope="module")
def trained(records: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        model_dir = str(tmp_path_factory.mktemp("xception"))
        estimator = program.train([records], model_dir, STEPS, is_training=False)
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    return {"estimator": estimator, "messages": messages}


@pytest.fixture(scope="module")
def predictions(trained: dict[str, Any], records: str) -> dict[str, np.ndarray]:
    rows = list(trained["estimator"].predict(lambda: program.input_fn([records])))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def test_input_ends_after_one_pass(trained: dict[str, Any]) -> None:
    # 16 rows in batches of 6: exactly the 3 steps that were asked for.
    assert trained["estimator"].get_variable_value("global_step") == STEPS


def test_moving_averages_of_the_first_layer_equal_numpy(
    trained: dict[str, Any], records: str
) -> None:
    """With UPDATE_OPS as control dependencies they move by the batch before the update."""
    directory = trained["estimator"].model_dir
    batches = list(_batches(records))
    mean, variance = np.zeros(4), np.ones(4)
    for step in range(STEPS):
        reader = tf.train.load_checkpoint(f"{directory}/model.ckpt-{step}")
        kernel = reader.get_tensor("block1_conv1/kernel")
        outputs = tensorflow.nn.conv2d(batches[step], kernel, strides=2, padding="VALID").numpy()
        rows = outputs.reshape(-1, 4).astype(np.float64)
        mean = 0.99 * mean + 0.01 * rows.mean(axis=0)
        # The fused kernel corrects for the size of the sample.
        variance = 0.99 * variance + 0.01 * rows.var(axis=0, ddof=1)
    found = trained["estimator"].get_variable_value
    np.testing.assert_allclose(found("block1_conv1_bn/moving_mean"), mean, atol=1e-5)
    np.testing.assert_allclose(found("block1_conv1_bn/moving_variance"), variance, rtol=1e-5)


def _batches(records: str) -> Any:
    dataset = tensorflow.data.TFRecordDataset(records)
    for start in range(0, ROWS, program._BATCH_SIZE):
        batch = dataset.skip(start).take(program._BATCH_SIZE)
        parsed = [tf.train.Example.FromString(record.numpy()) for record in batch]
        encoded = [p.features.feature["image_data"].bytes_list.value[0] for p in parsed]
        decoded = np.stack([tensorflow.io.decode_jpeg(e).numpy() for e in encoded])
        yield decoded.astype(np.float32) / 255


def test_loss_has_the_focal_weights(
    trained: dict[str, Any], records: str, predictions: dict[str, np.ndarray]
) -> None:
    result = program.evaluate(str(Path(records).parent), trained["estimator"].model_dir)
    _, labels = images()
    chosen = predictions["score"][np.arange(ROWS), labels].astype(np.float64)
    focal = (1 - chosen) ** 1.5 * -np.log(chosen)
    batches = [focal[i : i + program._BATCH_SIZE] for i in range(0, ROWS, program._BATCH_SIZE)]
    assert result["loss"] == pytest.approx(np.mean([b.mean() for b in batches]), rel=1e-4)
    assert result["accuracy"] == pytest.approx(np.mean(predictions["label"] == labels))


def test_hook_of_the_spec_logs_the_first_step(trained: dict[str, Any]) -> None:
    logged = [m for m in trained["messages"] if m.startswith("batch_accuracy = ")]
    assert len(logged) == 1
    assert ", logits = [[" in logged[0]
    assert ", label = [0 1 0 1 0 1]" in logged[0]


def test_checkpoint_has_rmsprop_slots_and_no_metric(trained: dict[str, Any]) -> None:
    names = set(trained["estimator"].get_variable_names())
    for name in ("block1_conv1/kernel", "conv2d/kernel", "batch_normalization_3/gamma"):
        assert {name, f"{name}/RMSProp", f"{name}/RMSProp_1"} <= names
    assert "block5_sepconv3/pointwise_kernel" in names
    assert not [name for name in names if "accuracy" in name]


def test_the_export_labels_a_picture_by_the_names_of_its_tensors(
    trained: dict[str, Any], predictions: dict[str, np.ndarray], tmp_path: Path
) -> None:
    picture = tmp_path / "face.jpg"
    picture.write_bytes(tensorflow.io.encode_jpeg(images()[0][1]).numpy())
    model_dir = trained["estimator"].model_dir
    exported = program.save_serving_model(model_dir, str(tmp_path / "serving"))
    with tf.Graph().as_default(), program.load_graph(tf.compat.as_str_any(exported)) as session:
        labels, scores = program.predict_pb(session, str(picture))
    assert labels.tolist() == [predictions["label"][1]]
    np.testing.assert_allclose(scores[0], predictions["score"][1], rtol=1e-4)


def test_training_goes_on_shuffled_with_the_same_model_dir(
    trained: dict[str, Any], records: str
) -> None:
    directory = trained["estimator"].model_dir
    before = Path(directory, "checkpoint").read_text()
    again = program.train([records], directory, max_steps=STEPS)
    assert Path(directory, "checkpoint").read_text() == before  # max_steps is reached already
    again = program.train([records], directory, max_steps=STEPS + 2)
    assert again.get_variable_value("global_step") == STEPS + 2
