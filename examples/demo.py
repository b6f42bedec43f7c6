"""The whole way: data, training, evaluation, export, a server, and predictions over the network.

Trains the network of digits.py, exports it, serves it with `estimand serve`, and asks the server
twice: with the client of TensorFlow Serving over gRPC, and with curl over REST. Then it stops the
server and ends.

    python examples/demo.py [--max_steps N] [--keep_serving]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

import digits
import tensorflow as tf

import estimand as est
from estimand.engine.progress.progress import format_results_table

MODEL = "digits"
ROWS = 8
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # past any proxy


def headline(number: int, text: str) -> None:
    print(f"\n{number}. {text}", flush=True)


def train(model_dir: str, max_steps: int) -> est.Estimator:
    config = est.RunConfig(model_dir=model_dir, tf_random_seed=1, save_checkpoints_steps=1000)
    estimator = est.Estimator(digits.model_fn, config=config, params={"learning_rate": 3e-3})
    estimator.train(digits.train_input_fn, max_steps=max_steps)
    return estimator


def export(estimator: est.Estimator, folder: str) -> str:
    """One version, in a directory named by a number: what the server looks for."""
    image = tf.TensorSpec([None, 8, 8, 1], tf.float32, name="image")
    receiver_fn = est.export.build_raw_serving_input_receiver_fn({"image": image})
    return os.fsdecode(estimator.export_saved_model(folder, receiver_fn))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def serving(folder: str, grpc_port: int, rest_port: int) -> Iterator[None]:
    """`estimand serve` while the block runs."""
    command = [sys.executable, "-m", "estimand", "serve", f"--port={grpc_port}"]
    command += [f"--rest_api_port={rest_port}", f"--model_name={MODEL}"]
    server = subprocess.Popen([*command, f"--model_base_path={folder}"])
    try:
        wait_until_ready(server, f"http://127.0.0.1:{rest_port}/readyz")
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        print(f"The server has ended with {server.wait(60)}.")


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"The server did not start (it ended with {server.returncode}).")
        with contextlib.suppress(OSError), DIRECTLY.open(url, timeout=5):
            return
        time.sleep(0.1)
    sys.exit("The server did not become ready within a minute.")


def ask_over_grpc(port: int, images) -> list[int]:
    """With the client that TensorFlow Serving's users have: pip install tensorflow-serving-api."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = MODEL
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(images))
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(request, timeout=10)
    return list(answer.outputs["digit"].int64_val)


def ask_with_curl(port: int, images, folder: str) -> list[int]:
    url = f"http://127.0.0.1:{port}/v1/models/{MODEL}:predict"
    body = os.path.join(folder, "images.json")
    with open(body, "w") as file:
        json.dump({"instances": images.tolist()}, file)
    if shutil.which("curl"):
        print(f"   curl -d @{body} {url}")
        command = ["curl", "--silent", "--show-error", "--noproxy", "*", "-d", f"@{body}", url]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        print(f"   (curl is not installed: urllib sends {body}) {url}")
        with open(body, "rb") as file, DIRECTLY.open(url, file.read(), timeout=10) as answer:
            text = answer.read()
    return [row["digit"] for row in json.loads(text)["predictions"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max_steps", type=int, default=600)
    parser.add_argument("--keep_serving", action="store_true", help="until Ctrl-C")
    args = parser.parse_args()
    began = time.monotonic()
    folder = tempfile.mkdtemp(prefix="demo-")

    headline(1, f"Training {args.max_steps} steps on {len(digits.TRAIN_X)} handwritten digits")
    estimator = train(os.path.join(folder, "model_dir"), args.max_steps)

    headline(2, "Evaluating")
    results = estimator.evaluate(digits.test_input_fn)
    print(format_results_table(results, title=f"On {len(digits.TEST_X)} unseen digits"))

    headline(3, "Exporting: this is what the model takes and answers")
    exported = export(estimator, os.path.join(folder, "models", MODEL))
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "estimand", "show", exported], check=True)

    headline(4, "Serving")
    grpc_port, rest_port = free_ports(2)
    images, labels = digits.TEST_X[:ROWS], digits.TEST_Y[:ROWS]
    with serving(os.path.dirname(exported), grpc_port, rest_port):
        headline(5, "Asking it: with TensorFlow Serving's own client, and with curl")
        by_grpc = ask_over_grpc(grpc_port, images)
        by_rest = ask_with_curl(rest_port, images, folder)
        print("\n   true  gRPC  REST")
        for truth, one, other in zip(labels, by_grpc, by_rest, strict=True):
            print(f"   {truth:4d}  {one:4d}  {other:4d}")
        if by_grpc != by_rest:
            sys.exit("The two answers differ.")
        print()
        if args.keep_serving:
            print("Ctrl-C ends it.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    print(f"Everything is in {folder}. It took {time.monotonic() - began:.0f} seconds.")


if __name__ == "__main__":
    main()
