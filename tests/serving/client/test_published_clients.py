"""Client code and configurations as tutorials for TensorFlow Serving print them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import estimand as est
from tests.serving.running import Server

v1 = tf.compat.v1

CONFIG = """
model_config_list: {
  config: {
    name: "deep_ranking",
    base_path: "%(folder)s/deep_ranking",
    model_platform: "tensorflow"
    model_version_policy: {
      latest: {
        num_versions: 8
      }
    }
  },
  config: {
    name: "pdnn_model",
    base_path: "%(folder)s/dnn_model",
    model_platform: "tensorflow"
    model_version_policy: {
      specific {
        versions: 42
        versions: 43
      }
    }
  },
  config: {
    name: "face_anti_spoof",
    base_path: "%(folder)s/face_anti_spoof",
    model_platform: "tensorflow"
  }
}
"""
SIZE = 4


def write_face_model(folder: Path) -> None:
    """An export of an Estimator that decodes the images of tf.Examples; bright ones are real."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable("weight", initializer=1.0)
        score = weight * tf.reduce_mean(features["input"], axis=[1, 2, 3])
        outputs = {"label": tf.cast(score > 0.5, tf.int64), "score": score}
        loss = tf.reduce_mean(0.0 * score)
        return est.EstimatorSpec(
            mode,
            predictions=outputs,
            loss=loss,
            train_op=v1.assign_add(v1.train.get_global_step(), 1),
            export_outputs={"predict_images": est.export.PredictOutput(outputs)},
        )

    def input_fn():
        return tf.data.Dataset.from_tensors(({"input": tf.zeros([1, SIZE, SIZE, 3])}, [0]))

    def preprocess(encoded):
        image = tf.image.decode_jpeg(encoded, channels=3)
        return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [SIZE, SIZE])

    def serving_input_receiver_fn():
        inputs = v1.placeholder(dtype=tf.string, name="input_image")
        feature_config = {"image/encoded": tf.io.FixedLenFeature(shape=[], dtype=tf.string)}
        parsed = v1.io.parse_example(inputs, feature_config)
        images = tf.map_fn(preprocess, parsed["image/encoded"], dtype=tf.float32)
        return est.export.ServingInputReceiver({"input": images}, {"inputs": inputs})

    estimator = est.Estimator(model_fn, model_dir=str(folder / "model_dir"))
    estimator.train(input_fn, steps=1)
    estimator.export_saved_model(str(folder / "face_anti_spoof"), serving_input_receiver_fn)


@pytest.fixture(scope="module")
def configured(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("published")
    write_face_model(folder)
    source = models / "half_plus_three" / "1"
    for name, versions in {"deep_ranking": range(1, 11), "dnn_model": range(41, 45)}.items():
        for version in versions:
            shutil.copytree(source, folder / name / str(version))
    (folder / "models.conf").write_text(CONFIG % {"folder": folder})
    server = Server(
        folder / "log", f"--model_config_file={folder / 'models.conf'}", "--num_load_threads=2"
    )
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def versions_of(server: Server, model: str) -> list[int]:
    states = server.get(f"/v1/models/{model}").json()["model_version_status"]
    return sorted(int(one["version"]) for one in states if one["state"] == "AVAILABLE")


def test_the_eight_latest_versions_and_two_specific_ones(configured: Server) -> None:
    configured.wait_until(lambda: len(versions_of(configured, "deep_ranking")) == 8)
    configured.wait_until(lambda: len(versions_of(configured, "pdnn_model")) == 2)
    assert versions_of(configured, "deep_ranking") == list(range(3, 11))
    assert versions_of(configured, "pdnn_model") == [42, 43]
    path = "/v1/models/pdnn_model/versions/42:predict"
    assert configured.post(path, {"instances": [1.0]}).json() == {"predictions": [3.5]}


def bytes_feature(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def serving_predict(server: str, face_img: Path) -> dict[str, object]:
    host, port = server.split(":")
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "face_anti_spoof"
        request.model_spec.signature_name = "predict_images"
        serialized = face_img.read_bytes()
        features = tf.train.Features(feature={"image/encoded": bytes_feature(serialized)})
        serialized = tf.train.Example(features=features).SerializeToString()
        request.inputs["inputs"].CopyFrom(tf.make_tensor_proto(serialized, shape=[1]))
        content = stub.Predict(request, timeout=5)
    labels = content.outputs["label"].int64_val
    prob = np.sum(labels) / len(labels)
    return {"label": "real", "prob": prob} if prob > 0.5 else {"label": "fake", "prob": 1 - prob}


@pytest.mark.parametrize(("brightness", "label"), [(250, "real"), (5, "fake")])
def test_images_in_examples(configured: Server, tmp_path: Path, brightness, label) -> None:
    image = tf.fill([8, 8, 3], tf.constant(brightness, tf.uint8))
    face = tmp_path / "face.jpg"
    face.write_bytes(tf.io.encode_jpeg(image).numpy())
    found = serving_predict(f"127.0.0.1:{configured.port}", face)
    assert found == {"label": label, "prob": 1.0}


def test_our_client_puts_a_picture_into_the_same_example(configured: Server, tmp_path) -> None:
    picture = tf.io.encode_jpeg(tf.fill([8, 8, 3], tf.constant(250, tf.uint8))).numpy()
    with est.serving.Client(f"127.0.0.1:{configured.port}") as client:
        given = [{"image/encoded": picture}]
        found = client.predict("face_anti_spoof", given, signature="predict_images")
    assert found["label"].tolist() == [1]


def test_curl_of_half_plus_three(server: Server) -> None:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")
    address = server.url("/v1/models/half_plus_three:predict")
    done = subprocess.run(
        [
            program,
            "-s",
            "--noproxy",
            "*",
            "-d",
            '{"instances": [1.0,2.0,5.0]}',
            "-X",
            "POST",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=20,
        env=dict(os.environ),
    )
    assert done.stdout.split() == ["{", '"predictions":', "[3.5,4.0,5.5]", "}"]
