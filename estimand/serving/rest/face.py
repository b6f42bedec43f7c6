"""The REST API: a bare ASGI application."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import zlib
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, input_pb2, model_pb2

from estimand.serving.access.room import Guest, Party, Room
from estimand.serving.batching.turns import CLIENT
from estimand.serving.flags import Flags
from estimand.serving.grpc.text_protos import DEFAULT_METRICS_PATH, read_prometheus_path
from estimand.serving.grpc.wire_fields import MAX_FIELDS
from estimand.serving.inference import inferring, management
from estimand.serving.json import examples as json_examples
from estimand.serving.json import input as json_input
from estimand.serving.large_json.queue import LargeJson
from estimand.serving.large_json.work import Budget, Reading
from estimand.serving.metrics import Metrics
from estimand.serving.models.manager import Manager
from estimand.serving.models.servable import DEFAULT_SIGNATURE
from estimand.serving.page.answers import PageAnswers
from estimand.serving.rest import routes as rest_routes
from estimand.serving.rest.body import SMALL_BODY, Arrivals, ClientGone, TooLarge
from estimand.serving.rest.predict import (
    Answer,
    error_body,
    is_large,
    plan_of,
    read_request,
)
from estimand.serving.rest.routes import Route
from estimand.serving.status import StatusError, from_exception, invalid

log = logging.getLogger("estimand.serving")

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain")
_HTML = (b"content-type", b"text/html")
_NOT_FOUND = (
    b"<HTML><HEAD><TITLE>404 Not Found</TITLE></HEAD><BODY><H1>Not Found</H1></BODY></HTML>"
)
_MAX_ROUTES = 1024
_APIS = {"predict": "Predict", "classify": "Classify", "regress": "Regress"}


class RestFace:
    """Callable as ASGI asks for. `is_serving` says whether the process is not about to end."""

    def __init__(
        self,
        manager: Manager,
        metrics: Metrics,
        flags: Flags,
        is_serving: Callable[[], bool],
        room: Room | None = None,
        large: LargeJson | None = None,
    ) -> None:
        self._manager = manager
        self._requests = manager.requests
        self._metrics = metrics
        self._flags = flags
        self._is_serving = is_serving
        self._page = PageAnswers(manager, metrics, is_serving)
        self._routes: dict[tuple[str, str], Route] = {}
        self._now: Callable[[], float] | None = None
        self._timeout = flags.rest_api_timeout_in_ms / 1000
        self._most = flags.rest_api_max_body_bytes
        self._room = room or Room(flags.max_pending_bytes)
        self._arrivals = Arrivals(self._room, self._most)
        self._large = large or LargeJson.of(flags)
        self._metrics_path: str | None = DEFAULT_METRICS_PATH
        if flags.monitoring_config_file:
            self._metrics_path = read_prometheus_path(flags.monitoring_config_file)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        method = scope["method"]
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"]
        headers: list[tuple[bytes, bytes]] = [_JSON]
        if path[:4].lower() == "/v1/" and method != "OPTIONS":
            CLIENT.set(scope.get("estimand.party"))
            http, body = await self._answer(method, path, scope, receive, started, headers)
        elif method in ("GET", "HEAD") and (found := await self._page.find(path, query)):
            http, headers, body = found
            headers = list(headers)
        else:
            http, kind, body = self._other(method, path, scope)
            headers = [kind]
        if self._flags.rest_api_enable_cors_support:
            headers += _cors_headers(scope, bool(self._flags.auth_tokens_file))
        headers.append((b"content-length", b"%d" % len(body)))
        if http in (408, 413, 429):
            headers.append((b"connection", b"close"))  # the rest of the body is not read
        await send({"type": "http.response.start", "status": http, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, method: str, path: str, scope: Any, receive: Any, started: float, headers: Any
    ) -> tuple[int, bytes]:
        api, model = "", ""
        if self._now is None:  # kept, for Python 3.11 asks the system for each answer
            self._now = asyncio.get_running_loop().time
        deadline = scope.get("estimand.began", self._now()) + self._timeout
        try:
            route = self._route(method, path)
            api = _APIS.get(route.action, "")
            if route.model in self._manager.models:
                model = route.model
            if not api:
                return 200, self._describe(route)
            async with self._arrivals.body(scope, receive, deadline) as body:
                answer = await self._read(route, body, scope, deadline)
            code, http = 0, 200
        except TooLarge:
            code, http = 8, 413
            answer = error_body(f"The body is larger than {self._most} bytes.")
        except ClientGone:
            code, http, answer = 1, 499, b""  # which nobody reads
        except TimeoutError:
            code, http = 4, 408
            answer = error_body("The body did not arrive in time.")
        except Exception as error:
            status = from_exception(error)
            if status.name == "INTERNAL" and not isinstance(error, StatusError):
                log.exception("%s %s failed", method, path)
            code, http, answer = status.code, status.http, error_body(status.text)
            if status.retry_after is not None:
                headers.append((b"retry-after", b"%d" % math.ceil(status.retry_after)))
        if api:
            self._metrics.request(model, api, "REST", code, time.perf_counter() - started)
        return http, answer

    def _route(self, method: str, path: str) -> Route:
        found = self._routes.get((method, path))
        if found is None:
            found = rest_routes.find(method, path)
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            self._routes[method, path] = found
        return found

    async def _read(
        self, route: Route, body: bytes | bytearray, scope: Any, deadline: float
    ) -> bytes:
        zipped = _is_zipped(scope)
        if len(body) <= SMALL_BODY:
            plain = _inflated_if_small(body) if zipped else bytes(body)
            if plain is not None:
                if len(plain) > self._most:
                    raise TooLarge
                return await self._infer(route, plain, deadline)
        guest = Guest(scope.get("estimand.party") or Party())
        try:
            return await self._infer_large(route, body, zipped, guest, deadline)
        finally:
            self._room.leave(guest)

    async def _infer(self, route: Route, body: bytes, deadline: float) -> bytes:
        """One that is read in the event loop."""
        document = json_input.parse(body)
        name = json_input.signature_name(document)
        with self._manager.find(route.model, route.version, route.label) as version:
            if route.action != "predict":
                given = json_examples.input_of(document)
                return await self._examples(version, route.action, name, given, len(body), deadline)
            check = self._flags.enable_signature_method_name_check
            plan, arrays, as_rows = read_request(version, document, body, check)
            return await self._predict(version, plan, arrays, as_rows, len(body), deadline)

    async def _infer_large(
        self, route: Route, body: bytes | bytearray, zipped: bool, guest: Guest, deadline: float
    ) -> bytes:
        """One that another process reads."""
        with self._manager.find(route.model, route.version, route.label) as version:
            budget = self._large.budget
            if route.action != "predict":
                budget = Budget(budget.inflated_bytes, min(budget.values, MAX_FIELDS))
            signatures = version.plain_signatures
            reading = Reading(route.action, zipped, budget, signatures, DEFAULT_SIGNATURE)
            name, given, as_rows = await self._large.run(reading, body, deadline, guest.party)
            if route.action != "predict":
                given = input_pb2.Input.FromString(given)
                return await self._examples(version, route.action, name, given, len(body), deadline)
            self._room.grow(guest, sum(array.nbytes for array in given))
            plan = plan_of(version, name, self._flags.enable_signature_method_name_check)
            return await self._predict(version, plan, given, as_rows, len(body), deadline)

    async def _examples(
        self, version: Any, action: str, name: str, given: Any, size: int, deadline: float
    ) -> bytes:
        check = self._flags.enable_signature_method_name_check
        classifies = action == "classify"
        infer = inferring.classify if classifies else inferring.regress
        result, _ = await infer(version, name, given, deadline, check)
        if self._requests.wants(version.name):
            self._requests.add_inference(version, action, name, given, result, size)
        write = json_examples.classification_json
        return (write if classifies else json_examples.regression_json)(result)

    async def _predict(
        self, version: Any, plan: Any, arrays: Any, as_rows: bool, size: int, deadline: float
    ) -> bytes:
        found = await plan.lane.run(arrays, deadline)
        answer = Answer(self._manager, version, plan, arrays, found, as_rows, size)
        if is_large(found):
            return await answer.write_large(self._large, deadline)
        return answer.write()

    def _describe(self, route: Route) -> bytes:
        spec = model_pb2.ModelSpec(name=route.model)
        if route.version is not None:
            spec.version.value = route.version
        elif route.label is not None:
            spec.version_label = route.label
        if route.action == "status":
            return _to_json(management.model_status(self._manager, spec)).encode()
        request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec)
        request.metadata_field.append("signature_def")
        return _metadata_json(management.model_metadata(self._manager, request))

    def _other(self, method: str, path: str, scope: Any) -> tuple[int, Any, bytes]:
        if method == "OPTIONS" and self._flags.rest_api_enable_cors_support:
            return 200, _TEXT, b""
        if method in ("GET", "HEAD"):
            if path == "/livez":
                return 200, _TEXT, b"ok\n"
            if path == "/readyz":
                ready = self._is_serving() and self._manager.is_ready
                return (200, _TEXT, b"ok\n") if ready else (503, _TEXT, b"not ready\n")
            if path == self._metrics_path:
                return 200, _TEXT, self._metrics.text().encode()
        return 404, _HTML, _NOT_FOUND


def _inflated_if_small(body: bytes | bytearray) -> bytes | None:
    """None of what becomes large."""
    inflater = zlib.decompressobj(31)
    try:
        plain = inflater.decompress(body, SMALL_BODY + 1)
    except zlib.error:
        raise invalid("Failed to uncompress the gzipped request body.") from None
    if len(plain) > SMALL_BODY:
        return None
    if not inflater.eof:
        raise invalid("Failed to uncompress the gzipped request body.")
    return plain


def _is_zipped(scope: Any) -> bool:
    return any(
        name == b"content-encoding" and value.strip().lower() == b"gzip"
        for name, value in scope["headers"]
    )


def _cors_headers(scope: Any, with_tokens: bool) -> list[tuple[bytes, bytes]]:
    origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
    if not origin.startswith((b"http://", b"https://")):
        return []
    allowed = b"Content-Type, Authorization, X-Api-Key" if with_tokens else b"Content-Type"
    return [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", allowed),
    ]


def _to_json(message: Any) -> str:
    return json_format.MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _metadata_json(response: Any) -> bytes:
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    spec = {
        "name": response.model_spec.name,
        "signature_name": "",
        "version": str(response.model_spec.version.value),
    }
    answer = {
        "model_spec": spec,
        "metadata": {"signature_def": json.loads(_to_json(signatures))},
    }
    return json.dumps(answer, indent=1).encode()
