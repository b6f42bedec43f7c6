"""Versions that end, exhaust or never leave the process that loads them: no client notices."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2

from tests.serving import making
from tests.serving.attacks import hostile
from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server, config_text, predict_request

KINDS = {f"{harm}_{when}": (harm, when) for harm in hostile.HARM for when in ("load", "answer")}
TOLD = {
    "abort": ("ABORTED", "was ended by signal 6 (Aborted)"),
    "exit": ("ABORTED", "ended with exit code 0"),
    "hang": ("DEADLINE_EXCEEDED", "was not done after 15 seconds"),
    "memory": ("RESOURCE_EXHAUSTED", "ran out of the 400 MB that it might have"),
    "overflow": ("ABORTED", "was ended by signal 11 (Segmentation fault)"),
}
PROBES = "the process that tried it"


@pytest.fixture(scope="module")
def harmful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("harmful")
    for name, (harm, when) in KINDS.items():
        hostile.write_harmful(base / name, harm, when)
    hostile.write_overflow(base / "overflow")
    making.write_two_inputs(base / "healthy")
    return base


class Published:
    """A server whose models each have a healthy version 1 and get a harmful version 2."""

    def __init__(self, folder: Path, harmful: Path, names: tuple[str, ...], *flags: str) -> None:
        self.names = names
        self.base = folder / "models"
        self._harmful = harmful
        for name in (*names, "two_inputs"):
            self.put("healthy", name, 1)
        config = folder / "models.config"
        config.write_text(
            config_text({name: str(self.base / name) for name in (*names, "two_inputs")})
        )
        self.server = Server(
            folder / "log",
            f"--model_config_file={config}",
            # With oneDNN, TensorFlow waits 10 seconds for memory before it says that there is none.
            "--probe_timeout_seconds=15",
            f"--probe_max_bytes={400 * 2**20}",
            "--load_retry_interval_micros=100000",  # what can be tried again soon would be
            *flags,
        )

    def put(self, kind: str, name: str, number: int) -> None:
        """Whole at once, as an export appears."""
        target = self.base / name / str(number)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self._harmful / kind, target.with_name(f"temp-{number}"))
        target.with_name(f"temp-{number}").rename(target)

    def status(self, name: str) -> dict[int, tuple[str, str, str]]:
        """By version: its state, and the code and text of its error."""
        listed = self.server.get(f"/v1/models/{name}").json()["model_version_status"]
        return {
            int(one["version"]): (
                one["state"],
                one["status"]["error_code"],
                one["status"]["error_message"],
            )
            for one in listed
        }

    def is_refused(self, name: str) -> bool:
        return self.status(name).get(2, ("", "", ""))[0] == "END"


@pytest.fixture(scope="module", params=["alone", "workers"])
def published(
    request: pytest.FixtureRequest, harmful: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Published]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "alone":
        made = Published(folder, harmful, (*KINDS, "overflow"))
    else:
        names = ("abort_load", "hang_answer", "memory_load", "overflow")
        made = Published(folder, harmful, names, "--num_workers=2", "--grpc_backend=lean")
    try:
        made.server.wait_until_ready()
        yield made
    finally:
        ended = made.server.stop()
    assert ended == 0


def ask(server: Server, name: str) -> tuple[float, int]:
    request = predict_request(name, a=np.float32([2.0]), b=np.float32([3.0]))
    answer = server.prediction.Predict(request, timeout=20)
    return answer.outputs["sum"].float_val[0], answer.model_spec.version.value


def test_harmful_versions_are_refused_and_the_ones_before_them_serve(published: Published) -> None:
    server = published.server
    with bystanders(server, loads_models=True) as others:
        for name in published.names:
            published.put(name, name, 2)
        for name in published.names:
            server.wait_until(lambda name=name: published.is_refused(name))
        others.served(5)
        assert not others.problems
    for name in published.names:
        code, text = TOLD[name.partition("_")[0]]
        found = published.status(name)
        assert found[1][0] == "AVAILABLE", found
        assert found[2][:2] == ("END", code), found
        assert text in found[2][2]
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = name
        answer = server.model.GetModelStatus(request, timeout=20)
        (version,) = (one for one in answer.model_version_status if one.version == 2)
        assert text in version.status.error_message
        assert ask(server, name) == (5.0, 1)
    lines = server.log.read_text().splitlines()
    # One trial for all workers, and no second one while the files are the same.
    tried = [line for line in lines if " ERROR " in line and PROBES in line]
    assert len(tried) == len(published.names)


def test_a_refused_version_is_tried_again_when_its_files_change(published: Published) -> None:
    server, name = published.server, "abort_load"
    server.wait_until(lambda: published.is_refused(name))
    shutil.rmtree(published.base / name / "2")
    published.put("healthy", name, 2)
    server.wait_until(lambda: published.status(name)[2][0] == "AVAILABLE")
    server.wait_until(lambda: ask(server, name) == (5.0, 2))


def test_a_server_whose_only_version_is_harmful_serves_its_other_models(
    harmful: Path, tmp_path: Path, start: Callable[..., Server]
) -> None:
    for name, kind in (("bad", "abort_load"), ("two_inputs", "healthy")):
        (tmp_path / name).mkdir()
        shutil.copytree(harmful / kind, tmp_path / name / "1")
    config = tmp_path / "models.config"
    config.write_text(config_text({name: str(tmp_path / name) for name in ("bad", "two_inputs")}))
    server = start(f"--model_config_file={config}")
    server.wait_until_open()
    server.wait_for_version("bad", 1, "END")
    server.wait_for_version("two_inputs", 1)
    assert ask(server, "two_inputs") == (5.0, 1)
    with pytest.raises(grpc.RpcError) as caught:
        ask(server, "bad")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_newer_version_does_not_wait_for_one_that_hangs(
    harmful: Path, tmp_path: Path, start: Callable[..., Server]
) -> None:
    (tmp_path / "m").mkdir()
    shutil.copytree(harmful / "hang_load", tmp_path / "m" / "1")
    server = start("--model_name=m", f"--model_base_path={tmp_path / 'm'}")
    server.wait_until_open()
    server.wait_for_version("m", 1, "LOADING")
    shutil.copytree(harmful / "healthy", tmp_path / "temp")
    (tmp_path / "temp").rename(tmp_path / "m" / "2")
    server.wait_for_version("m", 2)  # the first one would be waited for for five minutes
    assert ask(server, "m") == (5.0, 2)


def test_one_that_crashes_for_some_requests_takes_a_worker_and_no_more(
    harmful: Path, tmp_path: Path, start: Callable[..., Server]
) -> None:
    def crash(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="as was asked for")]):
            return tf.identity(x)

    (tmp_path / "bad").mkdir()
    hostile.write_on_demand(tmp_path / "bad" / "1", crash)
    (tmp_path / "two_inputs").mkdir()
    shutil.copytree(harmful / "healthy", tmp_path / "two_inputs" / "1")
    config = tmp_path / "models.config"
    config.write_text(config_text({name: str(tmp_path / name) for name in ("bad", "two_inputs")}))
    server = start(f"--model_config_file={config}", "--num_workers=2")
    server.wait_until_ready()
    for count in (1, 2):
        with pytest.raises(grpc.RpcError) as caught:
            server.prediction.Predict(predict_request("bad", x=np.float32([2e6])), timeout=30)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        for _ in range(10):  # new connections go to the other one
            url = server.url("/v1/models/two_inputs:predict")
            answer = requests.post(url, json={"instances": [{"a": 1, "b": 2}]}, timeout=30)
            assert answer.json()["predictions"][0]["sum"] == 3.0
        # It is ready with one worker, too: the next crash would leave none.
        server.wait_until(lambda n=count: server.log.read_text().count("answers again") == n)
    assert ask(server, "two_inputs") == (5.0, 1)
