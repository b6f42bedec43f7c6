"""The server's process: it listens, says where, and on SIGTERM ends in good order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimand.core.errors import ConfigError, MissingExtraError
from estimand.serving.flags import Flags
from estimand.serving.process import log_floods
from estimand.serving.process.addresses import address_lines, grpc_addresses, processes_line

if TYPE_CHECKING:
    from estimand.serving.large_json.by_size import JsonBySize
    from estimand.serving.lifecycle.config import ModelSettings
    from estimand.serving.lifecycle.manager import Manager
    from estimand.serving.probing.prober import Host
    from estimand.serving.process.worker import Membership
    from estimand.serving.rest.listener import RestServer

log = logging.getLogger("estimand.serving")
_SECONDS_TO_UNLOAD = 10.0
_SWITCH_SECONDS = 0.0005
_SECONDS_BETWEEN_COUNTS = 10.0
_OPEN_TO_ALL = tuple(f"/grpc.health.v1.Health/{name}" for name in ("Check", "Watch", "List"))
_HEALTH_NAMES = ("", "ModelService", "PredictionService")


def serve(
    flags: Flags, say: Callable[[str], object] = print, *, process_is_fresh: bool = False
) -> bool:
    """Serve until SIGTERM or Ctrl-C; whether it was that.

    `say` is given the addresses, once they are open, and each version that is ready.

    `process_is_fresh` says that TensorFlow was imported here, and no more: then the process can be
    forked, and versions are tried at once, without importing TensorFlow once more for that.

    Args:
      flags: what `estimand serve` takes, as one object.
      say: called with each line to print.
      process_is_fresh: whether TensorFlow was imported here and nothing else done.
    """
    flags = flags.check()
    say = _said_or_not(say)
    if flags.model_config_file and flags.model_base_path:  # as containers' entry points have it
        log.info("--model_base_path is not looked at: there is a --model_config_file.")
    from estimand.serving.process import workers

    if flags.num_workers > 1 and not workers.is_worker():
        return workers.supervise(flags, say, address_lines(flags, _first_settings(flags)))
    require_packages()
    settings = _first_settings(flags)
    from estimand.serving.lifecycle import manager  # noqa: F401  before probes are forked
    from estimand.serving.probing.prober import Host

    host = Host.first(flags, process_is_fresh)
    _look_for_devices()
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):  # Windows has none
        import uvloop

        make_loop = uvloop.new_event_loop
    with log_floods.limited() as floods, asyncio.Runner(loop_factory=make_loop) as runner:
        server = _Server(flags, say, floods)
        runner.run(server.run(settings, host))
        return server.is_interrupted


def _said_or_not(say: Callable[[str], object]) -> Callable[[str], object]:
    """A full disk, or a pipe that nobody reads, is no reason not to serve."""

    def try_to_say(line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            say(line)

    return try_to_say


def _look_for_devices() -> None:
    """After probes have a process of their own: CUDA does not survive that one is forked."""
    from estimand.core import lines_of_old, tf_private

    if not lines_of_old.is_verbose():
        tf_private.look_for_devices_quietly()


def require_packages() -> None:
    for package, name in (
        ("grpc", "grpcio"),
        ("grpc_health", "grpcio-health-checking"),
        ("tensorflow_serving", "tensorflow-serving-api"),
        ("orjson", "orjson"),
        ("httptools", "httptools"),
    ):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingExtraError("serving models", "serve", name) from error


class _Server:
    def __init__(
        self,
        flags: Flags,
        say: Callable[[str], object],
        floods: log_floods.Floods | None = None,
    ) -> None:
        from estimand.serving.access.auth import Tokens
        from estimand.serving.access.certificates import Certificates
        from estimand.serving.access.connection_limits import ConnectionLimits, most_connections
        from estimand.serving.access.request_memory import RequestMemory
        from estimand.serving.metrics import Metrics
        from estimand.serving.process.worker import WorkerSetup

        self._flags = flags
        self._say = say
        self._floods = floods or log_floods.Floods()
        self._metrics = Metrics()
        self._memory = RequestMemory(flags.max_pending_bytes)
        self._connection_limits = ConnectionLimits(most_connections())
        self._tokens = Tokens(flags.auth_tokens_file) if flags.auth_tokens_file else None
        self._worker_setup = WorkerSetup.take()
        last = self._worker_setup.certificates if self._worker_setup else {}
        tls, rest_tls = flags.ssl_config_file, flags.rest_api_ssl_config_file
        self._grpc_tls = Certificates(tls, last.get(tls)) if tls else None
        self._rest_tls = Certificates(rest_tls, last.get(rest_tls)) if rest_tls else None
        self._members: Membership | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = asyncio.Event()
        self.is_interrupted = False
        self._serving = True
        self._grpc: Any = None
        self._health: Any = None
        self._rest: RestServer | None = None
        self._large_json: JsonBySize | None = None

    async def run(self, settings: dict[str, ModelSettings], host: Host | None) -> None:
        import numpy as np

        from estimand.serving.inference.request_log import RequestLog
        from estimand.serving.lifecycle import config as model_config
        from estimand.serving.lifecycle.manager import Manager
        from estimand.serving.probing.prober import Prober

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, number)
        index = self._worker_setup.index if self._worker_setup else 0
        manager = Manager(self._flags, RequestLog(self._flags, self._metrics, index))
        if index == 0:  # of several that load the same, one says it
            manager.tell_ready = self._tell_ready
        if host is not None:
            manager.prober = Prober(self._flags, host)
        manager.named_base_paths |= model_config.base_paths(settings)
        np.seterr(all="ignore")  # numbers that overflow are looked for, and are no warning
        # While a version loads, the loop waits so long for each turn of its own: the usual 5 ms
        # would be what a request takes.
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is there now stays; looking through it again costs requests time
        await self._begin(manager, settings)
        self._tasks.append(asyncio.create_task(self._tell_health(manager), name="health"))
        self._tasks.append(asyncio.create_task(self._tell_counts(), name="log"))
        try:
            await self._ending.wait()
            await self._drain()
        finally:
            for task in self._tasks:
                task.cancel()
            # A model that never answers must not keep the process.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(manager.stop(), _SECONDS_TO_UNLOAD)
            if self._large_json is not None:
                self._large_json.stop()
            if self._members is not None:
                await self._members.leave()

    async def _begin(self, manager: Manager, settings: dict[str, ModelSettings]) -> None:
        if self._worker_setup is None:
            await self._listen(manager)
            manager.start(settings)
            for line in (*address_lines(self._flags, settings), processes_line(self._flags)):
                self._say(line)
            return
        from estimand.serving.process.worker import Membership

        self._members = Membership(self._worker_setup, manager, self._metrics, self._ending.set)
        settings = await self._members.join() or settings
        if self._worker_setup.replaces:  # the others answer until this one can
            manager.start(settings)
            await asyncio.wait(
                [manager.first, asyncio.ensure_future(self._ending.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await self._listen(manager)
        else:
            await self._listen(manager)
            manager.start(settings)
        self._tasks.append(asyncio.create_task(self._members.follow(), name="watcher"))
        await self._members.is_listening()

    def _end(self, number: int) -> None:
        self.is_interrupted = number == signal.SIGINT
        self._ending.set()

    def _tell_ready(self, name: str, number: int, seconds: float) -> None:
        self._say(f"{name} {number} ready in {seconds:.1f} s")

    # ------------------------------------------------------------ listening

    async def _listen(self, manager: Manager) -> None:
        flags = self._flags
        if flags.port or flags.grpc_socket_path:
            listen = self._listen_lean if flags.is_lean else self._listen_grpc
            await listen(manager)
        if flags.rest_api_port:
            await self._listen_rest(manager)

    async def _listen_grpc(self, manager: Manager) -> None:
        import grpc

        from estimand.serving.grpc.face import GrpcFace, channel_arguments, grpcio_handlers

        flags = self._flags
        guards = [self._tokens.interceptor(_OPEN_TO_ALL)] if self._tokens else []
        server = grpc.aio.server(interceptors=guards, options=channel_arguments(flags))
        face = GrpcFace(manager, self._metrics, flags)
        server.add_generic_rpc_handlers(grpcio_handlers(face.table(), face.starts()))
        if flags.enable_grpc_healthcheck_service:
            from grpc_health.v1 import health, health_pb2_grpc

            self._health = health.aio.HealthServicer()
            health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        for address in grpc_addresses(flags):
            try:
                if self._grpc_tls is None:
                    server.add_insecure_port(address)
                else:
                    server.add_secure_port(address, self._grpc_tls.grpcio_credentials())
            except RuntimeError as error:
                raise ConfigError(
                    f"gRPC cannot listen on {address}; is another server there? Set another "
                    f"--port. ({error})"
                ) from error
        await server.start()
        self._grpc = server

    async def _listen_lean(self, manager: Manager) -> None:
        try:
            import hpack  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("--grpc_backend=lean", "serve", "hpack") from error
        from estimand.serving.grpc.face import GrpcFace
        from estimand.serving.lean.health import Health
        from estimand.serving.lean.limits import Limits
        from estimand.serving.lean.listener import LeanServer
        from estimand.serving.lean.streams import Streaming, Unary

        flags = self._flags
        face = GrpcFace(manager, self._metrics, flags)
        table: dict[str, Unary | Streaming] = {
            **{path: Unary(answer) for path, answer in face.table().items()},
            **{path: Unary(start=start) for path, start in face.starts().items()},
        }
        if flags.enable_grpc_healthcheck_service:
            self._health = Health()
            table |= self._health.table()
        server = self._grpc = LeanServer(
            table,
            Limits.of(flags),
            memory=self._memory,
            connection_limits=self._connection_limits,
            admission=self._tokens,
        )
        tls = self._grpc_tls.context() if self._grpc_tls else None
        setup = self._worker_setup
        try:
            if setup and setup.grpc:
                await server.listen_on(setup.grpc, tls)
            elif flags.port:
                await server.listen(flags.host, flags.port, tls)
            if setup and setup.grpc_unix:
                await server.listen_on(setup.grpc_unix, tls)
            elif flags.grpc_socket_path:
                await server.listen_unix(flags.grpc_socket_path, tls)
        except OSError as error:
            raise ConfigError(
                f"gRPC cannot listen: {error}; is another server there? Set another --port."
            ) from error

    async def _listen_rest(self, manager: Manager) -> None:
        from estimand.serving.large_json.by_size import JsonBySize
        from estimand.serving.rest.api import Api
        from estimand.serving.rest.listener import RestServer
        from estimand.serving.rest.shared import RestLimits

        flags = self._flags
        try:
            listening = self._rest_socket()
        except OSError as error:
            raise ConfigError(
                f"REST cannot listen on {flags.host}:{flags.rest_api_port}: {error}. Set another "
                "--rest_api_port."
            ) from error
        self._large_json = JsonBySize.of(flags)
        api = Api(
            manager,
            self._metrics,
            flags,
            lambda: self._serving,
            self._memory,
            self._large_json,
            admits=self._tokens.allow if self._tokens else None,
            refresh=self._members.refresh_metrics if self._members else None,
        )
        self._rest = RestServer(
            api.start, RestLimits.of(flags), self._memory, self._connection_limits
        )
        await self._rest.listen_on(listening, self._rest_tls.context() if self._rest_tls else None)

    def _rest_socket(self) -> socket.socket:
        if self._worker_setup and self._worker_setup.rest:
            return self._worker_setup.rest
        host, port = self._flags.host, self._flags.rest_api_port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)

    # ------------------------------------------------------------ health, and the end

    async def _tell_health(self, manager: Manager) -> None:
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

    async def _tell_counts(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_COUNTS)
            self._floods.tell_counts()

    async def _drain(self) -> None:
        """New connections are refused, running requests end."""
        self._serving = False
        if self._health is not None:
            await self._health.enter_graceful_shutdown()
        await asyncio.sleep(self._flags.shutdown_delay_seconds)
        ends: list[Any] = []
        if self._members is not None:
            ends.append(self._members.is_listening(False))
        if self._grpc is not None:
            ends.append(self._grpc.stop(self._flags.drain_seconds))
        if self._rest is not None:
            ends.append(self._rest.stop(self._flags.drain_seconds))
        await asyncio.gather(*ends, return_exceptions=True)


def _first_settings(flags: Flags) -> Any:
    from estimand.serving.lifecycle import config as model_config
    from estimand.serving.protos import text_protos
    from estimand.serving.status import StatusError

    if not flags.model_config_file:
        return model_config.from_flags(flags)
    message = text_protos.read_model_server_config(flags.model_config_file)
    try:
        return model_config.from_message(message, flags) or {}
    except StatusError as error:
        raise ConfigError(f"{flags.model_config_file}: {error.text}") from error


def log_to_stderr(verbose: bool) -> None:
    """Warnings and errors of the server on standard error; with `verbose`, each step."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO if verbose else logging.WARNING)
