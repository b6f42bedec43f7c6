"""Logs of requests: what is written, what is kept, and what is refused."""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.config import logging_config_pb2

from estimand.serving.flags import Flags
from estimand.serving.inference import request_log
from estimand.serving.inference.request_log import LogSettings, RequestLog
from estimand.serving.metrics import Metrics
from estimand.serving.status import StatusError
from tests.serving.running import predict_request

VERSION = SimpleNamespace(name="m", number=1)


def write(flags: Flags, requests: int, size: int = 10) -> Metrics:
    metrics = Metrics()
    log = RequestLog(flags, metrics)
    log.configure({"m": LogSettings.from_flags("m", flags)})
    body = predict_request("m", x=np.zeros(size, np.float32)).SerializeToString()
    for _ in range(requests):
        assert log.wants("m")
        while log._queue.full():
            time.sleep(0.001)
        log.add(VERSION, "predict_log", body, b"", len(body))
    log.close()
    return metrics


def test_logs_are_cut_into_files_that_can_warm_up_and_the_oldest_go(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(request_log, "MAX_RECORDS", 10)
    flags = Flags(
        request_log_dir=str(tmp_path / "logs"),
        request_log_sampling_rate=1.0,
        request_log_max_files=3,
    )
    write(flags, 45)
    files = sorted((tmp_path / "logs").iterdir())
    sizes = [len(list(tf.data.TFRecordDataset([str(file)]))) for file in files]
    assert sizes == [10, 10, 5]
    by_size = Flags(
        request_log_dir=str(tmp_path / "small"),
        request_log_sampling_rate=1.0,
        request_log_max_bytes=1,
    )
    write(by_size, 3)
    assert len(list((tmp_path / "small").iterdir())) == 3


def test_a_log_that_cannot_be_written_disturbs_nobody(tmp_path: Path, caplog) -> None:
    (tmp_path / "file").write_text("in the way")
    flags = Flags(request_log_dir=str(tmp_path / "file"), request_log_sampling_rate=1.0)
    write(flags, 3)
    assert caplog.text.count("Requests are not logged") == 1


def test_requests_that_would_wait_too_long_are_not_logged(monkeypatch) -> None:
    flags = Flags(request_log_dir="/nowhere", request_log_sampling_rate=1.0)
    metrics = Metrics()
    log = RequestLog(flags, metrics)
    log._settings = {"m": LogSettings("/nowhere/m", 1.0)}
    log._queue = queue.Queue(2)  # and no thread that empties it
    for _ in range(5):
        log.add(VERSION, "predict_log", b"", b"", 0)
    log.add(VERSION, "predict_log", b"", b"", 2**40)
    told = {code: count for _, code, count in metrics.state()["logged"]}
    assert told == {0: 2, 8: 4}


def test_the_sample_has_about_the_size_that_was_asked_for() -> None:
    log = RequestLog(Flags())
    log._settings = {"m": LogSettings("/nowhere/m", 0.25)}
    assert 800 < sum(log.wants("m") for _ in range(4000)) < 1200
    assert not log.wants("other")


def test_logs_are_read_by_who_runs_the_server_and_nobody_else(tmp_path: Path) -> None:
    flags = Flags(request_log_dir=str(tmp_path / "a" / "logs"), request_log_sampling_rate=1.0)
    before = os.umask(0o022)
    try:
        write(flags, 2)
    finally:
        os.umask(before)
    (file,) = (tmp_path / "a" / "logs").iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, tmp_path / "a")]
    assert modes == [0o600, 0o700, 0o700]
    assert len(list(tf.data.TFRecordDataset([str(file)]))) == 2


@pytest.mark.parametrize(
    ("text", "flags", "told"),
    [
        ("sampling_config { sampling_rate: 0.5 }", Flags(), "no --request_log_dir=DIR"),
        (
            'log_collector_config { filename_prefix: "../../etc/cron.d/x" } '
            "sampling_config { sampling_rate: 1 }",
            Flags(request_log_dir="/logs"),
            "leads out of --request_log_dir=/logs",
        ),
        (
            'log_collector_config { filename_prefix: "/etc/x" } '
            "sampling_config { sampling_rate: 1 }",
            Flags(request_log_dir="/logs"),
            "leads out of --request_log_dir=/logs",
        ),
        ("sampling_config { sampling_rate: 2 }", Flags(request_log_dir="/l"), "from 0 to 1"),
        ('log_collector_config { type: "kafka" }', Flags(request_log_dir="/l"), "type 'kafka'"),
    ],
)
def test_logging_configurations_that_are_refused(text: str, flags: Flags, told: str) -> None:
    message = text_format.Parse(text, logging_config_pb2.LoggingConfig())
    with pytest.raises(StatusError, match=told):
        LogSettings.of("m", message, flags)


def test_a_models_name_is_no_path_of_its_log() -> None:
    flags = Flags(request_log_dir="/logs", request_log_sampling_rate=1.0)
    assert LogSettings.from_flags("../../x", flags).prefix == "/logs/model-..%2F..%2Fx"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="bounds of a running process")
def test_on_a_full_disk_what_was_logged_stays_and_can_be_read(tmp_path: Path, monkeypatch) -> None:
    """Also where a record fits in part."""
    monkeypatch.setattr(request_log, "_REST_SECONDS", 0.0)
    flags = Flags(
        request_log_dir=str(tmp_path / "logs"),
        request_log_sampling_rate=1.0,
        request_log_max_files=3,
    )
    body = predict_request("m", x=np.zeros(100, np.float32)).SerializeToString()
    record = request_log._record(1.0, "m", 1, "predict_log", body, b"")
    file = request_log._LogFile(LogSettings.from_flags("m", flags).prefix, "", flags)
    for _ in range(3):
        file.write(record)
    file.flush()
    size = sum(one.stat().st_size for one in (tmp_path / "logs").iterdir())
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + len(record) // 2, most))
    try:
        for _ in range(20):
            with contextlib.suppress(tf.errors.OpError, OSError):
                file.write(record)
                file.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    file.write(record)
    file.close()
    files = sorted((tmp_path / "logs").iterdir())
    sizes = [len(list(tf.data.TFRecordDataset([str(one)]))) for one in files]
    assert sizes[0] >= 3
    assert sizes[-1] >= 1
    assert all(sizes)
