"""TensorFlow's own profiler client against a server, on both back ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from estimand.serving.grpc import profiling
from tests.serving.running import Server, predict_request

PATH = f"/{profiling.SERVICE}/"
TOKEN = ("x-api-key", "0123456789abcdef")


@pytest.fixture(scope="module", params=["grpcio", "lean"])
def profiled(
    request: pytest.FixtureRequest, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("profiled") / "log"
    model = ("--model_name=m", f"--model_base_path={models / 'two_inputs'}")
    server = Server(log, *model, f"--grpc_backend={request.param}")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


class Asking:
    """Another client, who asks all the while and must get right answers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.wrong: list[object] = []

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self.wrong

    def _ask(self) -> None:
        request = predict_request("m", a=np.float32([1.0]), b=np.float32([2.0]))
        while not self._over.is_set():
            found = self._server.prediction.Predict(request, timeout=20).outputs["sum"]
            if found.float_val[:] != [3.0]:
                self.wrong.append(found)


def names_in(profile: bytes) -> set[str]:
    space = xplane_pb2.XSpace.FromString(profile)
    return {
        plane.event_metadata[event.metadata_id].name
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    }


def call(server: Server, method: str, message: object, **more: object) -> bytes:
    ask = server.channel.unary_unary(PATH + method)
    return ask(message.SerializeToString(), timeout=60, **more)


def request(milliseconds: int, session: str = "s", **more: object) -> object:
    kind = profiling._kind("ProfileRequest")
    made = kind(session_id=session, **more)
    made.opts.version, made.opts.host_tracer_level = 1, 2
    made.opts.duration_ms = milliseconds
    return made


def test_tensorflows_client_captures_a_profile(profiled: Server, tmp_path: Path) -> None:
    with Asking(profiled):
        address = f"grpc://127.0.0.1:{profiled.port}"
        tf.profiler.experimental.client.trace(address, str(tmp_path), 500)
    (profile,) = tmp_path.rglob("*.xplane.pb")  # where TensorBoard looks for it
    assert "plugins/profile" in str(profile)
    seen = names_in(profile.read_bytes())
    assert any("SessionRun" in name or "AddV2" in name or "add" in name for name in seen), seen


def test_what_the_client_names_is_not_written(profiled: Server, tmp_path: Path) -> None:
    answer = profiling._kind("ProfileResponse").FromString(
        call(profiled, "Profile", request(20, emit_xspace=True))
    )
    assert not answer.tool_data
    assert answer.empty_trace == (not names_in(answer.xspace))
    raw = request(20).SerializeToString() + b"\x2a" + bytes([len(str(tmp_path))])
    raw += str(tmp_path).encode()  # repository_root, which TensorFlow's service writes to
    answer = profiled.channel.unary_unary(f"{PATH}Profile")(raw, timeout=60)
    assert not list(tmp_path.iterdir())
    found = profiling._kind("ProfileResponse").FromString(answer)
    assert [one.name for one in found.tool_data] == ["xplane.pb"]


def is_busy(server: Server) -> bool:
    try:
        call(server, "Profile", request(1, "another"))
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.ALREADY_EXISTS
        return True
    return False


def test_one_profile_at_a_time_which_can_be_ended(profiled: Server) -> None:
    ask = profiled.channel.unary_unary(f"{PATH}Profile")
    first = ask.future(request(59_000, "first").SerializeToString(), timeout=60)
    profiled.wait_until(lambda: is_busy(profiled))
    terminate = profiling._kind("TerminateRequest")
    call(profiled, "Terminate", terminate(session_id="another"))
    assert is_busy(profiled)
    call(profiled, "Terminate", terminate(session_id="first"))
    assert first.result(60)


def test_a_client_that_goes_away_ends_its_profile(profiled: Server) -> None:
    ask = profiled.channel.unary_unary(f"{PATH}Profile")
    gone = ask.future(request(59_000).SerializeToString(), timeout=60)
    profiled.wait_until(lambda: is_busy(profiled))
    gone.cancel()
    profiled.wait_until(lambda: not is_busy(profiled))


def test_what_is_refused(profiled: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(profiled, "Profile", request(60_001))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "at most 60000 ms" in caught.value.details()
    with pytest.raises((RuntimeError, tf.errors.OpError), match="UNIMPLEMENTED: unimplemented"):
        tf.profiler.experimental.client.monitor(f"grpc://127.0.0.1:{profiled.port}", 100, 1)


def test_a_profile_ends_when_it_takes_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = iter([0, 0, 2**40])
    monkeypatch.setattr(profiling, "_resident_bytes", lambda: next(grown))

    async def take() -> None:
        await asyncio.wait_for(profiling._until_over(asyncio.Event(), 3600.0), 60)

    asyncio.run(take())


@pytest.mark.parametrize("backend", ["grpcio", "lean"])
def test_it_needs_a_token_where_all_do_and_can_be_turned_off(
    start, models: Path, tmp_path: Path, backend: str
) -> None:
    (tmp_path / "tokens").write_text(TOKEN[1])
    model = ("--model_name=m", f"--model_base_path={models / 'two_inputs'}")
    guarded = start(*model, f"--grpc_backend={backend}", f"--auth_tokens_file={tmp_path}/tokens")
    without = start(*model, f"--grpc_backend={backend}", "--enable_profiler=false")
    for server, code in ((guarded, "UNAUTHENTICATED"), (without, "UNIMPLEMENTED")):
        server.wait_until_ready()
        with pytest.raises(grpc.RpcError) as caught:
            call(server, "Profile", request(1))
        assert caught.value.code().name == code
    assert call(guarded, "Profile", request(1), metadata=[TOKEN])
