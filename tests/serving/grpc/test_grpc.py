"""The gRPC services, through the real client over a real socket."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.serving.running import Server, example, predict_request


def refused(call, request) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=20)
    return caught.value.code().name, caught.value.details()


def half(*values: float) -> predict_pb2.PredictRequest:
    return predict_request("half_plus_two", x=np.float32(values))


# ---------------------------------------------------------------- Predict


def test_predict_answers_typed_values_and_the_resolved_model_spec(server: Server) -> None:
    response = server.prediction.Predict(half(2.0), timeout=20)
    assert list(response.outputs["y"].float_val) == [3.0]
    assert response.model_spec.name == "half_plus_two"
    assert response.model_spec.version.value == 123
    assert response.model_spec.signature_name == "serving_default"


def test_predict_feeds_a_vector_where_the_signature_says_matrix(server: Server) -> None:
    response = server.prediction.Predict(half(2.0, 4.0, 6.0), timeout=20)
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), [3.0, 4.0, 5.0])


def test_predict_takes_values_as_content_and_a_single_value_for_all(server: Server) -> None:
    request = half()
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([[8.0], [10.0]])))
    assert request.inputs["x"].tensor_content
    response = server.prediction.Predict(request, timeout=20)
    assert list(response.outputs["y"].float_val) == [6.0, 7.0]
    one = tf.make_tensor_proto([4.0], shape=[3, 1])
    assert len(one.float_val) == 1
    request.inputs["x"].CopyFrom(one)
    response = server.prediction.Predict(request, timeout=20)
    assert list(response.outputs["y"].float_val) == [4.0, 4.0, 4.0]


def test_predict_of_a_version_by_number(server: Server) -> None:
    request = half(2.0)
    request.model_spec.version.value = 123
    assert server.prediction.Predict(request, timeout=20).outputs["y"].float_val[0] == 3.0
    request.model_spec.version.value = 7
    assert refused(server.prediction.Predict, request) == (
        "NOT_FOUND",
        "Servable not found for request: Specific(half_plus_two, 7)",
    )


def test_output_filter_chooses_outputs(server: Server) -> None:
    request = predict_request("two_inputs", a=np.float32([2]), b=np.float32([5]))
    assert set(server.prediction.Predict(request, timeout=20).outputs) == {"sum", "product"}
    request.output_filter.append("product")
    response = server.prediction.Predict(request, timeout=20)
    assert {k: list(v.float_val) for k, v in response.outputs.items()} == {"product": [10.0]}


def test_every_kind_of_tensor_comes_back_as_it_went(server: Server) -> None:
    sent = {
        "f32": np.float32([[1.5, -2], [np.inf, 0]]),
        "f64": np.float64(1e300),
        "i32": np.int32([-5, 2**31 - 1]),
        "i64": np.int64([[-(2**63)], [2**63 - 1]]),
        "u8": np.uint8([0, 255]),
        "bool": np.array([[True], [False]]),
        "text": np.array([b"", b"\xff\x00", "\u00e4".encode()], object),
    }
    response = server.prediction.Predict(predict_request("types", **sent), timeout=20)
    for key, array in sent.items():
        back = tf.make_ndarray(response.outputs[f"{key}_out"])
        np.testing.assert_array_equal(back, array)
        assert back.shape == array.shape


def test_predict_over_a_unix_socket(server: Server) -> None:
    with grpc.insecure_channel(f"unix:{server.socket}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert stub.Predict(half(2.0), timeout=20).outputs["y"].float_val[0] == 3.0


def test_a_large_request_of_many_rows(server: Server) -> None:
    values = np.arange(600_000, dtype=np.float32).reshape(-1, 1)
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        response = stub.Predict(predict_request("half_plus_two", x=values), timeout=30)
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), values / 2 + 2)


def test_a_deadline_ends_a_slow_request(server: Server) -> None:
    request = predict_request("slow", x=np.float32([1]))
    with pytest.raises(grpc.RpcError) as caught:
        server.prediction.Predict(request, timeout=0.05)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.prediction.Predict(request, timeout=20).outputs["y"].float_val[0] == 2.0


BAD = {
    "no spec": (predict_pb2.PredictRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no name": (predict_request(""), "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "unknown model": (
        predict_request("nobody"),
        "NOT_FOUND",
        "Servable not found for request: Latest(nobody)",
    ),
    "unknown signature": (
        predict_request("half_plus_two", "s", x=np.float32([1])),
        "FAILED_PRECONDITION",
        'Serving signature key "s" not found.',
    ),
    "missing input": (
        predict_request("two_inputs", a=np.float32([1])),
        "INVALID_ARGUMENT",
        "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. "
        "Missing but required: {b}.",
    ),
    "other input": (
        predict_request("half_plus_two", z=np.float32([1])),
        "INVALID_ARGUMENT",
        "Signature input alias: x(feed name: x:0) not found in request and no default value "
        "provided. Inputs expected to be in the set {x}.",
    ),
    "other type": (
        predict_request("half_plus_two", x=[b"a"]),
        "INVALID_ARGUMENT",
        "Expects arg[0] to be float but string is provided",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_predict_refuses(server: Server, case: str) -> None:
    request, code, text = BAD[case]
    assert refused(server.prediction.Predict, request) == (code, text)


def test_predict_refuses_a_tensor_that_does_not_parse(server: Server) -> None:
    request = half(1.0)
    request.inputs["x"].tensor_content = b"123"
    expected = ("INVALID_ARGUMENT", "tensor parsing error: x")
    assert refused(server.prediction.Predict, request) == expected


def test_predict_refuses_a_value_blown_up_by_its_shape(server: Server) -> None:
    request = half(1.0)
    del request.inputs["x"].tensor_shape.dim[:]
    request.inputs["x"].tensor_shape.dim.add(size=2**40)
    expected = ("INVALID_ARGUMENT", "tensor parsing error: x")
    assert refused(server.prediction.Predict, request) == expected


def test_predict_refuses_wrong_outputs(server: Server) -> None:
    request = half(1.0)
    request.output_filter.append("z")
    assert refused(server.prediction.Predict, request) == (
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: z Outputs expected to be in the set {y}.",
    )
    request.output_filter[:] = ["y", "y"]
    assert refused(server.prediction.Predict, request) == (
        "INVALID_ARGUMENT",
        "duplicate output tensor alias: y",
    )


def test_a_shape_the_graph_refuses_is_an_invalid_argument(server: Server) -> None:
    request = predict_request("two_inputs", a=np.float32([1, 2]), b=np.float32([1, 2, 3]))
    code, text = refused(server.prediction.Predict, request)
    assert code == "INVALID_ARGUMENT"
    assert "2" in text and "3" in text


def test_bytes_that_are_no_message_leave_the_server_well(server: Server) -> None:
    call = server.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\xff\xff\xff\xff", timeout=20)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert server.prediction.Predict(half(2.0), timeout=20).outputs["y"].float_val[0] == 3.0


# ---------------------------------------------------------------- Classify, Regress, MultiInference


def infer_request(kind, model: str, signature: str, *examples: tf.train.Example):
    request = kind()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    request.input.example_list.examples.extend(examples)
    return request


def test_classify(server: Server) -> None:
    request = infer_request(
        classification_pb2.ClassificationRequest,
        "half_plus_two",
        "classify_x_to_y",
        example(x=2.0),
        example(x=4.0),
    )
    response = server.prediction.Classify(request, timeout=20)
    scores = [row.classes[0].score for row in response.result.classifications]
    assert scores == [3.0, 4.0]
    assert response.model_spec.signature_name == "classify_x_to_y"
    assert response.model_spec.version.value == 123


def test_regress_with_a_context(server: Server) -> None:
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = "half_plus_two"
    request.model_spec.signature_name = "regress_x_to_y"
    given = request.input.example_list_with_context
    given.context.CopyFrom(example(x=6.0))
    given.examples.extend([tf.train.Example(), example(x=2.0)])
    response = server.prediction.Regress(request, timeout=20)
    assert [one.value for one in response.result.regressions] == [5.0, 3.0]


def test_our_own_export_classifies_as_it_predicts(server: Server) -> None:
    given = example(x=0.5)
    request = infer_request(classification_pb2.ClassificationRequest, "classifier", "", given)
    response = server.prediction.Classify(request, timeout=20)
    classes = response.result.classifications[0].classes
    assert [one.label for one in classes] == ["0", "1"]
    predict = predict_request("classifier", "predict", examples=[given.SerializeToString()])
    outputs = server.prediction.Predict(predict, timeout=20).outputs
    np.testing.assert_allclose(
        [one.score for one in classes], outputs["probabilities"].float_val, rtol=1e-6
    )


def multi_request(
    *tasks: tuple[str, str], model: str = "half_plus_two"
) -> inference_pb2.MultiInferenceRequest:
    request = inference_pb2.MultiInferenceRequest()
    for method, signature in tasks:
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name = model
        task.model_spec.signature_name = signature
    request.input.example_list.examples.append(example(x=2.0))
    return request


def test_multi_inference(server: Server) -> None:
    tasks = ("regress", "regress_x_to_y"), ("classify", "classify_x_to_y")
    results = server.prediction.MultiInference(multi_request(*tasks), timeout=20).results
    assert results[0].regression_result.regressions[0].value == 3.0
    assert results[1].classification_result.classifications[0].classes[0].score == 3.0
    assert results[1].model_spec.signature_name == "classify_x_to_y"


def test_multi_inference_gives_each_input_tensor_the_same_examples(server: Server) -> None:
    request = multi_request(("regress", "regress"), ("classify", "classify"), model="two_heads")
    request.input.example_list.examples.append(example(x=5.0))
    regressed, classified = server.prediction.MultiInference(request, timeout=20).results
    assert [one.value for one in regressed.regression_result.regressions] == [3.0, 6.0]
    rows = classified.classification_result.classifications
    assert [row.classes[0].score for row in rows] == [4.0, 10.0]
    assert regressed.model_spec.signature_name == "regress"
    assert classified.model_spec.signature_name == "classify"


def test_multi_inference_refuses(server: Server) -> None:
    same = multi_request(("regress", "regress_x_to_y"), ("regress", "regress_x_to_y"))
    call = server.prediction.MultiInference
    expected = ("INVALID_ARGUMENT", "Duplicate evaluation of signature: regress_x_to_y")
    assert refused(call, same) == expected
    expected = ("UNIMPLEMENTED", "Unsupported signature method_name: tensorflow/serving/predict")
    assert refused(call, multi_request(("predict", "regress_x_to_y"))) == expected
    expected = ("INVALID_ARGUMENT", "Requested signature not found in model graph: s")
    assert refused(call, multi_request(("regress", "s"))) == expected


def test_classify_and_regress_refuse(server: Server) -> None:
    kind = classification_pb2.ClassificationRequest
    empty = infer_request(kind, "half_plus_two", "classify_x_to_y")
    call = server.prediction.Classify
    assert refused(call, empty) == ("INVALID_ARGUMENT", "Input is empty.")
    unknown = infer_request(kind, "half_plus_two", "s", example(x=1.0))
    expected = ("INVALID_ARGUMENT", "No signature was found with the name: s")
    assert refused(call, unknown) == expected
    two = infer_request(kind, "two_inputs", "", example(x=1.0))
    assert refused(call, two) == ("INVALID_ARGUMENT", "Expected one input Tensor.")
    predict = infer_request(kind, "half_plus_two", "", example(x=1.0))
    code, text = refused(call, predict)
    assert code == "INVALID_ARGUMENT"
    assert text.startswith("No classification inputs found in SignatureDef: ")


# ---------------------------------------------------------------- metadata, status, health


def test_model_metadata_is_the_signatures(server: Server) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "half_plus_two"
    request.metadata_field.append("signature_def")
    response = server.prediction.GetModelMetadata(request, timeout=20)
    assert response.model_spec.version.value == 123
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["serving_default"].inputs["x"].name == "x:0"
    assert {"regress_x_to_y", "classify_x_to_y"} <= set(signatures.signature_def)
    request.metadata_field[:] = ["weights"]
    expected = ("INVALID_ARGUMENT", "Metadata field weights is not supported")
    assert refused(server.prediction.GetModelMetadata, request) == expected


def status_of(server: Server, model: str, version: int | None = None):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = model
    if version is not None:
        request.model_spec.version.value = version
    return server.model.GetModelStatus(request, timeout=20).model_version_status


def test_model_status(server: Server) -> None:
    (status,) = status_of(server, "half_plus_two")
    assert (status.version, status.state, status.status.error_code) == (123, 30, 0)
    with pytest.raises(grpc.RpcError, match="Could not find version 7 of model half_plus_two"):
        status_of(server, "half_plus_two", 7)
    with pytest.raises(grpc.RpcError, match="Could not find any versions of model nobody"):
        status_of(server, "nobody")


def test_a_version_that_fails_to_load_is_reported_with_its_error(server: Server) -> None:
    server.wait_for_version("broken", 1, "END")
    (status,) = status_of(server, "broken")
    assert status.state == 50
    assert status.status.error_code != 0
    assert status.status.error_message


def test_health_tells_that_a_model_is_missing(server: Server) -> None:
    stub = health_pb2_grpc.HealthStub(server.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service="PredictionService"), timeout=20)
    assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert server.get("/readyz").status_code == 503
