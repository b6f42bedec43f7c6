"""What a large table costs with parameter servers: bytes on the wire and memory, by phase and role.

    python bench/large_tables.py --optimizer keras_adam --rows 2000000 --servers 2

Starts a cluster on this machine, trains, saves, evaluates on the servers, exports, and trains on
from the checkpoint in a second cluster. Bytes are those of the connections of chief and worker;
memory is the peak of each process during the phase, beyond what it had when TensorFlow had been
imported.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MB = 1e6
_BATCH = 256
_EVALUATED = 20  # batches
_SECONDS_BETWEEN_COUNTS = 0.2
_OPTIMIZERS = ("v1_adam", "v1_adagrad", "keras_adam", "keras_adagrad")


def main() -> None:
    options = _options()
    if options.task is not None:
        _take_part(options)
        return
    from estimand.cluster.addresses import free_ports

    with tempfile.TemporaryDirectory() as folder:
        for target in (options.steps, 2 * options.steps):
            sizes = {"chief": 1, "worker": 1, "ps": options.servers}
            ports = iter(free_ports(sum(sizes.values())))
            cluster = {r: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for r, n in sizes.items()}
            _run(cluster, target, folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=_OPTIMIZERS, default="keras_adam")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--keras-layer", action="store_true", help="of keras.layers.Embedding")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(cluster: dict[str, list[str]], target: int, folder: str) -> None:
    processes = {}
    for role in ("ps", "worker", "chief"):
        for index in range(len(cluster[role])):
            task = {"cluster": cluster, "task": {"type": role, "index": index}}
            command = [sys.executable, *sys.argv, "--task", role, "--target", str(target)]
            environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "TF_CONFIG": json.dumps(task)}
            started = subprocess.Popen([*command, "--folder", folder], env=environment)
            processes[f"{role} {index}"] = started
    ids = {name: process.pid for name, process in processes.items()}
    Path(folder, "ids.json").write_text(json.dumps(ids))
    failed = processes["chief 0"].wait()
    for process in processes.values():
        if failed:
            process.kill()
        failed = process.wait() or failed
    if failed:
        sys.exit(failed)


class Phases:
    """Says at the end of each phase what it sent, and what each process held at most."""

    def __init__(self, folder: str) -> None:
        self._ids = json.loads(Path(folder, "ids.json").read_text())
        self._base = {name: _peak(process) for name, process in self._ids.items()}
        self._folder = folder
        self._sent = self._bytes()
        self._reset()

    def end(self, name: str, steps: int = 1) -> None:
        sent = self._bytes()
        peaks = {role: _peak(process) - self._base[role] for role, process in self._ids.items()}
        told = "  ".join(f"{role} {peak / _MB:7.0f}" for role, peak in peaks.items())
        print(f"{name:8s} sent {(sent - self._sent) / steps / _MB:9.3f} MB   peak MB: {told}")
        sys.stdout.flush()
        self._sent = sent
        self._reset()

    def _bytes(self) -> int:
        time.sleep(2 * _SECONDS_BETWEEN_COUNTS)
        told = Path(self._folder, "worker.bytes")
        return _bytes_of_connections() + (int(told.read_text() or 0) if told.exists() else 0)

    def _reset(self) -> None:
        for process in self._ids.values():
            Path(f"/proc/{process}/clear_refs").write_text("5")


def _peak(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def _bytes_of_connections() -> int:
    """Received, or sent and received well, by the connections that this process has open."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as opened:
            told = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
            total += sum(struct.unpack_from("QQ", told, 120))
    return total


def _tell_bytes(folder: str) -> None:
    path = Path(folder, "worker.bytes")
    while True:
        path.with_suffix(".new").write_text(str(_bytes_of_connections()))
        path.with_suffix(".new").replace(path)
        time.sleep(_SECONDS_BETWEEN_COUNTS)


def _take_part(options: argparse.Namespace) -> None:
    import keras  # noqa: F401
    import tensorflow as tf

    import estimand as est
    from estimand.cluster import servers as roles

    partitioners = tf.distribute.experimental.partitioners
    _ = est.Estimator
    config = est.RunConfig(
        model_dir=os.path.join(options.folder, "model"),
        tf_random_seed=1,
        save_checkpoints_steps=options.steps,
        save_summary_steps=None,
        log_step_count_steps=None,
        variable_partitioner=partitioners.FixedShardsPartitioner(options.servers),
    )
    estimator = est.Estimator(_model_fn, config=config, params=vars(options))
    if options.task != "chief":
        if options.task == "worker":
            count = threading.Thread(target=_tell_bytes, args=(options.folder,), daemon=True)
            count.start()
        roles.serve(config, timeout=600)
        return
    time.sleep(5)  # until the others have imported TensorFlow
    phases = Phases(options.folder)
    hooks = [_watch(phases, options.steps)]
    # As a `master` does it: in the chief, while the servers have the variables.
    evaluate = functools.partial(estimator.evaluate, lambda: _input(options.rows), steps=_EVALUATED)
    listeners = [_listen(phases, evaluate)]
    estimator.train(
        lambda: _input(options.rows),
        hooks=hooks,
        max_steps=options.target,
        saving_listeners=listeners,
    )
    # The others are gone.
    phases._ids = {name: p for name, p in phases._ids.items() if name.startswith("chief")}
    phases.end("end")
    receiver = est.export.build_raw_serving_input_receiver_fn(
        {"id": tf.TensorSpec([None], tf.int64)}
    )
    estimator.export_saved_model(os.path.join(options.folder, "export"), receiver)
    phases.end("export")


def _watch(phases: Phases, steps: int) -> Any:
    import estimand as est

    class Watch(est.SessionRunHook):
        cadence = est.every(steps=steps // 2)
        looks = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            del run_context, run_values
            self.looks += 1
            if self.looks == 1:
                phases.end("first")
            else:
                phases.end("train", steps // 2)

    return Watch()


def _listen(phases: Phases, evaluate: Callable[[], Any]) -> Any:
    import estimand as est

    class Listener(est.CheckpointSaverListener):
        def before_save(self, session: Any, global_step_value: int) -> None:
            del session, global_step_value
            phases.end("before")

        def after_save(self, session: Any, global_step_value: int) -> None:
            del session, global_step_value
            phases.end("save")
            evaluate()
            phases.end("evaluate", _EVALUATED)

    return Listener()


def _input(rows: int) -> Any:
    import tensorflow as tf

    def batch(number: Any) -> Any:
        ids = tf.random.stateless_uniform([_BATCH], [number, 7], 0, rows, tf.int64)
        return {"id": ids}, tf.cast(ids % 2, tf.float32)

    return tf.data.Dataset.range(1_000_000_000).map(batch).repeat()


def _model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    import keras
    import tensorflow as tf

    import estimand as est

    v1 = tf.compat.v1
    shape = [params["rows"], params["width"]]
    if params["keras_layer"]:
        found = keras.layers.Embedding(*shape)(features["id"])
    else:
        table = v1.get_variable("table", shape, initializer=v1.random_normal_initializer())
        found = tf.nn.embedding_lookup(table, features["id"])
    logits = tf.reduce_sum(found, axis=1)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"logit": logits})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    makers = {
        "v1_adam": v1.train.AdamOptimizer,
        "v1_adagrad": v1.train.AdagradOptimizer,
        "keras_adam": keras.optimizers.Adam,
        "keras_adagrad": keras.optimizers.Adagrad,
    }
    return est.EstimatorSpec(
        mode, loss=loss, train_op=est.minimize(makers[params["optimizer"]](0.01), loss)
    )


if __name__ == "__main__":
    main()
