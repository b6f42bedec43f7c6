"""Predict over gRPC: bytes of the request in, bytes of the answer out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import predict_pb2

from estimand.serving.grpc.known_requests import KnownRequests
from estimand.serving.inference import predicting
from estimand.serving.inference.predicting import Plan
from estimand.serving.inference.prediction import Prediction, Reply
from estimand.serving.metrics import Metrics
from estimand.serving.models.manager import Manager
from estimand.serving.status import StatusError, invalid


@dataclass(frozen=True)
class PredictSettings:
    """What all predictions of a server share."""

    manager: Manager
    as_content: bool
    check_method: bool
    known: KnownRequests = field(default_factory=KnownRequests)


class GrpcPrediction(Prediction):
    __slots__ = ("_settings",)
    entrypoint = "GRPC"

    def __init__(
        self,
        settings: PredictSettings,
        body: bytes,
        deadline: float | None,
        reply: Reply,
        metrics: Metrics,
    ) -> None:
        super().__init__(body, deadline, reply, metrics)
        self._settings = settings

    def read(self) -> tuple[Plan, list[np.ndarray]]:
        settings, body = self._settings, self.body
        known = settings.known.find(body)
        if known is not None:
            version = self.hold(settings.manager.find(known.model, known.version, known.label))
            plan = predicting.plan_for(version, known.signature, (), settings.check_method)
            if plan.only_input == known.slot:
                return plan, [known.array(body)]
            self.release()
        request = parsed(predict_pb2.PredictRequest, body)
        require_spec(request)
        spec, wanted = request.model_spec, request.output_filter
        plan = predicting.plan_for(
            self.hold(settings.manager.find_for(spec)),
            spec.signature_name,
            tuple(wanted) if wanted else (),
            settings.check_method,
        )
        arrays = predicting.decode_inputs(plan, request.inputs)
        if plan.only_input is not None and not wanted:
            settings.known.learn(body, request)
        return plan, arrays

    def write(self, outputs: list[np.ndarray]) -> bytes:
        answer = predicting.encode_response(self.plan, outputs, self._settings.as_content)
        requests, version = self._settings.manager.requests, self.version
        assert version is not None
        if requests.wants(version.name):
            size = len(self.body) + len(answer)
            requests.add(version, "predict_log", self.body, answer, size)
        return answer


def parsed(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise StatusError.of("INTERNAL", "Unable to parse the request.") from error


def require_spec(request: Any) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
