"""Where a request goes: the one router of the REST port."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, model_pb2

from estimand.serving.access.auth import CHALLENGES, Pairs
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.batching.replies import run_beside
from estimand.serving.flags import Flags
from estimand.serving.large_json.by_size import JsonBySize
from estimand.serving.lifecycle import management
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.metrics import Metrics
from estimand.serving.page.answers import STATUS_PATH, PageAnswers
from estimand.serving.protos.text_protos import DEFAULT_METRICS_PATH, read_prometheus_path
from estimand.serving.rest import routes
from estimand.serving.rest.body import too_large
from estimand.serving.rest.exchange import Exchange, answer_not_found
from estimand.serving.rest.heads import TEXT, error_body, lines
from estimand.serving.rest.prediction import PREDICTIONS, RestPrediction, RestSettings
from estimand.serving.rest.routes import Route
from estimand.serving.status import StatusError, from_exception, refused

log = logging.getLogger("estimand.serving")

_MAX_ROUTES = 1024
_MAX_TARGET = 1024  # bytes; a longer one is not what clients send, and would be kept
_MAX_DIGITS = 18
_LOOKED_AT = frozenset((b"content-length", b"content-encoding", b"expect"))
_PROBES = (b"/livez", b"/readyz")

_Kind = type[RestPrediction[Any]]


class Api:
    """`start` is given each request when its head is there, and sees to it that it is answered.

    `is_serving` says whether the process is not about to end; `admits`, whether who sends such
    headers may ask, and without it all may; `refresh` is awaited before counts are told.
    """

    def __init__(
        self,
        manager: Manager,
        metrics: Metrics,
        flags: Flags,
        is_serving: Callable[[], bool],
        memory: RequestMemory | None = None,
        large: JsonBySize | None = None,
        admits: Callable[[Pairs], bool] | None = None,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._manager = manager
        self._metrics = metrics
        self._is_serving = is_serving
        self._admits = admits
        self._refresh = refresh
        self._page = PageAnswers(manager, metrics, is_serving)
        self._settings = RestSettings.of(
            manager,
            metrics,
            flags,
            memory or RequestMemory(flags.max_pending_bytes),
            large or JsonBySize.of(flags),
        )
        self._routes: dict[tuple[bytes, bytes], tuple[Route, _Kind | None]] = {}
        self._has_cors = flags.rest_api_enable_cors_support
        self._metrics_path: str | None = DEFAULT_METRICS_PATH
        if flags.monitoring_config_file:
            self._metrics_path = read_prometheus_path(flags.monitoring_config_file)

    def start(self, exchange: Exchange) -> None:
        if exchange.known is not None and exchange.known.asks is not None:
            kind, route, is_zipped, size = exchange.known.asks
            exchange.prediction = kind(self._settings, route, exchange, is_zipped, size)
            return
        method = exchange.method
        known = self._routes.get((method, exchange.target))
        path, query = (exchange.target, b"") if known else exchange.path_and_query()
        if self._has_cors:
            exchange.more = _cors_headers(exchange, self._admits is not None)
        if self._admits is not None and not (
            method == b"OPTIONS" or path in _PROBES or self._admits(exchange.headers)
        ):
            challenges = lines((b"www-authenticate", challenge) for challenge in CHALLENGES)
            exchange.answer(401, error_body(refused().text), more=challenges)
        elif known is not None and known[1] is not None:
            self._start_prediction(exchange, known[0], known[1])
        elif known is not None or (path[:4].lower() == b"/v1/" and method != b"OPTIONS"):
            self._start_v1(exchange, path)
        elif method == b"OPTIONS" and self._has_cors:
            exchange.answer(200, b"", TEXT)
        elif method in (b"GET", b"HEAD"):
            self._start_other(exchange, path.decode(), query)
        else:
            answer_not_found(exchange)

    # ------------------------------------------------------------ /v1/

    def _start_v1(self, exchange: Exchange, path: bytes) -> None:
        try:
            route, kind = self._route(exchange, path)
            if kind is None:
                exchange.answer(200, self._describe(route))
                return
        except Exception as error:
            status = from_exception(error)
            if status is not error and status.name == "INTERNAL":
                log.exception("%r failed", path[:200])
            exchange.fail(status)
            return
        self._start_prediction(exchange, route, kind)

    def _start_prediction(self, exchange: Exchange, route: Route, kind: _Kind) -> None:
        size, is_zipped, expects = 0, False, False
        most = self._settings.most_bytes
        for name, value in exchange.headers:
            if name not in _LOOKED_AT:
                continue
            if name == b"content-length":
                digits = value if len(value) <= _MAX_DIGITS else value.lstrip(b"0") or b"0"
                size = int(digits) if len(digits) <= _MAX_DIGITS else most + 1
            elif name == b"content-encoding":
                is_zipped |= value.strip().lower() == b"gzip"
            else:
                expects |= value.lower() == b"100-continue"
        prediction = kind(self._settings, route, exchange, is_zipped, size or most)
        if size > most:
            prediction.refuse(too_large(most))
            return
        exchange.prediction = prediction
        if expects:
            exchange.go_on()
        elif exchange.known is not None and self._admits is None and not self._has_cors:
            exchange.known.asks = kind, route, is_zipped, size or most

    def _route(self, exchange: Exchange, path: bytes) -> tuple[Route, _Kind | None]:
        """Kept by what clients write, so that it is read once. Only predictions have a kind."""
        wanted = exchange.method, exchange.target
        known = self._routes.get(wanted)
        if known is None:
            route = routes.find(exchange.method.decode("latin-1"), path.decode("latin-1"))
            known = route, PREDICTIONS.get(route.action)
            if len(exchange.target) > _MAX_TARGET:
                return known
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            self._routes[wanted] = known
        return known

    def _describe(self, route: Route) -> bytes:
        spec = model_pb2.ModelSpec(name=route.model)
        if route.version is not None:
            spec.version.value = route.version
        elif route.label is not None:
            spec.version_label = route.label
        if route.action == "status":
            return _to_json(management.model_status(self._manager, spec)).encode()
        version = self._manager.find_for(spec)
        if version.metadata_json is None:
            request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec)
            request.metadata_field.append("signature_def")
            response = management.model_metadata(self._manager, request)
            version.metadata_json = _metadata_json(response)
        return version.metadata_json

    # ------------------------------------------------------------ the page, and for monitoring

    def _start_other(self, exchange: Exchange, path: str, query: bytes) -> None:
        if path == "/livez":
            exchange.answer(200, b"ok\n", TEXT)
        elif path == "/readyz":
            is_ready = self._is_serving() and self._manager.is_ready
            exchange.answer(*((200, b"ok\n") if is_ready else (503, b"not ready\n")), TEXT)
        else:
            run_beside(self._answer_other(exchange, path, query))

    async def _answer_other(self, exchange: Exchange, path: str, query: bytes) -> None:
        try:
            if self._refresh is not None and path in (STATUS_PATH, self._metrics_path):
                with contextlib.suppress(StatusError):
                    await self._refresh()
            page = await self._page.find(path, query)
            if page is not None:
                http, ((_, kind), *more), body = page
                exchange.answer(http, body, kind, lines(more))
            elif path == self._metrics_path:
                exchange.answer(200, self._metrics.text().encode(), TEXT)
            else:
                answer_not_found(exchange)
        except Exception as error:
            log.exception("GET %s failed", path[:200])
            exchange.fail(from_exception(error))


def _cors_headers(exchange: Exchange, with_tokens: bool) -> bytes:
    origin = exchange.header(b"origin") or b""
    if not origin.startswith((b"http://", b"https://")):
        return b""
    allowed = b"Content-Type, Authorization, X-Api-Key" if with_tokens else b"Content-Type"
    return lines(
        [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", allowed),
        ]
    )


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
