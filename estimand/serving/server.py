"""The server's process: it listens, says where, and on SIGTERM ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from estimand.core.errors import ConfigError, MissingExtraError
from estimand.serving.flags import Flags

log = logging.getLogger("estimand.serving")
_SECONDS_TO_UNLOAD = 10.0
_HEALTH_NAMES = ("", "ModelService", "PredictionService")


def serve(flags: Flags, say: Callable[[str], object] = print) -> None:
    """Serve until SIGTERM or Ctrl-C. `say` is given the addresses, once they are open."""
    flags.check()
    require_packages()
    settings = _first_settings(flags)
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):  # Windows has none
        import uvloop

        make_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(_Server(flags, say).run(settings))


def require_packages() -> None:
    for package, name in (
        ("grpc", "grpcio"),
        ("grpc_health", "grpcio-health-checking"),
        ("tensorflow_serving", "tensorflow-serving-api"),
        ("orjson", "orjson"),
        ("uvicorn", "uvicorn"),
        ("httptools", "httptools"),
    ):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingExtraError("serving models", "serve", name) from error


class _Server:
    def __init__(self, flags: Flags, say: Callable[[str], object]) -> None:
        from estimand.serving.metrics import Metrics

        self._flags = flags
        self._say = say
        self._metrics = Metrics()
        self._ending = asyncio.Event()
        self._serving = True
        self._grpc: Any = None
        self._health: Any = None
        self._rest: Any = None
        self._rest_task: asyncio.Task[None] | None = None

    async def run(self, settings: Any) -> None:
        import numpy as np

        from estimand.serving.manager import Manager

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        manager = Manager(self._flags)
        np.seterr(all="ignore")  # numbers that overflow are looked for, and are no warning
        gc.collect()
        gc.freeze()  # what is there now stays; looking through it again costs requests time
        await self._listen(manager)
        manager.start(settings)
        watch = asyncio.create_task(self._tell_health(manager), name="health")
        try:
            await self._ending.wait()
            await self._drain()
        finally:
            watch.cancel()
            # A model that never answers must not keep the process.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(manager.stop(), _SECONDS_TO_UNLOAD)

    # ------------------------------------------------------------ listening

    async def _listen(self, manager: Any) -> None:
        flags = self._flags
        if flags.port or flags.grpc_socket_path:
            listen = self._listen_lean if flags.grpc_backend == "lean" else self._listen_grpc
            await listen(manager)
        if flags.rest_api_port:
            self._listen_rest(manager)
        if flags.host in ("127.0.0.1", "localhost", "::1"):
            self._say("Only this machine can connect. For others: --host=0.0.0.0")

    async def _listen_grpc(self, manager: Any) -> None:
        import grpc

        from estimand.serving.grpc_face import GrpcFace, channel_arguments, grpcio_handlers

        flags = self._flags
        server = grpc.aio.server(options=channel_arguments(flags))
        table = GrpcFace(manager, self._metrics, flags).table()
        server.add_generic_rpc_handlers(grpcio_handlers(table))
        if flags.enable_grpc_healthcheck_service:
            from grpc_health.v1 import health, health_pb2_grpc

            self._health = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        for address in _grpc_addresses(flags):
            try:
                server.add_insecure_port(address)
            except RuntimeError as error:
                raise ConfigError(
                    f"gRPC cannot listen on {address}; is another server there? Set another "
                    f"--port. ({error})"
                ) from error
            self._say(f"gRPC: {address}")
        await server.start()
        self._grpc = server

    async def _listen_lean(self, manager: Any) -> None:
        try:
            import hpack  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("--grpc_backend=lean", "serve", "hpack") from error
        from estimand.serving.grpc_face import GrpcFace
        from estimand.serving.lean.health import Health
        from estimand.serving.lean.limits import Limits
        from estimand.serving.lean.listener import LeanServer
        from estimand.serving.lean.streams import Streaming, Unary

        flags = self._flags
        services = GrpcFace(manager, self._metrics, flags).table()
        table: dict[str, Unary | Streaming] = {path: Unary(services[path]) for path in services}
        if flags.enable_grpc_healthcheck_service:
            self._health = Health()
            table |= self._health.table()
        server = self._grpc = LeanServer(table, Limits.of(flags))
        try:
            if flags.port:
                await server.listen(flags.host, flags.port)
            if flags.grpc_socket_path:
                await server.listen_unix(flags.grpc_socket_path)
        except OSError as error:
            raise ConfigError(
                f"gRPC cannot listen: {error}; is another server there? Set another --port."
            ) from error
        for address in _grpc_addresses(flags):
            self._say(f"gRPC: {address}")

    def _listen_rest(self, manager: Any) -> None:
        import uvicorn

        from estimand.serving.rest_face import RestFace

        flags = self._flags
        try:
            listening = socket.create_server((flags.host, flags.rest_api_port), backlog=2048)
        except OSError as error:
            raise ConfigError(
                f"REST cannot listen on {flags.host}:{flags.rest_api_port}: {error}. Set another "
                "--rest_api_port."
            ) from error
        config = uvicorn.Config(
            RestFace(manager, self._metrics, flags, lambda: self._serving),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=True,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(flags.drain_seconds)),
        )
        self._rest = _uvicorn_in_our_loop(config)
        self._rest_task = asyncio.create_task(self._rest.serve([listening]), name="rest")
        self._say(f"REST: http://{flags.host}:{flags.rest_api_port}/v1/models/NAME")

    # ------------------------------------------------------------ health, and the end

    async def _tell_health(self, manager: Any) -> None:
        if self._health is None:
            return
        from grpc_health.v1 import health_pb2

        states = health_pb2.HealthCheckResponse
        told = None
        while True:
            ready = self._serving and manager.is_ready
            if ready != told:
                told = ready
                for name in _HEALTH_NAMES:
                    await self._health.set(name, states.SERVING if ready else states.NOT_SERVING)
            await asyncio.sleep(0.1)

    async def _drain(self) -> None:
        """New connections are refused, running requests end."""
        self._serving = False
        if self._health is not None:
            await self._health.enter_graceful_shutdown()
        await asyncio.sleep(self._flags.shutdown_delay_seconds)
        ends: list[Any] = []
        if self._grpc is not None:
            ends.append(self._grpc.stop(self._flags.drain_seconds))
        if self._rest_task is not None:
            self._rest.should_exit = True
            ends.append(self._rest_task)
        await asyncio.gather(*ends, return_exceptions=True)


def _first_settings(flags: Flags) -> Any:
    from estimand.serving import model_config, text_protos
    from estimand.serving.status import StatusError

    if not flags.model_config_file:
        return model_config.from_flags(flags)
    message = text_protos.read_model_server_config(flags.model_config_file)
    try:
        return model_config.from_message(message) or {}
    except StatusError as error:
        raise ConfigError(f"{flags.model_config_file}: {error.text}") from error


def _grpc_addresses(flags: Flags) -> list[str]:
    found = []
    if flags.port:
        host = f"[{flags.host}]" if ":" in flags.host else flags.host
        found.append(f"{host}:{flags.port}")
    if flags.grpc_socket_path:
        found.append(f"unix:{flags.grpc_socket_path}")
    return found


def _uvicorn_in_our_loop(config: Any) -> Any:
    import uvicorn

    class InOurLoop(uvicorn.Server):
        """Signals are ours."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return InOurLoop(config)


def log_to_stderr(verbose: bool) -> None:
    """Warnings and errors of the server on standard error; with `verbose`, each step."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if verbose else logging.WARNING)
