"""A process that has everything imported, and forks one that takes part in a cluster when told to.

    python served_program.py

Imports take most of the time of a short training; like this they are paid once. Commands come as
lines of JSON: {"environment": {...}, "log": "file", "settings": {...}, "at_once": true} is answered
by the new process's id, which is in the network of "namespace", if one is given;
{"wait": id, "seconds": 5} by its exit code, or null.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import estimand as est
from tests.engine.distributed import served_models
from tests.engine.distributed.network import enter


def main() -> None:
    for module in ("estimator.training", "estimator.lifecycle.roles", "canned", "features"):
        importlib.import_module(f"estimand.{module}")
    import keras  # noqa: F401

    print("ready", flush=True)
    children: set[int] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            answer = wait(command["wait"], command["seconds"])
        else:
            answer = os.fork()
            if answer == 0:
                take_part(command)
                return
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for child in children:
        if wait(child, 0) is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def wait(child: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        try:
            found, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            return 0  # waited for already
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.02)


def take_part(command: dict) -> None:
    os.close(0)
    log = os.open(command["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(command["environment"])
    if "namespace" in command:
        enter(command["namespace"])
    logging.getLogger("tensorflow").setLevel(command["log_level"])
    if not command["at_once"]:
        train(**command["settings"])
        return
    # Taking an interpreter with TensorFlow in it down costs as much as the training.
    code, at_start, wire = 1, memory("VmRSS"), Wire()
    wire.start()
    try:
        train(**command["settings"])
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        print(f"bytes on the wire: {wire.total()}")
        print(f"bytes more than at the start: {memory('VmHWM') - at_start}", flush=True)
        os._exit(code)


def memory(kind: str) -> int:
    """Of this process, as the system counts it: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(kind))


class Wire(threading.Thread):
    """Watches the connections of this process: at its end the others may have closed them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._bytes: dict[str, int] = {}

    def run(self) -> None:
        while True:
            self.total()
            time.sleep(0.05)

    def total(self) -> int:
        """Received, or sent and received well, by all connections there have been."""
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                kind = os.readlink(f"/proc/self/fd/{name}")
                if not kind.startswith("socket:"):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as opened:
                    told = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                    self._bytes[kind] = sum(struct.unpack_from("QQ", told, 120))
        return sum(list(self._bytes.values()))


class EveryStep(tf.compat.v1.train.SessionRunHook):
    """Notes the global step before each step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: list[int] = []

    def before_run(self, run_context):
        del run_context
        return tf.compat.v1.train.SessionRunArgs(tf.compat.v1.train.get_global_step())

    def after_run(self, run_context, run_values):
        del run_context
        self._seen.append(int(run_values.results))

    def end(self, session):
        del session
        with open(self._path, "w") as file:
            json.dump(self._seen, file)


def train(
    model: str,
    model_dir: str,
    max_steps: int | None = None,
    shards: int | None = None,
    repeat: bool = True,
    watch: str | None = None,
    save_every: int = 1000,
    export: str | None = None,
) -> None:
    partitioners = tf.distribute.experimental.partitioners
    config = est.RunConfig(
        model_dir=model_dir,
        tf_random_seed=7,
        log_step_count_steps=None,
        save_summary_steps=None,
        save_checkpoints_steps=save_every,
        variable_partitioner=shards and partitioners.FixedShardsPartitioner(shards),
    )
    estimator = served_models.ESTIMATORS[model](config)
    given = served_models.input_fn(8, repeat)
    hooks = [EveryStep(watch)] if watch else []
    est.train_and_evaluate(
        estimator,
        est.TrainSpec(given, max_steps=max_steps, hooks=hooks),
        est.EvalSpec(served_models.input_fn(8, repeat=False)),
    )
    if export is not None and config.is_chief:
        features = {"kind": tf.TensorSpec([None], tf.int64)}
        receiver = est.export.build_raw_serving_input_receiver_fn(features)
        estimator.export_saved_model(export, receiver)


if __name__ == "__main__":
    main()
