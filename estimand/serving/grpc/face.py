"""The gRPC services: a table of paths, and its way into grpcio's asyncio server.

Messages come and go as bytes: the answer of Predict is written in the wire format directly.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import StringValue
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_pb2,
)

from estimand.serving.batching.replies import Promise, Reply
from estimand.serving.channel_arguments import pairs
from estimand.serving.flags import Flags
from estimand.serving.grpc.prediction import (
    Classify,
    GrpcPrediction,
    MultiInference,
    Predict,
    PredictSettings,
    Regress,
    parsed,
)
from estimand.serving.grpc.profiling import SERVICE as _PROFILER_SERVICE
from estimand.serving.grpc.profiling import Method, Profiler
from estimand.serving.lifecycle import management
from estimand.serving.lifecycle.manager import Manager
from estimand.serving.metrics import Metrics
from estimand.serving.page.answers import PageAnswers
from estimand.serving.protos.wire_fields import FIRST_FIELDS, LARGE_MESSAGE, MAX_FIELDS, FieldCount
from estimand.serving.status import StatusError, from_exception, invalid

log = logging.getLogger("estimand.serving")

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_PREDICTION_SERVICE = "tensorflow.serving.PredictionService"
_MODEL_SERVICE = "tensorflow.serving.ModelService"
_OWN_SERVICE = "estimand.serving.ModelService"

Deadline = float | None  # a time of the event loop
ReadMetadata = Callable[[], Any]  # pairs of key and value
Answer = Callable[[bytes, Deadline, ReadMetadata], Awaitable[bytes]]  # raises StatusError
Start = Callable[..., None]  # bytes, a deadline, a reply; and whether it comes alone


class GrpcFace:
    """Answers each method: bytes of the request and the deadline in, bytes of the answer out."""

    def __init__(self, manager: Manager, metrics: Metrics, flags: Flags) -> None:
        self._manager = manager
        self._metrics = metrics
        self._predictions = PredictSettings(
            manager,
            metrics,
            flags.enable_serialization_as_tensor_content,
            flags.enable_signature_method_name_check,
        )
        self._page = PageAnswers(manager, metrics, lambda: True)
        self._profiler = Profiler() if flags.enable_profiler else None
        self._counter = ThreadPoolExecutor(1, "estimand-fields")

    def starts(self) -> dict[str, Start]:
        """What is asked of models: how to begin it, by path."""
        kinds: tuple[type[GrpcPrediction[Any]], ...] = (Predict, Classify, Regress, MultiInference)
        return {
            f"/{_PREDICTION_SERVICE}/{kind.api}": functools.partial(self._start, kind)
            for kind in kinds
        }

    def table(self) -> dict[str, Answer]:
        """What answers all other paths, awaited."""
        methods: dict[str, dict[str, Method]] = {
            _PREDICTION_SERVICE: {"GetModelMetadata": self.get_model_metadata},
            _MODEL_SERVICE: {
                "GetModelStatus": self.get_model_status,
                "HandleReloadConfigRequest": self.reload_config,
            },
            _OWN_SERVICE: {"Describe": self.describe},
            _PROFILER_SERVICE: self._profiler.methods() if self._profiler else {},
        }
        return {
            f"/{service}/{name}": self._counted(name, method)
            for service, named in methods.items()
            for name, method in named.items()
        }

    def _counted(self, api: str, method: Method) -> Answer:
        clock = time.perf_counter
        request_done = self._metrics.request

        async def answer(body: bytes, deadline: Deadline, metadata: ReadMetadata) -> bytes:
            started = clock()
            try:
                message, model = await method(body, deadline)
            except Exception as error:
                status = from_exception(error)
                if status.name == "INTERNAL" and not isinstance(error, StatusError):
                    log.exception("%s failed", api)
                request_done(status.model, api, "GRPC", status.code, clock() - started)
                if status is error:
                    raise
                raise status from error
            request_done(model, api, "GRPC", 0, clock() - started)
            return message

        return answer

    def _start(
        self,
        kind: type[GrpcPrediction[Any]],
        body: bytes,
        deadline: Deadline,
        reply: Reply[bytes],
        at_once: bool = False,
    ) -> None:
        prediction = kind(self._predictions, body, deadline, reply)
        if len(body) > LARGE_MESSAGE:
            count = FieldCount(kind.message.DESCRIPTOR, body)
            if not count.goes_on_to(FIRST_FIELDS):
                prediction.start_later(self._read_if_few(count, prediction))
                return
        prediction.start(at_once)

    async def _read_if_few(self, count: FieldCount, prediction: GrpcPrediction[Any]) -> Any:
        await self._require_few(count)
        return prediction.read()

    async def _require_few(self, count: FieldCount) -> None:
        """Walking is interrupted for others, which parsing is not."""
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._counter, count.goes_on_to, MAX_FIELDS):
            raise StatusError.of(
                "RESOURCE_EXHAUSTED",
                f"The message has more than {MAX_FIELDS} fields. Send fewer rows at a time; values "
                "of packed fields, and of tensor_content, do not count.",
            )

    async def _parsed(self, kind: Any, body: bytes) -> Any:
        if len(body) > LARGE_MESSAGE:
            count = FieldCount(kind.DESCRIPTOR, body)
            if not count.goes_on_to(FIRST_FIELDS):
                await self._require_few(count)
        return parsed(kind, body)

    async def get_model_metadata(self, body: bytes, deadline: Deadline) -> tuple[bytes, str]:
        request = await self._parsed(get_model_metadata_pb2.GetModelMetadataRequest, body)
        response = management.model_metadata(self._manager, request)
        return response.SerializeToString(), response.model_spec.name

    async def get_model_status(self, body: bytes, deadline: Deadline) -> tuple[bytes, str]:
        request = await self._parsed(get_model_status_pb2.GetModelStatusRequest, body)
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        response = management.model_status(self._manager, request.model_spec)
        return response.SerializeToString(), request.model_spec.name

    async def reload_config(self, body: bytes, deadline: Deadline) -> tuple[bytes, str]:
        request = await self._parsed(model_management_pb2.ReloadConfigRequest, body)
        response, error = await management.reload_config(self._manager, request)
        if error is not None:
            raise error
        return response.SerializeToString(), ""

    async def describe(self, body: bytes, deadline: Deadline) -> tuple[bytes, str]:
        """What the page tells, for our client. A ModelSpec in, a StringValue with JSON out."""
        spec = await self._parsed(model_pb2.ModelSpec, body)
        if not spec.name:
            description: Any = {"models": sorted(self._manager.models)}
        else:
            with self._manager.find_for(spec) as version:
                description = await self._page.describe(version)
        return StringValue(value=json.dumps(description)).SerializeToString(), ""


def grpcio_handlers(
    table: Mapping[str, Answer], starts: Mapping[str, Start] = MappingProxyType({})
) -> list[grpc.GenericRpcHandler]:
    """Both tables of paths for a server of `grpc.aio`."""
    services: dict[str, dict[str, Any]] = {}
    handlers = {path: _awaiting(answer) for path, answer in table.items()}
    handlers |= {path: _starting(start) for path, start in starts.items()}
    for path, handle in handlers.items():
        service, name = path.strip("/").split("/")
        handler = grpc.unary_unary_rpc_method_handler(_with_status(handle))
        services.setdefault(service, {})[name] = handler
    return [grpc.method_handlers_generic_handler(*service) for service in services.items()]


Handle = Callable[[bytes, Deadline, Any], Awaitable[bytes]]  # with grpcio's context


def _awaiting(answer: Answer) -> Handle:
    async def handle(body: bytes, deadline: Deadline, context: Any) -> bytes:
        return await answer(body, deadline, context.invocation_metadata)

    return handle


def _starting(start: Start) -> Handle:
    async def handle(body: bytes, deadline: Deadline, context: Any) -> bytes:
        promise: Promise[bytes] = Promise(context.peer())
        # grpcio brings no two requests in one turn of the event loop.
        start(body, deadline, promise, True)
        return await promise.future

    return handle


def _with_status(handle: Handle) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def answer(body: bytes, context: Any) -> bytes:
        left = context.time_remaining()
        deadline = None if left is None else asyncio.get_running_loop().time() + left
        try:
            return await handle(body, deadline, context)
        except StatusError as error:
            await context.abort(_CODES[error.code], error.text, _pushback(error))
            raise AssertionError("abort raises") from error

    return answer


def _pushback(error: StatusError) -> tuple[tuple[str, str], ...]:
    """As the lean back end has it."""
    if error.retry_after is None:
        return ()
    return (("grpc-retry-pushback-ms", str(int(1000 * error.retry_after))),)


def channel_arguments(flags: Flags) -> list[tuple[str, int | str]]:
    """Those of the flag, after ours.

    >>> channel_arguments(Flags(grpc_channel_arguments="grpc.max_connection_age_ms=2000"))[-1]
    ('grpc.max_connection_age_ms', 2000)
    """
    arguments: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", flags.max_request_bytes),
        ("grpc.max_send_message_length", 2**31 - 1),
        ("grpc.so_reuseport", int(flags.num_workers > 1)),
    ]
    for key, value in pairs(flags.grpc_channel_arguments):
        arguments.append((key, int(value) if value.isdecimal() else value))
    return arguments
