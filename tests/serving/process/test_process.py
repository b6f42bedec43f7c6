"""The process: its flags, its start, its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.core.errors import ConfigError
from estimand.serving import serve
from estimand.serving.flags import Flags
from estimand.serving.process.addresses import processes_line
from estimand.serving.process.server import _said_or_not
from tests import forked
from tests.serving.running import Server, config_text, free_port, predict_request


def test_requests_that_run_when_the_end_is_asked_for_are_answered(
    start, models: Path, tmp_path: Path
) -> None:
    config = tmp_path / "models.config"
    config.write_text(config_text({"slow": str(models / "slow")}))
    server: Server = start(f"--model_config_file={config}")
    server.wait_until_ready()
    server.post("/v1/models/slow:predict", {"instances": [0.0]})
    answers: list[object] = []

    def ask_grpc() -> None:
        response = server.prediction.Predict(predict_request("slow", x=np.float32([1])), timeout=20)
        answers.append(response.outputs["y"].float_val[0])

    def ask_rest() -> None:
        answers.append(server.post("/v1/models/slow:predict", {"instances": [1.0]}).json())

    threads = [threading.Thread(target=ask) for ask in (ask_grpc, ask_rest)]
    for thread in threads:
        thread.start()
    metrics = "/monitoring/prometheus/metrics"
    threads[0].join(0.1)
    assert server.get(metrics).ok
    server.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert server.process.wait(20) == 0
    assert sorted(map(str, answers)) == ["2.0", "{'predictions': [2.0]}"]
    assert "gRPC: 127.0.0.1:" in server.log.read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "model_config_list { nonsense }",
            "Error parsing text-format tensorflow.serving.ModelServerConfig",
        ),
        (config_text({"m": "relative"}), "Expected model m to have an absolute path or URI"),
    ],
)
def test_a_bad_configuration_file_ends_the_start(tmp_path: Path, text: str, told: str) -> None:
    config = tmp_path / "bad.config"
    config.write_text(text)
    with pytest.raises(ConfigError, match=told):
        serve(Flags(model_config_file=str(config)))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            [],
            "No model to serve. Give a directory, as in estimand serve runs/census/export/best, or "
            "set --model_base_path=DIR",
        ),
        (["--model_base_path=/m", "--batching_parameters_file=b"], "without --enable_batching"),
        (["--model_base_path=/m", "--port=1", "--rest_api_port", "1"], "the same as --port"),
        (["--model_base_path=/m", "--transition_policy=fast"], "Use availability or resource"),
        (["--model_base_path=/m", "--max_queued_requests=-1"], "is negative. Use 0 or more"),
        (["--model_base_path=/m", "--use_alts_credentials"], "for TLS, set --ssl_config_file"),
        (["--model_base_path=/m", "--platform_config_file=p"], "--servable=module:Class"),
    ],
)
def test_flags_that_do_not_fit_together(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == 2
    assert text in result.output


def test_flags_are_taken_with_and_without_an_equals_sign(monkeypatch) -> None:
    seen: list[Flags] = []
    monkeypatch.setattr(Flags, "check", lambda self: seen.append(self) or sys.exit(0))
    arguments = ["--model_base_path", "/m", "--port=0", "--enable_batching", "--rest_api_port=1"]
    CliRunner().invoke(main, ["serve", *arguments, "--enable_model_warmup=false"])
    (flags,) = seen
    assert flags.model_base_path == "/m"
    assert flags.enable_batching is True
    assert flags.enable_model_warmup is False
    assert (flags.port, flags.rest_api_port) == (0, 1)


def test_flags_that_tensorflow_serving_takes_are_taken() -> None:
    """Its containers always name one model, and it has a meaning for some negative numbers."""
    Flags(
        model_config_file="c",
        model_base_path="/m",
        load_retry_interval_micros=-1,
        file_system_poll_wait_seconds=-1,
        num_tflite_pools=2,
        skip_initialize_tpu=True,
    ).check()


def test_help_names_the_flags_of_tensorflow_serving() -> None:
    text = CliRunner().invoke(main, ["serve", "--help"]).output
    for flag in ("--model_config_file", "--rest_api_timeout_in_ms", "--file_system_poll_wait_sec"):
        assert flag in text


def test_a_server_that_nobody_hears_serves() -> None:
    def say(line: str) -> None:
        raise OSError(28, "No space left on device")

    _said_or_not(say)("gRPC: 127.0.0.1:8500")


def test_the_screen_of_a_server_is_what_it_serves_and_where(models: Path, tmp_path: Path) -> None:
    """Without a word of TensorFlow's about GPUs that are not there, also of the trying process."""
    port, rest_port = free_port(), free_port()
    base = models / "half_plus_three"
    command = ["-m", "estimand", "serve", base, "--port", port, "--rest_api_port", rest_port]
    variables = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    screen = tmp_path / "screen"
    with screen.open("wb") as file:
        process = forked.Program(command, stdout=file, stderr=subprocess.STDOUT, env=variables)
    try:
        ends = time.monotonic() + 60
        while "ready in" not in screen.read_text() and time.monotonic() < ends:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
    assert re.sub(r"ready in [\d.]+ s", "ready in N s", screen.read_text()).splitlines() == [
        f"Model half_plus_three: the newest version in {base}",
        f"gRPC: 127.0.0.1:{port}",
        f"REST: http://127.0.0.1:{rest_port}/v1/models/half_plus_three",
        f"Page: http://127.0.0.1:{rest_port}/",
        f"Reload by gRPC: models from {base}. For others: --reload_config_base_path=DIR",
        "Only this machine can connect. For others: --host=0.0.0.0",
        processes_line(Flags()),
        "half_plus_three 1 ready in N s",
    ]
