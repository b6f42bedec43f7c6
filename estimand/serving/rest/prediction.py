"""What is asked of models as JSON."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tensorflow_serving.apis import input_pb2

from estimand.serving.access.request_memory import LargeRequest, RequestMemory
from estimand.serving.batching.batches import Arrays
from estimand.serving.batching.replies import run_beside
from estimand.serving.flags import Flags
from estimand.serving.inference import examples_plan, predict_plan
from estimand.serving.inference.examples_plan import ExamplesPlan
from estimand.serving.inference.predict_plan import Plan
from estimand.serving.inference.prediction import ExamplesPrediction, Models, PlanT, Prediction
from estimand.serving.json import examples as json_examples
from estimand.serving.json import input as json_input
from estimand.serving.json import output as json_output
from estimand.serving.json.slots import PlainSlot
from estimand.serving.large_json.by_size import JsonBySize
from estimand.serving.large_json.work import Budget, Reading, Writing
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.models.servable import DEFAULT_SIGNATURE
from estimand.serving.protos.wire_fields import MAX_FIELDS
from estimand.serving.rest.body import SMALL_ANSWER, SMALL_BODY, Arrival, too_large
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.routes import Route
from estimand.serving.status import invalid


@dataclass(frozen=True)
class RestSettings:
    """What all predictions of a server share."""

    manager: Models
    metrics: Metrics
    memory: RequestMemory
    large: JsonBySize
    most_bytes: int
    timeout: float  # seconds, from the first byte of the request
    check_method: bool

    @classmethod
    def of(
        cls,
        manager: Models,
        metrics: Metrics,
        flags: Flags,
        memory: RequestMemory,
        large: JsonBySize,
    ) -> RestSettings:
        return cls(
            manager,
            metrics,
            memory,
            large,
            flags.rest_api_max_body_bytes,
            flags.rest_api_timeout_in_ms / 1000,
            flags.enable_signature_method_name_check,
        )


class RestPrediction(Prediction[PlanT]):
    """Made when the head of its request is there; `run` when the body is whole."""

    __slots__ = ("_is_zipped", "_large_request", "_route", "_settings", "arrival", "most_bytes")
    entrypoint = "REST"
    deadline: float

    def __init__(
        self,
        settings: RestSettings,
        route: Route,
        exchange: Exchange,
        is_zipped: bool,
        most_bytes: int,
    ) -> None:
        deadline = exchange.began + settings.timeout
        Prediction.__init__(self, b"", deadline, exchange, settings.metrics)
        self._settings = settings
        self._route = route
        self._is_zipped = is_zipped
        self.most_bytes = most_bytes  # that the body will have
        self.arrival: Arrival | None = None  # whose memory it has
        self._large_request: LargeRequest | None = None  # for what a large body becomes

    @property
    def model(self) -> str:
        return self._route.model if self._route.model in self._settings.manager.models else ""

    def run(self, body: bytes | bytearray, at_once: bool) -> None:
        plain: bytes | None = None  # of what is large, or becomes large
        try:
            if len(body) <= SMALL_BODY:
                plain = _inflated_if_small(body) if self._is_zipped else bytes(body)
                if plain is not None and len(plain) > self._settings.most_bytes:
                    raise too_large(self._settings.most_bytes)
        except Exception as error:
            self.refuse(error)
            return
        if plain is None:
            self.start_later(self._read_large(body))
        else:
            self.body = plain
            self.start(at_once)

    def read(self) -> tuple[PlanT, Arrays]:
        document = json_input.parse(self.body)
        name = json_input.signature_name(document)
        return self.read_document(self._find(), name, document)

    def _find(self) -> LoadedVersion:
        route = self._route
        return self.hold(self._settings.manager.find(route.model, route.version, route.label))

    async def _read_large(self, body: bytes | bytearray) -> tuple[PlanT, Arrays]:
        """In another process."""
        version, settings, route = self._find(), self._settings, self._route
        budget = settings.large.budget
        if route.action != "predict":
            budget = Budget(budget.inflated_bytes, min(budget.values, MAX_FIELDS))
        signatures = version.plain_signatures
        reading = Reading(route.action, self._is_zipped, budget, signatures, DEFAULT_SIGNATURE)
        outcome = await settings.large.run(reading, body, self.deadline, self.reply)
        return self.take(version, *outcome)

    def read_document(
        self, version: LoadedVersion, name: str, document: Any
    ) -> tuple[PlanT, Arrays]:
        raise NotImplementedError

    def take(
        self, version: LoadedVersion, name: str, given: Any, as_rows: bool
    ) -> tuple[PlanT, Arrays]:
        """What another process has made of the body."""
        raise NotImplementedError

    def grow(self, size: int) -> None:
        """StatusError if there is no room for so much more."""
        if self._large_request is None:
            self._large_request = LargeRequest(self.client)
        self._settings.memory.grow(self._large_request, size)

    def release(self) -> None:
        Prediction.release(self)
        if self.arrival is not None:
            self.arrival.end()
            self.arrival = None
        if self._large_request is not None:
            self._settings.memory.leave(self._large_request)
            self._large_request = None


class RestPredict(RestPrediction[Plan]):
    __slots__ = ("_as_rows",)
    api = "Predict"

    def read_document(
        self, version: LoadedVersion, name: str, document: Any
    ) -> tuple[Plan, Arrays]:
        plan = json_plan_for(version, name, self._settings.check_method)
        arrays, self._as_rows = json_input.predict_inputs(document, plan.signature, self.body)
        return plan, arrays

    def take(
        self, version: LoadedVersion, name: str, given: Any, as_rows: bool
    ) -> tuple[Plan, Arrays]:
        self._as_rows = as_rows
        self.grow(sum(array.nbytes for array in given))
        return json_plan_for(version, name, self._settings.check_method), given

    def answered(self, outputs: list[np.ndarray]) -> None:
        try:
            large = is_large_as_json(outputs)
        except Exception as error:
            self.fail(error)
            return
        if large:
            run_beside(self._write_large(outputs))
        else:
            Prediction.answered(self, outputs)

    def write(self, outputs: Sequence[np.ndarray]) -> bytes:
        self._log(outputs)
        write = json_output.predictions if self._as_rows else json_output.outputs
        return write(self.plan.outputs, outputs)

    async def _write_large(self, outputs: list[np.ndarray]) -> None:
        """In another process."""
        try:
            self.grow(sum(array.nbytes for array in outputs))
            self._log(outputs)
            slots = tuple(map(PlainSlot.of, self.plan.outputs))
            arrays = [np.ascontiguousarray(array) if array.ndim else array for array in outputs]
            job = Writing(slots, arrays, self._as_rows)
            answer: bytes = await self._settings.large.run(job, b"", self.deadline, self.reply)
        except Exception as error:
            self.fail(error)
        else:
            self.succeed(answer)

    def _log(self, outputs: Sequence[np.ndarray]) -> None:
        requests, version = self._settings.manager.requests, self.version
        if requests.wants(version.name):
            requests.add_predict(version, self.plan, self.arrays, outputs, len(self.body))


class RestExamples(ExamplesPrediction, RestPrediction[ExamplesPlan]):
    __slots__ = ("_given",)
    method: ClassVar[str]

    def read_document(
        self, version: LoadedVersion, name: str, document: Any
    ) -> tuple[ExamplesPlan, Arrays]:
        return self._plan(version, name, json_examples.input_of(document))

    def take(
        self, version: LoadedVersion, name: str, given: Any, as_rows: bool
    ) -> tuple[ExamplesPlan, Arrays]:
        return self._plan(version, name, input_pb2.Input.FromString(given))

    def _plan(self, version: LoadedVersion, name: str, given: Any) -> tuple[ExamplesPlan, Arrays]:
        self._given = given
        plan = examples_plan.examples_plan_for(
            version, self.method, name, self._settings.check_method
        )
        return plan, plan.feeds(examples_plan.serialized_examples(given))

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> Any:
        ((question, result),) = self.plan.results(outputs, len(self.arrays[0]))
        return question, result, self.json_of(result)

    def logged(self, encoded: Any) -> bytes:
        question, result, answer = encoded
        requests, version = self._settings.manager.requests, self.version
        if requests.wants(version.name):
            size, action = len(self.body), self._route.action
            requests.add_inference(version, action, question.signature, self._given, result, size)
        written: bytes = answer
        return written

    def json_of(self, result: Any) -> bytes:
        raise NotImplementedError


class RestClassify(RestExamples):
    __slots__ = ()
    api = "Classify"
    method = examples_plan.CLASSIFY

    def json_of(self, result: Any) -> bytes:
        return json_examples.classification_json(result)


class RestRegress(RestExamples):
    __slots__ = ()
    api = "Regress"
    method = examples_plan.REGRESS

    def json_of(self, result: Any) -> bytes:
        return json_examples.regression_json(result)


PREDICTIONS: dict[str, type[RestPrediction[Any]]] = {
    "predict": RestPredict,
    "classify": RestClassify,
    "regress": RestRegress,
}


def json_plan_for(version: LoadedVersion, name: str, check_method: bool) -> Plan:
    plan = version.plans.get((name, ()))
    if isinstance(plan, Plan):
        return plan
    wanted = name or DEFAULT_SIGNATURE
    if wanted not in version.servable.signatures:
        raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
    return predict_plan.predict_plan_for(version, name, (), check_method)


def is_large_as_json(outputs: Sequence[np.ndarray]) -> bool:
    """Whether to write them would hold up others."""
    values = 0
    for array in outputs:
        values += array.size
        if array.dtype.hasobject and values <= SMALL_ANSWER:
            values += sum(map(len, array.ravel().tolist()))
    return values > SMALL_ANSWER


def _inflated_if_small(body: bytes | bytearray) -> bytes | None:
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
