"""The servers that ours is compared with: python serving_peers.py NAME PORT MODEL.

Written as one finds them: little code, no checks. The bare ones have the same way into TensorFlow
as ours, and nothing around it: they show what the machine and the libraries leave possible.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from workloads import serving

Run = Callable[[np.ndarray], np.ndarray]


# ---------------------------------------------------------------- ways into TensorFlow


def session_callable(model: str) -> Run:
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2

    v1 = tf.compat.v1
    config = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    graph = tf.Graph()
    session = v1.Session(graph=graph, config=config)
    with graph.as_default():
        loaded = v1.saved_model.loader.load(session, ["serve"], model)
    signature = loaded.signature_def["serving_default"]
    call = session._make_callable_from_options(
        config_pb2.CallableOptions(
            feed=[signature.inputs["x"].name], fetch=[signature.outputs["probabilities"].name]
        )
    )
    return lambda x: call(x)[0]


def eager_signature(model: str) -> Run:
    import tensorflow as tf

    loaded = tf.saved_model.load(model)
    call = loaded.signatures["serving_default"]
    # `loaded` must stay alive: the signature does not hold its variables.
    return lambda x, _loaded=loaded: call(x=tf.constant(x))["probabilities"].numpy()


def keras_model() -> Run:
    import keras

    last = len(serving.SMALL) - 2
    layers = [
        keras.layers.Dense(units, activation="softmax" if i == last else "relu")
        for i, units in enumerate(serving.SMALL[1:])
    ]
    model = keras.Sequential([keras.Input((serving.SMALL[0],)), *layers])
    for layer, arrays in zip(layers, serving.weights(serving.SMALL), strict=True):
        layer.set_weights(arrays)
    return lambda x: model(x, training=False).numpy()


# ---------------------------------------------------------------- gRPC


def grpcio_eager(port: int, model: str) -> None:
    """grpcio with threads and the loaded signature: what tutorials show."""
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    run = eager_signature(model)

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request: Any, context: Any) -> Any:
            outputs = run(tf.make_ndarray(request.inputs["x"]))
            response = predict_pb2.PredictResponse()
            response.model_spec.CopyFrom(request.model_spec)
            tensor = response.outputs["probabilities"]
            tensor.dtype = 1
            for size in outputs.shape:
                tensor.tensor_shape.dim.add(size=size)
            tensor.float_val.extend(outputs.ravel().tolist())
            return response

    server = grpc.server(ThreadPoolExecutor(8))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


def bare_http2(port: int, model: str, remember_all: bool = False) -> None:
    from workloads import serving_bare_http2

    serving_bare_http2.serve(port, session_callable(model), remember_all)


# ---------------------------------------------------------------- REST


def fastapi_keras(port: int, model: str) -> None:
    import fastapi
    import pydantic
    import uvicorn

    run = keras_model()
    app = fastapi.FastAPI()

    class Request(pydantic.BaseModel):
        instances: list[list[float]]

    def predict(request: Request) -> dict[str, Any]:
        return {"predictions": run(np.asarray(request.instances, np.float32)).tolist()}

    predict.__annotations__["request"] = Request  # a local class is no name FastAPI can find
    app.post(f"/v1/models/{serving.NAME}:predict")(predict)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical", access_log=False)


def litserve_session(port: int, model: str) -> None:
    from workloads import serving_litserve

    serving_litserve.serve(port, model, f"/v1/models/{serving.NAME}:predict")


def bare_asgi(port: int, model: str) -> None:
    """uvicorn, orjson and a session: what arrived in one turn of the event loop runs together."""
    import orjson
    import uvicorn

    run = session_callable(model)
    waiting: list[tuple[np.ndarray, asyncio.Future[np.ndarray]]] = []

    def flush() -> None:
        taken = waiting[:]
        waiting.clear()
        outputs = run(taken[0][0] if len(taken) == 1 else np.concatenate([x for x, _ in taken]))
        start = 0
        for x, future in taken:
            future.set_result(outputs[start : start + len(x)])
            start += len(x)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        x = np.asarray(orjson.loads(body)["instances"], np.float32)
        loop = asyncio.get_running_loop()
        if not waiting:
            loop.call_soon(flush)
        future = loop.create_future()
        waiting.append((x, future))
        rows = np.ascontiguousarray(await future)
        answer = orjson.dumps({"predictions": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(answer)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    gc.freeze()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        log_level="critical",
        access_log=False,
    )


def barest_http(port: int, model: str) -> None:
    """httptools, orjson and a session on a protocol that takes every request for the same one.

    The limit of a server in Python: no routes, no headers, no limits, no errors.
    """
    import httptools
    import orjson
    import uvloop

    run = session_callable(model)
    waiting: list[tuple[np.ndarray, Any]] = []
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"

    def flush() -> None:
        taken = waiting[:]
        waiting.clear()
        outputs = run(taken[0][0] if len(taken) == 1 else np.concatenate([x for x, _ in taken]))
        start = 0
        for x, write in taken:
            rows = outputs[start : start + len(x)]
            start += len(x)
            answer = orjson.dumps({"predictions": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
            write(head % (len(answer), answer))

    class Barest(asyncio.Protocol):
        def __init__(self) -> None:
            self.data_received = httptools.HttpRequestParser(self).feed_data

        def connection_made(self, transport: Any) -> None:
            self.write = transport.write

        def on_body(self, part: bytes) -> None:
            self.body = part

        def on_message_complete(self) -> None:
            if not waiting:
                loop.call_soon(flush)
            waiting.append(
                (np.asarray(orjson.loads(self.body)["instances"], np.float32), self.write)
            )

    loop = uvloop.new_event_loop()
    gc.freeze()
    loop.run_until_complete(loop.create_server(Barest, "127.0.0.1", port))
    loop.run_forever()


PEERS = {
    "grpcio_eager": grpcio_eager,
    "bare_http2": bare_http2,
    "barest_http2": functools.partial(bare_http2, remember_all=True),
    "fastapi_keras": fastapi_keras,
    "litserve_session": litserve_session,
    "bare_asgi": bare_asgi,
    "barest_http": barest_http,
}

if __name__ == "__main__":
    PEERS[sys.argv[1]](int(sys.argv[2]), sys.argv[3])
