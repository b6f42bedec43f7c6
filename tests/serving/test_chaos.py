"""What clients see when a process is killed, a disk is full, or a version is not what it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests

from tests.serving.lifecycle.test_reload import place
from tests.serving.running import Server, predict_request, wait_until_gone, workers_of


class Clients:
    """Ask without pause, over gRPC and REST, until `stop`; keep what they see."""

    def __init__(self, server: Server, patient: bool = False) -> None:
        self.seen: set[tuple[float, int]] = set()
        self.errors: list[str] = []
        self._server = server
        self._stop = threading.Event()
        # A client that waits for a connection instead of failing while there is none.
        self._options = {"timeout": 20, "wait_for_ready": patient}
        asks = (self._ask_grpc, self._ask_rest)
        self._threads = [threading.Thread(target=self._repeat, args=(ask,)) for ask in asks]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, ask) -> None:
        with requests.Session() as http:
            while not self._stop.is_set():
                try:
                    ask(http)
                except (grpc.RpcError, requests.RequestException) as error:
                    code = error.code().name if isinstance(error, grpc.RpcError) else ""
                    self.errors.append(code or type(error).__name__)
                time.sleep(0.002)

    def _ask_grpc(self, _: requests.Session) -> None:
        request = predict_request("m", x=np.float32([2.0]))
        response = self._server.prediction.Predict(request, **self._options)
        self.seen.add((response.outputs["y"].float_val[0], response.model_spec.version.value))

    def _ask_rest(self, http: requests.Session) -> None:
        url = self._server.url("/v1/models/m:predict")
        answer = http.post(url, json={"instances": [2.0]}, timeout=20)
        if answer.ok:
            assert answer.json()["predictions"][0] in (3.0, 4.0)
        else:
            self.errors.append(str(answer.status_code))


def answer(server: Server) -> tuple[float, int]:
    request = predict_request("m", x=np.float32([2.0]))
    response = server.prediction.Predict(request, timeout=20)
    return response.outputs["y"].float_val[0], response.model_spec.version.value


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chaos") / "m"


@pytest.fixture(scope="module")
def served(models: Path, base: Path) -> Iterator[Server]:
    """Version 1 is half plus two; a test that adds others takes them away again."""
    place(models / "half_plus_two" / "00000123", base / "1")
    server = Server(
        base.with_name("log"),
        "--model_name=m",
        f"--model_base_path={base}",
        "--max_num_load_retries=0",
    )
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def _no_variables(version: Path) -> None:
    shutil.rmtree(version / "variables")


def _cut_variables(version: Path) -> None:
    (data,) = (version / "variables").glob("variables.data*")
    data.write_bytes(data.read_bytes()[:3])


def _damaged_variables(version: Path) -> None:
    (data,) = (version / "variables").glob("variables.data*")
    data.write_bytes(bytes(byte ^ 0x55 for byte in data.read_bytes()))


def _cut_graph(version: Path) -> None:
    graph = version / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-40])


def _empty(version: Path) -> None:
    shutil.rmtree(version)
    version.mkdir()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("number", "damage"),
    list(
        enumerate([_no_variables, _cut_variables, _damaged_variables, _cut_graph, _empty], start=10)
    ),
)
def test_a_new_version_that_is_damaged_is_reported_and_the_old_one_serves(
    served: Server, models: Path, base: Path, tmp_path: Path, number: int, damage
) -> None:
    made = tmp_path / "made"
    shutil.copytree(models / "half_plus_three" / "1", made)
    damage(made)
    with Clients(served) as clients:
        place(made, base / str(number))
        served.wait_for_version("m", number, "END")
    assert not clients.errors
    assert clients.seen == {(3.0, 1)}
    states = served.get("/v1/models/m").json()["model_version_status"]
    state = next(one for one in states if one["version"] == str(number))
    assert state["status"]["error_code"] != "OK"
    assert state["status"]["error_message"]
    shutil.rmtree(base / str(number))


def test_files_of_the_served_version_that_change_are_not_looked_at(
    served: Server, base: Path
) -> None:
    graph = base / "1" / "saved_model.pb"
    kept = graph.read_bytes()
    graph.write_bytes(b"something else")
    time.sleep(1.2)  # one look at the disk
    assert answer(served) == (3.0, 1)
    graph.write_bytes(kept)


def test_when_the_newest_version_is_deleted_the_one_before_takes_over(
    served: Server, models: Path, base: Path
) -> None:
    with Clients(served) as clients:
        place(models / "half_plus_three" / "1", base / "20")
        served.wait_for_version("m", 20)
        served.wait_until(lambda: answer(served) == (4.0, 20))
        shutil.rmtree(base / "20")
        served.wait_for_version("m", 20, "END")
    assert not clients.errors
    assert clients.seen == {(3.0, 1), (4.0, 20)}
    assert answer(served) == (3.0, 1)


def test_a_base_path_that_is_gone_changes_nothing(served: Server, base: Path) -> None:
    away = base.with_name("away")
    os.rename(base, away)
    with Clients(served) as clients:
        time.sleep(1.2)
    os.rename(away, base)
    assert not clients.errors
    assert clients.seen == {(3.0, 1)}


def test_when_the_only_version_is_deleted_there_is_no_model_until_one_comes(
    served: Server, models: Path, base: Path
) -> None:
    away = base.with_name("only")
    os.rename(base / "1", away)
    served.wait_for_version("m", 1, "END")
    with pytest.raises(grpc.RpcError) as caught:
        answer(served)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "Servable not found for request: Latest(m)"
    assert served.post("/v1/models/m:predict", {"instances": [2.0]}).status_code == 404
    assert served.get("/readyz").status_code == 503
    assert served.get("/livez").ok
    os.rename(away, base / "1")
    served.wait_until_ready()
    assert answer(served) == (3.0, 1)


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    made = subprocess.run(["mount", *options], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no disk of its own can be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_on_a_full_disk_the_served_version_serves_and_nothing_is_logged(
    start, models: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, 1):
        base, logs = disk / "m", disk / "logs"
        place(models / "half_plus_two" / "00000123", base / "1")
        server: Server = start(
            "--model_name=m",
            f"--model_base_path={base}",
            "--max_num_load_retries=0",
            f"--request_log_dir={logs}",
            "--request_log_sampling_rate=1",
        )
        server.wait_until_ready()
        with Clients(server) as clients:
            with contextlib.suppress(OSError), (disk / "filler").open("wb", 0) as filler:
                while True:
                    filler.write(bytes(4096))
            assert shutil.disk_usage(disk).free == 0
            # A version that could not be written to the end.
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(models / "half_plus_three" / "1", base / "2")
            assert (base / "2").exists()
            server.wait_for_version("m", 2, "END")
            server.wait_until(lambda: "Requests are not logged" in server.log.read_text())
        assert not clients.errors
        assert clients.seen == {(3.0, 1)}
        # There is room again: the whole version comes under another number.
        (disk / "filler").unlink()
        place(models / "half_plus_three" / "1", base / "3")
        server.wait_for_version("m", 3)
        server.wait_until(lambda: answer(server) == (4.0, 3))
        assert server.stop() == 0


@pytest.mark.slow
def test_a_worker_that_is_killed_takes_only_its_own_requests_along(
    start, models: Path, tmp_path: Path
) -> None:
    place(models / "half_plus_two" / "00000123", tmp_path / "m" / "1")
    server: Server = start(
        "--model_name=m",
        f"--model_base_path={tmp_path / 'm'}",
        "--num_workers=2",
        "--grpc_backend=grpcio",
    )
    server.wait_until_ready()
    before = workers_of(server)
    assert len(before) == 2
    with Clients(server, patient=True) as clients:
        time.sleep(0.3)
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        server.wait_until(lambda: killed not in workers_of(server))
        # The other one answers while the next is being started.
        assert server.post("/v1/models/m:predict", {"instances": [2.0]}).ok
        time.sleep(0.3)
    assert clients.seen == {(3.0, 1)}
    # Each client had at most one request on its way, and those on a killed connection are lost.
    assert len(clients.errors) <= 2
    assert set(clients.errors) <= {"UNAVAILABLE", "ConnectionError"}
    # Nobody is left to watch them: they end by themselves.
    left = workers_of(server)
    server.process.kill()
    wait_until_gone(left)
