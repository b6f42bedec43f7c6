"""Several processes at one address: they are one server to clients, also when one is killed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
import requests
from tensorflow_serving.apis import prediction_service_pb2_grpc

from estimand.core.errors import ConfigError
from estimand.serving import serve
from estimand.serving.flags import Flags
from estimand.serving.process import workers
from estimand.serving.process.addresses import processes_line
from estimand.serving.process.sockets import open_sockets
from estimand.serving.process.worker import Membership, WorkerSetup
from estimand.serving.status import StatusError
from estimand.serving.worker_rpc import WorkerConnection
from tests.serving.lifecycle.test_reload import reload
from tests.serving.running import (
    Server,
    config_text,
    free_port,
    predict_request,
    wait_until_gone,
    workers_of,
)

METRICS = "/monitoring/prometheus/metrics"


def counted(server: Server, model: str) -> int:
    """Answered requests, of all workers together."""
    text = requests.get(server.url(METRICS), timeout=20).text
    found = re.search(rf'request_count{{model_name="{model}",status="OK"}} (\d+)', text)
    return int(found[1]) if found else 0


def ask_alone(server: Server, model: str) -> float:
    """On a connection of its own: any worker may take it."""
    url = server.url(f"/v1/models/{model}:predict")
    return requests.post(url, json={"instances": [2.0]}, timeout=20).json()["predictions"][0]


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With the lean back end; `test_chaos` has one with the other."""
    folder = tmp_path_factory.mktemp("workers")
    config = folder / "models.config"
    config.write_text(config_text({"m": str(models / "half_plus_two")}))
    running = Server(
        folder / "log",
        f"--model_config_file={config}",
        "--grpc_backend=lean",
        "--num_workers=2",
        f"--reload_config_base_path={models}",
        f"--grpc_socket_path={folder / 'socket'}",
    )
    running.folder = folder
    try:
        running.wait_until_ready()
        pids = workers_of(running)
        assert len(pids) == 2
        yield running
        pids = workers_of(running)
    finally:
        ended = running.stop()
    wait_until_gone(pids)
    assert ended == 0
    assert not (folder / "socket").exists()


class Load:
    """Clients that ask without a pause, each on its own connection."""

    def __init__(self, server: Server, threads: int) -> None:
        self.answers = 0
        self.failures: list[Exception] = []
        self._server = server
        self._stop = threading.Event()
        asks = [self._ask_grpc, self._ask_rest]
        self._threads = [threading.Thread(target=asks[i % 2]) for i in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask_grpc(self) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        with grpc.insecure_channel(f"127.0.0.1:{self._server.port}", options) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            request = predict_request("m", x=np.float32([2.0]))

            def ask() -> float:
                return stub.Predict(request, timeout=20).outputs["y"].float_val[0]

            self._repeat(ask)

    def _ask_rest(self) -> None:
        url = self._server.url("/v1/models/m:predict")
        with requests.Session() as session:

            def ask() -> float:
                answer = session.post(url, json={"instances": [2.0]}, timeout=20)
                assert answer.ok, answer.text
                return answer.json()["predictions"][0]

            self._repeat(ask)

    def _repeat(self, ask) -> None:
        while not self._stop.is_set():
            try:
                assert ask() == 3.0
                self.answers += 1
            except Exception as error:
                self.failures.append(error)
            time.sleep(0.002)


@pytest.mark.slow
def test_a_worker_killed_under_load_fails_only_what_it_was_answering(server: Server) -> None:
    server.wait_until_ready()
    killed, other = workers_of(server)
    with Load(server, 8) as load:
        server.wait_until(lambda: load.answers > 100)
        before = counted(server, "m")
        os.kill(killed, signal.SIGKILL)
        after = load.answers
        server.wait_until(lambda: load.answers > after + 100)
        server.wait_until(lambda: len(workers_of(server)) == 2)
        server.wait_until(lambda: load.answers > after + 400)
    # One request on each connection can be under way; gRPC may see its connection end twice.
    assert len(load.failures) <= 2 * 8
    for failure in load.failures:
        if isinstance(failure, grpc.RpcError):
            assert failure.code() is grpc.StatusCode.UNAVAILABLE
        else:
            assert isinstance(failure, requests.ConnectionError)
    server.wait_until_ready()
    assert other in workers_of(server)
    assert killed not in workers_of(server)
    assert "ended with signal 9; another takes its place" in server.log.read_text()
    assert counted(server, "m") >= before  # what the dead one had counted is not forgotten


def test_every_worker_tells_the_counts_of_all(server: Server) -> None:
    server.wait_until_ready()
    before = counted(server, "m")
    for _ in range(20):
        ask_alone(server, "m")
    assert {counted(server, "m") for _ in range(10)} == {before + 20}
    pages = [requests.get(server.url(METRICS), timeout=20).text for _ in range(10)]
    assert len({text.splitlines()[-1] for text in pages}) == 1  # when the first of them started
    assert pages[0].splitlines()[-1].startswith("process_start_time_seconds ")


@pytest.mark.full
def test_a_reload_by_call_reaches_all_workers_and_those_to_come(
    server: Server, models: Path
) -> None:
    server.wait_until_ready()
    both = {"m": str(models / "half_plus_two"), "three": str(models / "half_plus_three")}
    reload(server, config_text(both))
    assert {ask_alone(server, "three") for _ in range(20)} == {4.0}
    with pytest.raises(grpc.RpcError, match="multiple times in config list"):
        reload(server, config_text({"m": "/x"}).replace("}\n}", "}\n" + _entry("m", "/x") + "}"))
    assert {ask_alone(server, "three") for _ in range(10)} == {4.0}
    os.kill(workers_of(server)[0], signal.SIGKILL)
    loaded = "three version 1: AVAILABLE"
    server.wait_until(lambda: server.log.read_text().count(loaded) == 3)
    server.wait_until_ready()
    assert {ask_alone(server, "three") for _ in range(20)} == {4.0}


def _entry(name: str, path: str) -> str:
    return config_text({name: path}).removeprefix("model_config_list {\n").removesuffix("}\n")


@pytest.mark.slow
@pytest.mark.full
def test_while_all_workers_are_replaced_nobody_waits_for_them(server: Server) -> None:
    server.wait_until_ready()
    killed = workers_of(server)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until_gone(killed)
    outcomes = set()

    def is_back() -> bool:
        try:
            outcomes.add(ask_alone(server, "m"))
        except requests.ConnectionError:
            outcomes.add("refused")
        return 3.0 in outcomes

    server.wait_until(is_back)
    assert outcomes == {"refused", 3.0}  # and nobody's patience ended
    server.wait_until(lambda: server.log.read_text().count("answers again") >= 2)


def test_the_unix_socket_is_shared(server: Server) -> None:
    path = server.folder / "socket"
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(predict_request("m", x=np.float32([2.0])), timeout=20)
    assert answer.outputs["y"].float_val[0] == 3.0


# ---------------------------------------------------------------- without servers


@pytest.mark.parametrize("backend", ["lean", "grpcio"])
def test_a_port_that_is_taken_is_told(backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = Flags(port=taken.getsockname()[1], grpc_backend=backend, num_workers=2)
        with pytest.raises(ConfigError, match="is another server there"):
            open_sockets(flags)


def test_workers_that_cannot_start_end_the_start(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    flags = Flags(model_base_path="/m", num_workers=2, port=free_port())
    with pytest.raises(ConfigError, match=r"Worker \d could not start: it ended with exit code 1"):
        serve(flags)


def test_a_worker_that_is_silent_is_killed(monkeypatch) -> None:
    monkeypatch.setattr(workers, "_SECONDS_FOR_A_STATE", 0.01)
    killed = []

    async def silent(_: object) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        flags = Flags(num_workers=2, worker_timeout_seconds=0.2)
        supervisor = workers._Supervisor(flags, workers.Sockets(), print, [])
        process = SimpleNamespace(kill=lambda: killed.append("killed"))
        worker = supervisor._workers[0] = workers._Worker(0, process, replaces=False)
        worker.has_joined = True
        left, right = socket.socketpair()
        async with (
            WorkerConnection(left, {}) as worker.connection,
            WorkerConnection(right, {"state": silent}),
        ):
            watching = asyncio.create_task(supervisor._remember_states())
            while not killed:
                await asyncio.sleep(0.01)
            watching.cancel()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert killed


def test_a_worker_that_says_anything_is_not_silent() -> None:
    """Also while what it is asked for waits behind much else."""
    killed = []

    async def main() -> None:
        flags = Flags(num_workers=2, worker_timeout_seconds=10)
        supervisor = workers._Supervisor(flags, workers.Sockets(), print, [])
        process = SimpleNamespace(kill=lambda: killed.append("killed"))
        worker = workers._Worker(0, process, replaces=False)
        left, right = socket.socketpair()
        async with (
            WorkerConnection(left, supervisor._handlers(worker)) as worker.connection,
            WorkerConnection(right, {}) as asking,
        ):
            await asking.call("config")
            worker.connection.heard -= 60
            await asking.call("others_are_ready")
            supervisor._kill_if_silent(worker)
            assert not killed
            worker.connection.heard -= 60
            supervisor._kill_if_silent(worker)

    asyncio.run(asyncio.wait_for(main(), 20))
    assert killed


def test_however_many_ask_for_counts_the_other_workers_are_asked_once_at_a_time() -> None:
    asked: list[int] = []

    async def main() -> None:
        left, right = socket.socketpair()
        metrics: Any = SimpleNamespace(others=None)
        manager: Any = None

        async def others(_: object) -> int:
            asked.append(len(asked))
            await asyncio.sleep(0.01)
            return len(asked)

        async with WorkerConnection(left, {"others": others}):
            member = Membership(WorkerSetup(right), manager, metrics, lambda: None)
            await member._supervisor.__aenter__()
            first = asyncio.create_task(member.refresh_metrics())
            while not asked:
                await asyncio.sleep(0)
            await asyncio.gather(first, *(member.refresh_metrics() for _ in range(50)))
            assert metrics.others == 2  # they came after the first was asked, and know what is new
            await member.leave()

    asyncio.run(asyncio.wait_for(main(), 20))
    assert len(asked) == 2


def test_grpcio_cannot_share_a_unix_socket() -> None:
    flags = Flags(
        model_base_path="/m", num_workers=2, grpc_socket_path="/tmp/s", grpc_backend="grpcio"
    )
    with pytest.raises(ConfigError, match="Add --grpc_backend=lean"):
        flags.check()


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)])
def test_none_asked_for_means_one_for_every_two_cores(monkeypatch, cores, processes) -> None:
    monkeypatch.setattr("estimand.serving.flags.thread_count", lambda asked: asked or cores)
    assert Flags(model_base_path="/m", num_workers=0).check().num_workers == processes
    assert Flags(model_base_path="/m", num_workers=3).check().num_workers == 3


def test_none_asked_for_means_one_where_processes_could_not_share_a_socket(monkeypatch) -> None:
    monkeypatch.setattr("estimand.serving.flags.thread_count", lambda asked: asked or 16)
    alone = Flags(
        model_base_path="/m", num_workers=0, grpc_socket_path="/tmp/s", grpc_backend="grpcio"
    )
    assert alone.check().num_workers == 1


def test_the_start_says_how_many_processes_there_are_and_how_to_have_more(monkeypatch) -> None:
    for module in ("flags", "process.addresses"):
        name = f"estimand.serving.{module}.thread_count"
        monkeypatch.setattr(name, lambda asked: asked or 8)
    assert processes_line(Flags()).startswith("1 process on 8 cores")
    assert processes_line(Flags()).endswith(
        "For 4, each with its own copy of the models: --num_workers=0"
    )
    assert processes_line(Flags(num_workers=4)).startswith("4 processes on 8 cores")


def test_who_only_watches_does_not_load_tensorflow() -> None:
    program = (
        "import sys\n"
        "from estimand.serving.flags import Flags\n"
        "from estimand.serving.process import addresses, server, workers\n"
        "settings = server._first_settings(Flags(model_base_path='/models/half'))\n"
        "print(list(settings), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "['default'] False\n", done.stderr


def test_a_connection_carries_errors_and_tells_when_the_other_end_is_gone() -> None:
    async def fail(_: object) -> None:
        raise StatusError.of("NOT_FOUND", "no such thing")

    async def main() -> tuple[str, str]:
        left, right = socket.socketpair()
        async with WorkerConnection(left, {}) as asking:
            async with WorkerConnection(right, {"fail": fail}):
                with pytest.raises(StatusError) as first:
                    await asking.call("fail")
            await asking.closed.wait()
            with pytest.raises(StatusError) as second:
                await asking.call("fail")
        return first.value.name, second.value.name

    assert asyncio.run(main()) == ("NOT_FOUND", "UNAVAILABLE")
