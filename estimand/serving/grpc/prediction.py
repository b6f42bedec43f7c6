"""What is asked of models over gRPC: bytes of the request in, bytes of the answer out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from estimand.serving.batching.batches import Arrays
from estimand.serving.batching.replies import Reply
from estimand.serving.grpc.known_requests import KnownRequests
from estimand.serving.inference import examples_plan, predict_plan
from estimand.serving.inference.examples_plan import ExamplesPlan
from estimand.serving.inference.predict_plan import Plan
from estimand.serving.inference.prediction import ExamplesPrediction, Models, PlanT, Prediction
from estimand.serving.metrics import Metrics
from estimand.serving.models.loaded_version import LoadedVersion
from estimand.serving.status import StatusError, invalid


@dataclass(frozen=True)
class PredictSettings:
    """What all predictions of a server share."""

    manager: Models
    metrics: Metrics
    as_content: bool
    check_method: bool
    known: KnownRequests = field(default_factory=KnownRequests)


class GrpcPrediction(Prediction[PlanT]):
    """A message in, a message out."""

    __slots__ = ("_settings",)
    entrypoint = "GRPC"
    message: ClassVar[Any]  # of the request
    log_kind: ClassVar[str]

    def __init__(
        self, settings: PredictSettings, body: bytes, deadline: float | None, reply: Reply[bytes]
    ) -> None:
        Prediction.__init__(self, body, deadline, reply, settings.metrics)
        self._settings = settings

    def logged(self, answer: bytes) -> bytes:
        requests, version = self._settings.manager.requests, self.version
        if requests.wants(version.name):
            size = len(self.body) + len(answer)
            requests.add(version, self.log_kind, self.body, answer, size)
        return answer

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> bytes:
        raise NotImplementedError


class Predict(GrpcPrediction[Plan]):
    __slots__ = ()
    api = "Predict"
    message = predict_pb2.PredictRequest
    log_kind = "predict_log"

    def read(self) -> tuple[Plan, Arrays]:
        settings, body = self._settings, self.body
        known = settings.known.find(body)
        if known is not None:
            version = self.hold(settings.manager.find(known.model, known.version, known.label))
            plan = predict_plan.predict_plan_for(
                version, known.signature, (), settings.check_method
            )
            if plan.only_input == known.slot:
                return plan, [known.array(body)]
            self.release()
        request = parsed(predict_pb2.PredictRequest, body)
        require_spec(request)
        spec, wanted = request.model_spec, request.output_filter
        plan = predict_plan.predict_plan_for(
            self.hold(settings.manager.find_for(spec)),
            spec.signature_name,
            tuple(wanted) if wanted else (),
            settings.check_method,
        )
        arrays = predict_plan.decode_inputs(plan, request.inputs)
        if plan.only_input is not None and not wanted:
            settings.known.learn(body, request)
        return plan, arrays

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> bytes:
        return predict_plan.encode_response(self.plan, outputs, self._settings.as_content)


class GrpcExamples(ExamplesPrediction, GrpcPrediction[ExamplesPlan]):
    __slots__ = ()
    response: ClassVar[Any]

    def read(self) -> tuple[ExamplesPlan, Arrays]:
        request = parsed(self.message, self.body)
        version = self.hold(self._settings.manager.find_for(self.spec(request)))
        plan = self.plan_of(version, request)
        return plan, plan.feeds(examples_plan.serialized_examples(request.input))

    def spec(self, request: Any) -> Any:
        require_spec(request)
        return request.model_spec

    def plan_of(self, version: LoadedVersion, request: Any) -> ExamplesPlan:
        raise NotImplementedError

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> bytes:
        response = self.response()
        for question, result in self.plan.results(outputs, len(self.arrays[0])):
            response.result.CopyFrom(result)
            response.model_spec.name = version.name
            response.model_spec.version.value = version.number
            response.model_spec.signature_name = question.signature
        answer: bytes = response.SerializeToString()
        return answer


class Classify(GrpcExamples):
    __slots__ = ()
    api = "Classify"
    message = classification_pb2.ClassificationRequest
    response = classification_pb2.ClassificationResponse
    log_kind = "classify_log"

    def plan_of(self, version: LoadedVersion, request: Any) -> ExamplesPlan:
        name, check = request.model_spec.signature_name, self._settings.check_method
        return examples_plan.examples_plan_for(version, examples_plan.CLASSIFY, name, check)


class Regress(GrpcExamples):
    __slots__ = ()
    api = "Regress"
    message = regression_pb2.RegressionRequest
    response = regression_pb2.RegressionResponse
    log_kind = "regress_log"

    def plan_of(self, version: LoadedVersion, request: Any) -> ExamplesPlan:
        name, check = request.model_spec.signature_name, self._settings.check_method
        return examples_plan.examples_plan_for(version, examples_plan.REGRESS, name, check)


class MultiInference(GrpcExamples):
    __slots__ = ()
    api = "MultiInference"
    message = inference_pb2.MultiInferenceRequest
    log_kind = "multi_inference_log"

    def spec(self, request: Any) -> Any:
        specs = [task.model_spec for task in request.tasks]
        if not specs or any(not spec.name for spec in specs):
            raise invalid("Found ModelSpec with an empty model name.")
        if len({spec.name for spec in specs}) > 1:
            raise invalid(
                "All ModelSpecs in a MultiInferenceRequest must access the same model name."
            )
        return specs[0]

    def plan_of(self, version: LoadedVersion, request: Any) -> ExamplesPlan:
        return examples_plan.plan_for_tasks(version, request.tasks, self._settings.check_method)

    def encode(self, version: LoadedVersion, outputs: Sequence[np.ndarray]) -> bytes:
        rows = len(self.arrays[0])
        response = examples_plan.multi_inference_response(version, self.plan, outputs, rows)
        answer: bytes = response.SerializeToString()
        return answer


def parsed(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise StatusError.of("INTERNAL", "Unable to parse the request.") from error


def require_spec(request: Any) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
