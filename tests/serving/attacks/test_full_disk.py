"""A disk that is full: the server's own log, request logs, profiles; and then it has room again."""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import requests
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from tests.serving.attacks.conftest import ATTACKED, FRONTS
from tests.serving.attacks.watching import bystanders, children
from tests.serving.running import Server, config_text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bounds of a running process")

PROFILE = "/tensorflow.ProfilerService/Profile"


class Logging:
    """A server that logs all requests, in few files."""

    def __init__(self, folder: Path, models: Path, *flags: str) -> None:
        self.base = folder / "models"
        self.logs = folder / "logs"
        for name in ("two_inputs", "later"):
            shutil.copytree(models / "two_inputs" / "1", self.base / name / "1")
        self.config = config_text({name: str(self.base / name) for name in ("two_inputs", "later")})
        (folder / "config").write_text(self.config)
        self.server = Server(
            folder / "log",
            f"--model_config_file={folder / 'config'}",
            f"--request_log_dir={self.logs}",
            "--request_log_sampling_rate=1",
            "--request_log_max_files=3",
            *flags,
        )

    def records(self) -> dict[str, int]:
        """How many requests each file has that can be read."""
        found = {}
        for file in sorted(self.logs.glob("*two_inputs*.tfrecord")):
            found[file.name] = 0
            # Its end may not be written yet, and it may just be taken away.
            with contextlib.suppress(tf.errors.DataLossError, tf.errors.NotFoundError):
                for _ in tf.data.TFRecordDataset([str(file)]):
                    found[file.name] += 1
        return found

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """No process of it can make a file longer, wherever it is."""
        pids = (self.server.process.pid, *children(self.server.process.pid))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, no_limit)


@pytest.fixture(scope="module", params=ATTACKED)
def logging(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Logging]:
    folder = tmp_path_factory.mktemp(request.param)
    made = Logging(folder, attacked_models, *FRONTS[request.param])
    try:
        made.server.wait_until_ready()
        yield made
    finally:
        ended = made.server.stop()
    assert ended == 0


def test_requests_are_answered_and_logged_again_when_there_is_room(logging: Logging) -> None:
    server = logging.server
    with bystanders(server) as others:
        others.served(20)
        server.wait_until(lambda: sum(logging.records().values()) >= 20)
        before = logging.records()
        with logging.full():
            others.served(600)
            during = logging.records()
        # What was there is there: it did not go in exchange for files with nothing in them.
        assert all(during.get(name, 0) >= count for name, count in before.items()), (before, during)

        def is_logged() -> bool:
            return sum(logging.records().values()) > sum(during.values())

        server.wait_until(is_logged)
        assert all(logging.records().values())


def test_what_needs_a_file_is_refused_and_nothing_else(logging: Logging) -> None:
    server = logging.server
    # A large body is read by a process of its own, and a profile takes memory, too.
    with bystanders(server, growth=300 * 2**20) as others, logging.full():
        rows = [{"a": 1, "b": 2}] * 100_000
        url = server.url("/v1/models/two_inputs:predict")
        answer = requests.post(url, json={"instances": rows}, timeout=60)
        assert len(answer.json()["predictions"]) == len(rows)
        with pytest.raises(grpc.RpcError) as caught:
            server.channel.unary_unary(PROFILE)(b"\x08\x32", timeout=60)  # 50 ms
        assert caught.value.code() is not grpc.StatusCode.UNAVAILABLE
        others.served(5)
    assert server.channel.unary_unary(PROFILE)(b"\x08\x32", timeout=60)


def test_a_new_version_is_loaded(logging: Logging) -> None:
    server = logging.server
    with bystanders(server, loads_models=True) as others, logging.full():
        shutil.copytree(logging.base / "later" / "1", logging.base / "later" / "temp")
        (logging.base / "later" / "temp").rename(logging.base / "later" / "2")
        server.wait_for_version("later", 2)
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(logging.config, request.config)
        answer = server.model.HandleReloadConfigRequest(request, timeout=60)
        assert answer.status.error_code == 0
        others.served(5)
