"""Our client over gRPC, with TensorFlow Serving's messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from google.protobuf.wrappers_pb2 import StringValue
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from estimand.core.errors import ConfigError
from estimand.serving.client.address import Address, Security
from estimand.serving.client.errors import (
    START_ONE,
    DeadlineError,
    RequestError,
    ServerUnreachableError,
    closed_client,
)
from estimand.serving.client.tls import way_out
from estimand.serving.client.values import RemoteSignature, SignatureAddress, VersionStatus
from estimand.serving.protos import tensors
from estimand.serving.status import NAMES

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),  # ours know the deadline
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
_PREDICTION = "/tensorflow.serving.PredictionService/"
_MODEL = "/tensorflow.serving.ModelService/"
_OWN = "/estimand.serving.ModelService/"


class GrpcTransport:
    def __init__(self, address: Address, security: Security) -> None:
        self._address = address
        self._security = security
        bearer = security.bearer
        self._metadata = (("authorization", bearer),) if bearer else ()
        if address.tls:
            credentials = grpc.ssl_channel_credentials(
                _read(security.ca_file), _read(security.key_file), _read(security.cert_file)
            )
            self._channel = grpc.secure_channel(address.target, credentials, _OPTIONS)
        else:
            self._channel = grpc.insecure_channel(address.target, _OPTIONS)
        self._methods = {
            kind: self._channel.unary_unary(path, kind.SerializeToString, answer.FromString)
            for kind, (path, answer) in _METHODS.items()
        }

    def predict(
        self,
        which: SignatureAddress,
        inputs: dict[str, np.ndarray],
        outputs: list[str] | None,
        signature: RemoteSignature,
        timeout: float,
    ) -> dict[str, np.ndarray]:
        request = predict_pb2.PredictRequest(output_filter=outputs or ())
        _specify(request.model_spec, which)
        for name, array in inputs.items():
            request.inputs[name].MergeFromString(tensors.encode(array, as_content=True))
        answer = self._call(request, timeout)
        return {name: tensors.decode(answer.outputs[name]) for name in sorted(answer.outputs)}

    def classify(
        self, which: SignatureAddress, examples: list[Any], timeout: float
    ) -> list[list[tuple[str, float]]]:
        request = classification_pb2.ClassificationRequest(input=_input(examples))
        _specify(request.model_spec, which)
        rows = self._call(request, timeout).result.classifications
        return [[(scored.label, scored.score) for scored in row.classes] for row in rows]

    def regress(self, which: SignatureAddress, examples: list[Any], timeout: float) -> np.ndarray:
        request = regression_pb2.RegressionRequest(input=_input(examples))
        _specify(request.model_spec, which)
        regressions = self._call(request, timeout).result.regressions
        return np.array([regression.value for regression in regressions], np.float32)

    def status(self, which: SignatureAddress, timeout: float) -> list[VersionStatus]:
        request = get_model_status_pb2.GetModelStatusRequest()
        _specify(request.model_spec, which)
        answer = self._call(request, timeout)
        state = get_model_status_pb2.ModelVersionStatus.State
        return [
            VersionStatus(
                version.version,
                state.Name(version.state),
                NAMES[version.status.error_code],
                version.status.error_message,
            )
            for version in answer.model_version_status
        ]

    def metadata(self, which: SignatureAddress, timeout: float) -> dict[str, RemoteSignature]:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        _specify(request.model_spec, which)
        answer = self._call(request, timeout)
        definitions = get_model_metadata_pb2.SignatureDefMap()
        answer.metadata["signature_def"].Unpack(definitions)
        return {
            name: RemoteSignature.of(name, definition)
            for name, definition in definitions.signature_def.items()
            if name != "__saved_model_init_op"
        }

    def describe(self, which: SignatureAddress | None, timeout: float) -> dict[str, Any]:
        """What only our server tells; NotImplementedError from another one."""
        spec = model_pb2.ModelSpec()
        if which is not None:
            _specify(spec, which)
        try:
            return json.loads(self._call(spec, timeout).value)
        except RequestError as error:
            if error.code == "UNIMPLEMENTED":
                raise NotImplementedError from error
            raise

    def close(self) -> None:
        self._channel.close()

    def _call(self, request: Any, timeout: float) -> Any:
        method = self._methods[type(request)]
        try:
            return method(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            code, text = error.code().name, error.details() or ""
        except ValueError as error:
            if "closed channel" not in str(error):
                raise
            raise closed_client() from error
        kind = RequestError
        if code == "DEADLINE_EXCEEDED":
            kind = DeadlineError
        if code == "UNAVAILABLE" and _never_arrived(text):
            message = f"No model server answers at {self._address} over gRPC: {text}"
            if "http1" in text.lower():
                message += f". If that is the port of REST, write http://{self._address}"
            elif self._address.tls:
                message = f"{message}. {way_out(text, self._security)}".rstrip()
            elif "refused" in text:
                message += f". {START_ONE}"
            raise ServerUnreachableError(code, text, message) from None
        raise kind(code, text) from None


_METHODS = {
    predict_pb2.PredictRequest: (f"{_PREDICTION}Predict", predict_pb2.PredictResponse),
    classification_pb2.ClassificationRequest: (
        f"{_PREDICTION}Classify",
        classification_pb2.ClassificationResponse,
    ),
    regression_pb2.RegressionRequest: (f"{_PREDICTION}Regress", regression_pb2.RegressionResponse),
    get_model_metadata_pb2.GetModelMetadataRequest: (
        f"{_PREDICTION}GetModelMetadata",
        get_model_metadata_pb2.GetModelMetadataResponse,
    ),
    get_model_status_pb2.GetModelStatusRequest: (
        f"{_MODEL}GetModelStatus",
        get_model_status_pb2.GetModelStatusResponse,
    ),
    model_pb2.ModelSpec: (f"{_OWN}Describe", StringValue),
}


def _specify(spec: Any, which: SignatureAddress) -> None:
    spec.name = which.model
    if which.version is not None:
        spec.version.value = which.version
    elif which.label is not None:
        spec.version_label = which.label
    if which.signature:
        spec.signature_name = which.signature


def _input(examples: list[Any]) -> Any:
    message = input_pb2.Input()
    message.example_list.examples.extend(examples)
    return message


def _never_arrived(text: str) -> bool:
    """UNAVAILABLE of gRPC itself, not of a server that has too much to do."""
    marks = ("failed to connect", "DNS resolution", "resolving", "all backends", "http1")
    return any(mark.lower() in text.lower() for mark in marks)


def _read(file: str | None) -> bytes | None:
    if file is None:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"The certificate or key {file!r} cannot be read: {error}") from error
