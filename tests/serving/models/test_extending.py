"""Operations and servables of one's own, and logs of requests: one server has all three."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import classification_pb2, prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

import estimand as est
from estimand.core.errors import ConfigError
from estimand.serving.flags import Flags
from estimand.serving.lifecycle import config as model_config
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.models import custom_ops
from estimand.serving.models.custom import CustomAdapter, find_class
from estimand.serving.status import StatusError
from tests.serving.running import Server, config_text, example, predict_request

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
SERVABLE = "embedding_servable:EmbeddingTable"


@pytest.fixture(scope="session")
def op_library(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The op of the custom-op guide, compiled against the installed TensorFlow.

    That takes a quarter of a minute, so it is kept for the next run.
    """
    if shutil.which("g++") is None:
        pytest.skip("needs g++ to compile an operation")
    flags = [*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
    source = HERE / "data" / "zero_out.cc"
    facts = repr((flags, tf.version.GIT_VERSION, source.read_text()))
    name = f"zero_out-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.so"
    kept = pytestconfig.cache.mkdir("estimand_ops") / name
    if not kept.exists():
        made = tmp_path_factory.mktemp("op") / name
        command = ["g++", "-shared", "-fPIC", "-O0", str(source), "-o", str(made), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        temporary = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(made, temporary)
        os.replace(temporary, kept)
    return kept


@pytest.fixture(scope="session")
def op_model(op_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained and exported with the op: y = w * zero_out(x), w near 2."""
    zero_out = tf.load_op_library(str(op_library)).zero_out

    def model_fn(features, labels, mode):
        w = tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.zeros_initializer())
        y = w * tf.cast(zero_out(to_zero=features["x"]), tf.float32)
        if mode == "infer":
            return est.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.reduce_mean(tf.square(y - labels))
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": [1, 5]}, [2.0, 0.0])).repeat(40)

    base = tmp_path_factory.mktemp("zero_out")
    estimator = est.Estimator(model_fn, str(base / "train"))
    estimator.train(input_fn)
    features = {"x": tf.TensorSpec([None], tf.int32)}
    receiver = est.export.build_raw_serving_input_receiver_fn(features)
    estimator.export_saved_model(str(base / "export"), receiver)
    return base / "export"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import embedding_servable
    finally:
        sys.path.remove(str(EXAMPLES))
    base = tmp_path_factory.mktemp("words")
    words = {"cat": [1.0, 0.0], "dog": [0.8, 0.2], "car": [0.0, 1.0]}
    embedding_servable.write_table(base / "1", words)
    return base


@pytest.fixture(scope="module")
def server(
    models: Path, op_library: Path, op_model: Path, table: Path, tmp_path_factory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    log = 'logging_config { log_collector_config { filename_prefix: "logs/half" } sampling_config '
    log += "{ sampling_rate: 1 } }"
    base = folder / "m"
    shutil.copytree(models / "half_plus_two" / "00000123", base / "1")
    entries = [
        config_text({"m": str(base)}, log),
        config_text({"op": str(op_model)}),
        config_text({"words": str(table)}).replace('"tensorflow"', f'"{SERVABLE}"'),
    ]
    start = "model_config_list {\n"
    inner = "".join(one.removeprefix(start).removesuffix("}\n") for one in entries)
    (folder / "config").write_text(start + inner + "}\n")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    running = Server(
        folder / "log",
        f"--model_config_file={folder / 'config'}",
        f"--servable={SERVABLE}",
        f"--load_op_library={op_library}",
        f"--request_log_dir={folder / 'requests'}",
    )
    monkeypatch.undo()
    running.folder = folder
    try:
        running.wait_until_ready()
        yield running
    finally:
        assert running.stop() == 0


# ---------------------------------------------------------------- operations


def test_a_model_with_an_operation_of_ones_own_is_served(server: Server) -> None:
    response = server.prediction.Predict(predict_request("op", x=np.int32([3, 4, 5])), timeout=20)
    np.testing.assert_allclose(response.outputs["y"].float_val, [6.0, 0.0, 0.0], atol=1e-3)
    answer = server.post("/v1/models/op:predict", {"inputs": [7, 1]}).json()
    np.testing.assert_allclose(answer["outputs"], [14.0, 0.0], atol=1e-3)


def test_a_model_whose_operation_is_missing_says_which(op_model: Path, tmp_path: Path) -> None:
    (version,) = op_model.iterdir()
    other = tmp_path / "1"
    shutil.copytree(version, other)
    graph = (other / "saved_model.pb").read_bytes()
    assert b"ZeroOut" in graph
    (other / "saved_model.pb").write_bytes(graph.replace(b"ZeroOut", b"OneOut2"))

    async def load() -> None:
        flags = Flags(model_base_path=str(tmp_path), max_num_load_retries=0)
        manager = Manager(flags)
        settings = model_config.from_flags(flags)
        try:
            await manager.reload(settings)
        finally:
            await manager.stop()

    with pytest.raises(StatusError) as caught:
        asyncio.run(load())
    assert "The model uses the operation 'OneOut2', which neither TensorFlow" in caught.value.text
    assert "--load_op_library=PATH" in caught.value.text


def test_libraries_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        custom_ops.load([str(tmp_path / "nothing.so")])
    (tmp_path / "bad.so").write_bytes(b"no library")
    with pytest.raises(ConfigError, match=r"bad\.so cannot be loaded: .*get_compile_flags"):
        custom_ops.load([str(tmp_path / "bad.so")])


# ---------------------------------------------------------------- servables


def test_a_servable_answers_predict_rest_and_metadata(server: Server) -> None:
    request = predict_request("words", word=["car", "cat"])
    response = server.prediction.Predict(request, timeout=20)
    np.testing.assert_array_equal(
        tf.make_ndarray(response.outputs["vector"]), [[0.0, 1.0], [1.0, 0.0]]
    )
    assert response.model_spec.version.value == 1
    body = {"signature_name": "nearest", "instances": ["cat", "dog"]}
    found = server.post("/v1/models/words:predict", body).json()["predictions"]
    assert [row["neighbour"] for row in found] == ["dog", "cat"]
    metadata = server.get("/v1/models/words/metadata").json()["metadata"]["signature_def"]
    inputs = metadata["signature_def"]["nearest"]["inputs"]
    assert inputs["word"]["dtype"] == "DT_STRING"


def test_what_a_servable_refuses_is_the_clients_fault(server: Server) -> None:
    answer = server.post("/v1/models/words:predict", {"instances": ["bird"]})
    assert answer.status_code == 400
    assert answer.json()["error"] == "ValueError: 'bird' is not in the table"
    with pytest.raises(grpc.RpcError) as caught:
        server.prediction.Predict(predict_request("words", word=[1.0]), timeout=20)
    assert caught.value.details() == "Expects arg[0] to be string but float is provided"


def test_a_new_version_of_a_servable_takes_over_and_a_bad_one_does_not(
    server: Server, table: Path
) -> None:
    import embedding_servable

    embedding_servable.write_table(table / "2", {"cat": [5.0, 5.0]})
    server.wait_for_version("words", 2)
    answer = server.post("/v1/models/words:predict", {"instances": ["cat"]}).json()
    assert answer == {"predictions": [[5.0, 5.0]]}
    embedding_servable.write_table(table / "unfinished", {"cat": [1.0, 1.0]})
    (table / "unfinished" / "words.txt").write_text("cat dog")
    (table / "unfinished").rename(table / "3")
    told = "/3 has 2 words and 1 vectors"
    status = "/v1/models/words/versions/3"
    server.wait_until(lambda: told in server.get(status).text)
    assert server.post("/v1/models/words:predict", {"instances": ["cat"]}).json() == answer


class Life(est.serving.CustomServable):
    """Notes what happens to it."""

    seen: list[str] = []  # noqa: RUF012

    @classmethod
    def load(cls, directory: str) -> Life:
        cls.seen.append(f"load {directory}")
        return cls()

    def signatures(self):
        spec = tf.TensorSpec([None], tf.float32)
        return {
            "serving_default": est.serving.ServableSignature({"x": spec}, {"y": spec, "z": spec}),
        }

    def warm_up(self) -> None:
        self.seen.append("warm up")

    def call(self, signature, inputs):
        return {"y": inputs["x"] * 2}

    def unload(self) -> None:
        self.seen.append("unload")


def test_the_life_of_a_servable() -> None:
    Life.seen.clear()
    adapter = CustomAdapter("/models/life/1", Life)
    adapter.prepare()
    signature = adapter.signatures["serving_default"]
    x, y, z = signature.inputs["x"], signature.outputs["y"], signature.outputs["z"]
    program = adapter.program([x], [y])
    assert not program.may_batch  # it did not say that its rows are independent
    (found,) = program.run([np.float32([1.5])])
    assert found.tolist() == [3.0]
    with pytest.raises(StatusError, match="has no output 'z'; it has: y"):
        adapter.program([x], [y, z]).run([np.float32([1.5])])
    adapter.close()
    assert Life.seen == ["load /models/life/1", "warm up", "unload"]


class Both(Life):
    def signatures(self):
        spec = tf.TensorSpec([None], tf.float32)
        one = est.serving.ServableSignature({"x": spec}, {"y": spec})
        return {"twice": one, "thrice": one}

    def call(self, signature, inputs):
        return {"y": inputs["x"] * (2 if signature == "twice" else 3)}


def test_two_signatures_of_a_servable_in_one_run() -> None:
    adapter = CustomAdapter("/models/life/1", Both)
    twice, thrice = (adapter.signatures[name] for name in ("twice", "thrice"))
    inputs = [twice.inputs["x"], thrice.inputs["x"]]
    program = adapter.program(inputs, [thrice.outputs["y"], twice.outputs["y"]])
    found = program.run([np.float32([1.0]), np.float32([10.0])])
    assert [one.tolist() for one in found] == [[30.0], [2.0]]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", "write it as module:Class"),
        ("no_such_module:Thing", "cannot be imported: No module named"),
        ("json:Thing", "cannot be imported: module 'json' has no attribute"),
        ("json:JSONDecoder", "has to be a class derived from"),
    ],
)
def test_servables_that_cannot_be_used(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        find_class(name)


def test_a_configuration_cannot_name_a_class_that_the_flags_do_not_allow() -> None:
    message = model_server_config_pb2.ModelServerConfig()
    text = config_text({"m": "/m"}).replace('"tensorflow"', '"os:system"')
    text_format.Parse(text, message)
    with pytest.raises(StatusError, match="which this server does not have; it has: tensorflow"):
        model_config.from_message(message, Flags())


# ---------------------------------------------------------------- logs of requests


def read_logs(folder: Path) -> list[prediction_log_pb2.PredictionLog]:
    files = sorted(map(str, folder.rglob("*.tfrecord")))
    records = tf.data.TFRecordDataset(files).as_numpy_iterator() if files else ()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


def test_logged_requests_warm_up_the_next_version(server: Server) -> None:
    server.prediction.Predict(predict_request("m", x=np.float32([2.0])), timeout=20)
    server.post("/v1/models/m:predict", {"instances": [4.0]})
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "m", "classify_x_to_y"
    request.input.example_list.examples.append(example(x=1.0))
    server.prediction.Classify(request, timeout=20)
    body = {"signature_name": "regress_x_to_y", "examples": [{"x": 6.0}]}
    server.post("/v1/models/m:regress", body)
    server.post("/v1/models/words:predict", {"instances": ["cat"]})  # has no logging_config
    folder = server.folder / "requests" / "logs"
    server.wait_until(lambda: folder.exists() and len(read_logs(folder)) == 4)

    grpc_one, rest_one, classified, regressed = read_logs(folder)
    assert tf.make_ndarray(grpc_one.predict_log.request.inputs["x"]).tolist() == [2.0]
    assert grpc_one.predict_log.response.outputs["y"].float_val == [3.0]
    assert tf.make_ndarray(rest_one.predict_log.request.inputs["x"]).tolist() == [4.0]
    assert tf.make_ndarray(rest_one.predict_log.response.outputs["y"]).tolist() == [4.0]
    assert classified.classify_log.response.result.classifications[0].classes[0].score == 2.5
    assert regressed.regress_log.response.result.regressions[0].value == 5.0
    assert regressed.log_metadata.model_spec.version.value == 1
    metrics = server.get("/monitoring/prometheus/metrics").text
    assert ':tensorflow:serving:request_log_count{model_name="m",status="OK"} 4' in metrics

    (file,) = folder.iterdir()
    assert file.name.startswith("half-")
    new = server.folder / "m" / "temp-2"
    shutil.copytree(server.folder / "m" / "1", new)
    (new / "assets.extra").mkdir()
    shutil.copy(file, new / "assets.extra" / "tf_serving_warmup_requests")
    new.rename(server.folder / "m" / "2")
    server.wait_for_version("m", 2)
