"""est.serving.Client: the same over both protocols."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import InputError
from estimand.export.loaded.arrays import TensorInfo
from estimand.serving.client.errors import RequestError
from estimand.serving.client.values import RemoteSignature, VersionStatus
from tests.serving.running import Server, example, free_port


@pytest.fixture(scope="module", params=["grpc", "rest"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[est.serving.Client]:
    port = server.port if request.param == "grpc" else server.rest_port
    with est.serving.Client(f"127.0.0.1:{port}", request.param) as made:
        yield made


def test_arrays_in_and_out(client) -> None:
    found = client.predict("two_inputs", {"a": np.float32([1, 2]), "b": np.float32([3, 4])})
    assert {name: array.tolist() for name, array in found.items()} == {
        "product": [3.0, 8.0],
        "sum": [4.0, 6.0],
    }
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}


def test_over_rest_nothing_of_tensorflow_is_imported(server: Server) -> None:
    """It takes seconds, and half a gigabyte: a web shop that asks a model wants neither."""
    program = (
        "import sys, numpy as np, estimand as est\n"
        f"with est.serving.Client('http://127.0.0.1:{server.rest_port}') as client:\n"
        "    print(client.predict('half_plus_two', np.float32([2.0]))['y'].tolist())\n"
        "print('tensorflow' in sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == ["[[3.0]]", "False"], ended.stderr


def test_values_become_what_the_model_takes(client) -> None:
    # Integers for a float input, and one number a row for a matrix with one column.
    assert client.predict("half_plus_two", [2, 4])["y"].tolist() == [[3.0], [4.0]]


def test_every_kind_of_array_comes_back_as_it_went(client) -> None:
    given = {
        "f32": np.float32([0.1, np.nan]),
        "f64": np.float64([1e300, -0.5]),
        "i32": np.int32([[1, -2]]),
        "i64": np.int64([2**53 + 1]),
        "u8": np.uint8([0, 255]),
        "bool": np.array([True, False]),
        "text": np.array(["é".encode(), b""], object),
    }
    found = client.predict("types", given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[f"{name}_out"], array)
        assert found[f"{name}_out"].dtype == array.dtype


@pytest.mark.parametrize(
    "given",
    [
        tf.SparseTensor([[0, 0], [0, 1], [2, 0]], np.int64([7, 8, 9]), [3, 2]),
        [[7, 8], [], [9]],
    ],
    ids=["sparse tensor", "rows"],
)
def test_sparse_inputs_and_outputs(client, given) -> None:
    found = client.predict("sparse", {"ids": given})
    assert found["sum"].tolist() == [15, 0, 9]
    assert tf.sparse.to_dense(found["twice"]).numpy().tolist() == [[14, 16], [0, 0], [18, 0]]
    assert client.predict("sparse", given, outputs=["sum"]).keys() == {"sum"}


def test_rows_of_different_lengths_are_refused(client) -> None:
    with pytest.raises(InputError, match="no rectangular array"):
        client.predict("half_plus_two", [[1.0], [1.0, 2.0]])


def test_a_model_that_is_on_its_way_is_waited_for(server: Server) -> None:
    with est.serving.Client(
        f"127.0.0.1:{server.port}", retries=est.serving.Retries(first_pause=0.001)
    ) as client:
        states = ["START", "LOADING", "LOADING"]
        predict, told = client._transport.predict, client._transport.status

        def not_there_yet(*arguments):
            if states:
                raise RequestError("NOT_FOUND", "Servable not found for request: Latest(m)")
            return predict(*arguments)

        def status(which, timeout):
            return [VersionStatus(1, states.pop(0))] if states else told(which, timeout)

        client._transport.predict, client._transport.status = not_there_yet, status
        assert client.predict("half_plus_two", [2.0])["y"].tolist() == [[3.0]]


def test_single_values_without_rows(client) -> None:
    kinds = {"f32": 0.5, "f64": 0.25, "i32": 1, "i64": 2, "u8": 3, "bool": True, "text": b"one"}
    found = client.predict("types", kinds)
    assert {name.removesuffix("_out"): array.item() for name, array in found.items()} == kinds
    assert {array.shape for array in found.values()} == {()}


def test_bytes_that_are_no_text(client) -> None:
    found = client.predict("bytes", {"image": [b"\xff\x00\xfe"]})
    assert found["image_bytes"].tolist() == [b"\xff\x00\xfe"]


def test_some_outputs(client) -> None:
    inputs = {"a": [1.0], "b": [2.0]}
    assert list(client.predict("two_inputs", inputs, outputs=["sum"])) == ["sum"]
    with pytest.raises(est.serving.RequestError, match="output tensor alias not found") as caught:
        client.predict("two_inputs", inputs, outputs=["total"])
    assert caught.value.code == "INVALID_ARGUMENT"


def test_a_frame_gives_a_frame_with_its_index(client) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.0], "name": ["x", "y"]}, index=[7, 9])
    found = client.predict("two_inputs", frame)
    expected = pd.DataFrame({"product": [0.5, 2.0], "sum": [1.5, 3.0]}, index=[7, 9])
    pd.testing.assert_frame_equal(found, expected.astype("float32"))


def test_a_frame_becomes_examples_of_the_types_that_the_model_wants(client) -> None:
    # "x" is a float feature: the export says so, whatever the column looks like.
    found = client.predict("classifier", pd.DataFrame({"x": [1, -1]}))
    by_rows = client.predict("classifier", [{"x": 1.0}, {"x": -1.0}])
    assert found["classes"].tolist() == [["0", "1"], ["0", "1"]]
    np.testing.assert_allclose(np.stack(found["scores"]), by_rows["scores"])
    assert by_rows["scores"][0, 1] > 0.5 > by_rows["scores"][1, 1]


def test_classify_and_regress(client) -> None:
    (row,) = client.classify("classifier", [{"x": 1}])
    assert [label for label, _ in row] == ["0", "1"]
    assert sum(score for _, score in row) == pytest.approx(1.0)
    best = client.classify("classifier", pd.DataFrame({"x": [1.0, -1.0]}, index=[3, 4]))
    assert best["label"].to_dict() == {3: "1", 4: "0"}
    signature = "regress_x_to_y"
    given = [example(x=1.0), example(x=2.0).SerializeToString(), {"x": 3.0}]
    found = client.regress("half_plus_two", given, signature=signature)
    assert found.tolist() == [2.5, 3.0, 3.5]
    frame = client.regress("half_plus_two", pd.DataFrame({"x": [1.0]}), signature=signature)
    assert frame.to_dict("list") == {"value": [2.5]}


def test_status_metadata_and_models(client) -> None:
    (status,) = client.status("half_plus_two")
    assert (status.version, status.state, status.error) == (123, "AVAILABLE", "")
    (failed,) = client.status("broken")
    assert failed.state == "END"
    assert "saved_model.pb" in failed.error
    signature = client.metadata("two_inputs")["serving_default"]
    assert str(signature) == (
        "signature 'serving_default' takes a (float32, [?]), b (float32, [?]) and answers "
        "product (float32, [?]), sum (float32, [?])"
    )
    assert {"half_plus_two", "broken", "classifier"} <= set(client.models())


def test_versions_and_labels(client) -> None:
    assert client.predict("half_plus_two", [0.0], version=123)["y"].tolist() == [[2.0]]
    with pytest.raises(est.serving.ModelNotFoundError, match=r"no version 7.*version 123: AVAIL"):
        client.predict("half_plus_two", [0.0], version=7)
    with pytest.raises(est.serving.RequestError, match="Unrecognized servable version label"):
        client.predict("half_plus_two", [0.0], label="stable")
    with pytest.raises(InputError, match="Give one of them"):
        client.predict("half_plus_two", [0.0], label="stable", version=1)


def test_a_model_that_is_not_there_is_told_with_those_that_are(client) -> None:
    with pytest.raises(LookupError, match=r"no model 'half'.*'half_plus_two'") as caught:
        client.predict("half", [0.0])
    assert caught.value.code == "NOT_FOUND"
    with pytest.raises(est.serving.ModelNotFoundError, match=r"version 1: END .*saved_model.pb"):
        client.predict("broken", [0.0])


@pytest.mark.parametrize(
    "given",
    [{"a": [1.0], "c": [1.0]}, [{"a": 1.0, "c": 1.0}], pd.DataFrame({"a": [1.0], "c": [1.0]})],
    ids=["dict", "rows", "frame"],
)
def test_wrong_names_are_told_with_the_signature(client, given) -> None:
    with pytest.raises(
        InputError, match=r"lacks \['b'\].*takes a \(float32, \[\?\]\), b"
    ) as caught:
        client.predict("two_inputs", given)
    assert ("unknown ['c']" in str(caught.value)) == isinstance(given, dict)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"a": ["x"], "b": [1.0]}, "'a' takes float32, but was given strings"),
        ({"a": [[1.0]], "b": [1.0]}, r"'a' takes arrays of shape \[\?\]"),
        ([1.0], "2 inputs: give a dict"),
    ],
)
def test_values_that_do_not_fit_are_not_sent(client, given, told: str) -> None:
    with pytest.raises(InputError, match=told):
        client.predict("two_inputs", given)


def test_features_that_the_model_does_not_know(client) -> None:
    with pytest.raises(InputError, match=r"none of the features .*x \(float32, \[\?, 1\]\)"):
        client.predict("classifier", [{"y": 1.0}])
    with pytest.raises(InputError, match=r"no signature 'z'. It has: .*'serving_default'"):
        client.predict("classifier", [{"x": 1.0}], signature="z")


def test_a_slow_answer_is_a_timeout(client) -> None:
    client.predict("slow", [1.0])
    with pytest.raises(TimeoutError) as caught:
        client.predict("slow", [1.0], timeout=0.1)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert client.predict("slow", [1.0])["y"].tolist() == [2.0]


def test_threads_share_a_client_and_each_gets_its_own_answer(client) -> None:
    def ask(number: int) -> bool:
        found = client.predict("half_plus_two", [float(number)])["y"]
        return found.tolist() == [[number / 2 + 2]]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(64)))


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "http://127.0.0.1:{}"])
def test_nobody_there(address: str) -> None:
    retries = est.serving.Retries(attempts=2, first_pause=0.0)
    at = address.format(free_port())
    with (
        est.serving.Client(at, retries=retries) as client,
        pytest.raises(ConnectionError, match=f"No model server answers at {at}"),
    ):
        client.status("m")


def test_the_port_of_the_other_protocol(server: Server) -> None:
    once = est.serving.Retries(attempts=1)
    for address, told in (
        (f"127.0.0.1:{server.rest_port}", f"write http://127.0.0.1:{server.rest_port}"),
        (f"http://127.0.0.1:{server.port}", f"For gRPC, write 127.0.0.1:{server.port}"),
    ):
        with (
            est.serving.Client(address, retries=once) as client,
            pytest.raises(ConnectionError, match=told),
        ):
            client.models()


class OtherServer:
    """Answers HTTP requests with what it was told, one connection after another."""

    def __init__(self, *answers: bytes) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.asked: list[bytes] = []
        self._thread = threading.Thread(target=self._run, args=(answers,))
        self._thread.start()

    def _run(self, answers: tuple[bytes, ...]) -> None:
        for answer in answers:
            connection, _ = self._listening.accept()
            with connection:
                self.asked.append(connection.recv(65536))
                connection.sendall(answer)

    def __enter__(self) -> OtherServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join(10)
        self._listening.close()


def http_answer(code: int, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n%s\r\n%s" % (
        code,
        len(body),
        more,
        body,
    )


STATUS = b'{"model_version_status": []}'


def test_a_busy_server_is_asked_again_and_the_key_goes_along() -> None:
    busy = http_answer(429, b'{"error": "too many"}')
    with OtherServer(busy, http_answer(200, STATUS)) as other:
        retries = est.serving.Retries(first_pause=0.0)
        with est.serving.Client(other.address, retries=retries, api_key="sesame") as client:
            assert client.status("m") == []
    assert len(other.asked) == 2
    assert all(b"authorization: bearer sesame" in one.lower() for one in other.asked)
    assert "sesame" not in repr(client)


def test_a_refusal_is_not_asked_again() -> None:
    with (
        OtherServer(http_answer(401, b'{"error": "Who are you?"}')) as other,
        est.serving.Client(other.address) as client,
        pytest.raises(est.serving.RequestError, match="UNAUTHENTICATED: Who are you"),
    ):
        client.status("m")
    assert len(other.asked) == 1


def test_a_server_that_is_no_model_server() -> None:
    with (
        OtherServer(http_answer(200, b"<html>")) as other,
        est.serving.Client(other.address) as client,
        pytest.raises(est.serving.RequestError, match="does not answer as a model server"),
    ):
        client.status("m")


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    keeps = http_answer(200, STATUS).replace(b"connection: close\r\n", b"")
    with OtherServer(keeps, keeps) as other:
        once = est.serving.Retries(attempts=1)
        with est.serving.Client(other.address, retries=once) as client:
            assert client.status("m") == client.status("m") == []
    assert len(other.asked) == 2


class ChangingServer:
    """A transport to a model whose new version takes another input."""

    def __init__(self, *inputs: str) -> None:
        self._inputs = list(inputs)
        self.asked: list[str] = []

    def metadata(self, which, timeout: float) -> dict[str, RemoteSignature]:
        self.asked.append("metadata")
        name = self._inputs.pop(0) if len(self._inputs) > 1 else self._inputs[0]
        info = TensorInfo(name, "float32", (None,), f"{name}:0")
        out = TensorInfo("y", "float32", (None,), "y:0")
        return {"serving_default": RemoteSignature("serving_default", "", {name: info}, {"y": out})}

    def predict(self, which, inputs, outputs, signature, timeout) -> dict[str, np.ndarray]:
        self.asked.append(f"predict {','.join(inputs)}")
        if list(inputs) != self._inputs[:1]:
            raise est.serving.RequestError("INVALID_ARGUMENT", "no such input")
        return {"y": inputs[self._inputs[0]]}

    def close(self) -> None:
        pass


def asking(server: ChangingServer) -> est.serving.Client:
    client = est.serving.Client("localhost")
    client.close()
    client._transport = server
    return client


def test_the_signature_is_asked_for_once() -> None:
    server = ChangingServer("a")
    client = asking(server)
    for _ in range(3):
        client.predict("m", [1.0])
    assert server.asked == ["metadata", "predict a", "predict a", "predict a"]


def test_a_new_version_with_another_input_is_noticed() -> None:
    server = ChangingServer("a", "b", "b")
    client = asking(server)
    with pytest.raises(est.serving.RequestError):  # the server is ahead of what it told
        client.predict("m", {"a": [1.0]})
    assert client.predict("m", {"b": [2.0]})["y"].tolist() == [2.0]
    assert server.asked[-2:] == ["metadata", "predict b"]


def test_an_error_that_a_new_look_does_not_explain_is_raised() -> None:
    server = ChangingServer("a")
    client = asking(server)
    client.predict("m", [1.0])
    with pytest.raises(InputError, match=r"lacks \['a'\] and has unknown \['b'\]"):
        client.predict("m", {"b": [1.0]})
    assert server.asked == ["metadata", "predict a", "metadata"]
