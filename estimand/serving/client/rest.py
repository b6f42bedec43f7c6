"""Our client over REST, with a connection for each thread that asks at the same time."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
from typing import Any
from urllib.parse import quote

import numpy as np
from google.protobuf import json_format

from estimand.core.errors import ConfigError
from estimand.core.files import messages
from estimand.serving.client.address import Address, Security
from estimand.serving.client.errors import (
    START_ONE,
    DeadlineError,
    RequestError,
    ServerUnreachableError,
    closed_client,
)
from estimand.serving.client.tls import way_out
from estimand.serving.client.values import (
    RemoteSignature,
    SignatureAddress,
    VersionStatus,
    types_of_outputs,
)
from estimand.serving.status import HTTP, NAMES

_IDLE = 16  # connections that are kept
# The first status of each HTTP code; several share one.
_NAME_OF = {code: name for name, code in reversed(list(zip(NAMES, HTTP, strict=True)))}
_NAME_OF |= {400: "INVALID_ARGUMENT", 408: "DEADLINE_EXCEEDED", 413: "RESOURCE_EXHAUSTED"}
_NAME_OF |= {500: "INTERNAL", 502: "UNAVAILABLE"}


class RestTransport:
    def __init__(self, address: Address, security: Security) -> None:
        self._address = address
        self._security = security
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if security.bearer:
            self._headers["Authorization"] = security.bearer
        self._tls = _tls_context(security) if address.tls else None
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def predict(
        self,
        which: SignatureAddress,
        inputs: dict[str, np.ndarray],
        outputs: list[str] | None,
        signature: RemoteSignature,
        timeout: float,
    ) -> dict[str, np.ndarray]:
        body = {"inputs": inputs, **_signature_of(which)}
        answer = self._post(which, "predict", _dump(body), timeout)["outputs"]
        types = types_of_outputs(signature)
        if len(types) == 1:
            answer = {next(iter(types)): answer}
        unknown = set(outputs or ()) - answer.keys()
        if unknown:
            raise RequestError(
                "INVALID_ARGUMENT",
                f"output tensor alias not found in signature: {sorted(unknown)[0]} Outputs "
                f"expected to be in the set {{{','.join(sorted(answer))}}}.",
            )
        return {name: _array(answer[name], types[name]) for name in sorted(outputs or answer)}

    def classify(
        self, which: SignatureAddress, examples: list[Any], timeout: float
    ) -> list[list[tuple[str, float]]]:
        rows = self._post(which, "classify", _examples(which, examples), timeout)["results"]
        return [[(str(label), float(score)) for label, score in row] for row in rows]

    def regress(self, which: SignatureAddress, examples: list[Any], timeout: float) -> np.ndarray:
        values = self._post(which, "regress", _examples(which, examples), timeout)["results"]
        return np.array(values, np.float32)

    def status(self, which: SignatureAddress, timeout: float) -> list[VersionStatus]:
        answer = self._ask("GET", _path(which), None, timeout)
        return [
            VersionStatus(
                int(version["version"]),
                version["state"],
                version["status"]["error_code"],
                version["status"]["error_message"],
            )
            for version in answer["model_version_status"]
        ]

    def metadata(self, which: SignatureAddress, timeout: float) -> dict[str, RemoteSignature]:
        answer = self._ask("GET", f"{_path(which)}/metadata", None, timeout)
        definitions = answer["metadata"]["signature_def"]["signature_def"]
        return {
            name: RemoteSignature.of(name, _definition(given))
            for name, given in definitions.items()
            if name != "__saved_model_init_op"
        }

    def describe(self, which: SignatureAddress | None, timeout: float) -> dict[str, Any]:
        """What only our server tells; NotImplementedError from another one."""
        try:
            if which is None:
                status = self._ask("GET", "/monitoring/status.json", None, timeout)
                return {"models": [model["name"] for model in status["models"]]}
            version = "" if which.version is None else f"&version={which.version}"
            path = f"/monitoring/signatures.json?model={quote(which.model, safe='')}{version}"
            return self._ask("GET", path, None, timeout)
        except (RequestError, KeyError, TypeError) as error:
            if isinstance(error, RequestError) and error.code not in ("NOT_FOUND", "UNKNOWN"):
                raise
            raise NotImplementedError from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # ------------------------------------------------------------ asking

    def _post(self, which: SignatureAddress, action: str, body: bytes, timeout: float) -> Any:
        return self._ask("POST", f"{_path(which)}:{action}", body, timeout)

    def _ask(self, method: str, path: str, body: bytes | None, timeout: float) -> Any:
        code, text, retry_after = self._exchange(method, path, body, timeout)
        document: Any = None
        with contextlib.suppress(ValueError):
            document = json.loads(text)
        if code == 200 and isinstance(document, dict):
            return document
        told = document.get("error") if isinstance(document, dict) else None
        if told is None:
            told = f"HTTP {code}: {text[:200].decode('utf-8', 'replace')}"
        if code == 200:
            raise RequestError("UNKNOWN", f"{self._address} does not answer as a model server.")
        name = _NAME_OF.get(code, "UNKNOWN")
        error = (DeadlineError if name == "DEADLINE_EXCEEDED" else RequestError)(name, str(told))
        if code == 413:
            error.text += " (larger than the server takes)"
        error.retry_after = retry_after
        raise error

    def _exchange(
        self, method: str, path: str, body: bytes | None, timeout: float
    ) -> tuple[int, bytes, float | None]:
        connection, is_new = self._take(timeout)
        try:
            try:
                self._send(connection, method, path, body, timeout)
                response = connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                if is_new:
                    raise
                # A kept connection that the server has closed meanwhile.
                connection.close()
                self._send(connection, method, path, body, timeout)
                response = connection.getresponse()
            text = response.read()
        except BaseException as error:
            connection.close()
            raise self._failure(error, timeout) from error
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        seconds = response.getheader("retry-after", "")
        return response.status, text, float(seconds) if seconds.isdigit() else None

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        timeout: float,
    ) -> None:
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        connection.request(method, self._address.prefix + path, body, self._headers)

    def _failure(self, error: BaseException, timeout: float) -> BaseException:
        if isinstance(error, TimeoutError):
            return DeadlineError(
                "DEADLINE_EXCEEDED", f"{self._address} did not answer within {timeout:.3g} s."
            )
        way = way_out(str(error), self._security) if self._tls is not None else ""
        if isinstance(error, ssl.SSLError):
            text = f"TLS with {self._address} failed: {error}. {way}".rstrip()
            return ServerUnreachableError("UNAUTHENTICATED", str(error), text)
        if isinstance(error, OSError | http.client.HTTPException):
            why = str(error)
            if way:  # whom it does not believe, a server may tell so by hanging up
                why = f"{error}. {way}"
            elif isinstance(error, http.client.HTTPException):
                why = f"it does not speak HTTP. For gRPC, write {self._address.target}"
            if isinstance(error, ConnectionRefusedError):
                why = f"{why}. {START_ONE}"
            text = f"No model server answers at {self._address} over REST: {why}"
            return ServerUnreachableError("UNAVAILABLE", str(error), text)
        return error

    def _take(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._closed:
                raise closed_client()
            if self._idle:
                return self._idle.pop(), False
        host, port = self._address.host, self._address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls), True
        return http.client.HTTPConnection(host, port, timeout=timeout), True

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _tls_context(security: Security) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.cert_file:
            context.load_cert_chain(security.cert_file, security.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(
            f"ca_file={security.ca_file!r}, cert_file={security.cert_file!r} cannot be used: "
            f"{error}"
        ) from error
    return context


def _path(which: SignatureAddress) -> str:
    path = f"/v1/models/{quote(which.model, safe='')}"
    if which.version is not None:
        return f"{path}/versions/{which.version}"
    return f"{path}/labels/{quote(which.label, safe='')}" if which.label is not None else path


def _signature_of(which: SignatureAddress) -> dict[str, str]:
    return {"signature_name": which.signature} if which.signature else {}


# ------------------------------------------------------------------ JSON


def _definition(given: dict[str, Any]) -> Any:
    return json_format.ParseDict(given, messages.signature_def(), ignore_unknown_fields=True)


def _dump(body: dict[str, Any]) -> bytes:
    body = {**body, "inputs": {name: _plain(value) for name, value in body["inputs"].items()}}
    return json.dumps(body).encode()


def _plain(array: np.ndarray) -> Any:
    if array.dtype == object:
        return _in_base64(array.tolist())
    if array.dtype.kind == "V":  # bfloat16
        return array.astype(np.float32).tolist()
    return array.tolist()


def _in_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_base64(inner) for inner in value]
    return {"b64": base64.b64encode(value).decode()}


def _array(value: Any, dtype: str) -> np.ndarray:
    if dtype == "string":
        return np.array(_as_bytes(value), object)
    return np.array(value, np.float32 if dtype == "bfloat16" else dtype)


def _as_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_bytes(inner) for inner in value]
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def _examples(which: SignatureAddress, examples: list[Any]) -> bytes:
    rows = [
        {name: _feature(feature) for name, feature in example.features.feature.items()}
        for example in examples
    ]
    return json.dumps({"examples": rows, **_signature_of(which)}).encode()


def _feature(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    return _in_base64(values) if kind == "bytes_list" else values
