"""All models: finding the version a request means, following the configuration and the disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from estimand.core.errors import EstimandError
from estimand.serving.batching.batches import BatchSettings
from estimand.serving.batching.lane import Waiting
from estimand.serving.flags import Flags, thread_count
from estimand.serving.inference import warmup
from estimand.serving.inference.request_log import RequestLog
from estimand.serving.lifecycle import config as model_config
from estimand.serving.lifecycle.config import ModelSettings
from estimand.serving.lifecycle.model import Loading, Model
from estimand.serving.models.loaded_version import LoadedVersion, Running
from estimand.serving.models.loader import ServableLoader, own_batching_parameters
from estimand.serving.probing.prober import Prober
from estimand.serving.protos import text_protos
from estimand.serving.status import (
    StatusError,
    failed_precondition,
    from_exception,
    invalid,
    not_found,
)

log = logging.getLogger("estimand.serving")
_POOL_OF_LOOPS = 4  # threads a CPU: one model may keep as many as there are CPUs


class Manager:
    """Lives in the event loop; `start` and `stop` frame its life."""

    def __init__(self, flags: Flags, log_of_requests: RequestLog | None = None) -> None:
        self.flags = flags
        self.requests = log_of_requests or RequestLog(flags)
        # With several processes: a reload by call goes to all of them.
        self.others_are_ready = True
        self.share_reload: Callable[[bytes], Awaitable[None]] | None = None
        self.tell_ready: Callable[[str, int, float], object] = lambda *_: None
        self.prober: Prober | None = None  # without one, versions are loaded as they come
        # What whoever runs the server has named, by flags or in the configuration file.
        self.named_base_paths: set[str] = set()
        self._loader = ServableLoader(flags)
        self.models: dict[str, Model] = {}
        self.settings: dict[str, ModelSettings] = {}
        self.cpus = thread_count(flags.inference_threads)
        self._inference = ThreadPoolExecutor(self.cpus, "estimand-inference")
        # Apart from the others: a long load must not stand before requests.
        self._housekeeping = ThreadPoolExecutor(2 + max(1, flags.num_load_threads), "estimand-load")
        self._loops = ThreadPoolExecutor(_POOL_OF_LOOPS * self.cpus, "estimand-loops")
        self.running = Running(
            self._inference,
            self._loops,
            Waiting(flags.max_queued_requests, flags.max_queue_seconds),
            self._batch_settings(),
        )
        self._loading = Loading(
            self._load,
            self._in_thread,
            flags.max_num_load_retries,
            max(0, flags.load_retry_interval_micros) / 1e6,
            flags.transition_policy == "resource",
            self._check,
            lambda *version: self.tell_ready(*version),
        )
        self._single_threaded: dict[str, bool] = {}  # by path: the executor that was survived
        self._loads = asyncio.Semaphore(max(1, flags.num_load_threads))
        self._reloading = asyncio.Lock()
        self._is_beginning = True  # until the first models are loaded, or have failed to
        self._from_file: dict[str, ModelSettings] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, settings: Mapping[str, ModelSettings]) -> None:
        flags = self.flags
        self._from_file = dict(settings)
        self.first = asyncio.create_task(self._first(dict(settings)), name="first models")
        self._tasks.append(self.first)
        if flags.file_system_poll_wait_seconds > 0:
            self._repeat(flags.file_system_poll_wait_seconds, self._poll_models)
        if flags.model_config_file and flags.model_config_file_poll_wait_seconds > 0:
            self._repeat(flags.model_config_file_poll_wait_seconds, self._poll_config)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.prober is not None:
            await self.prober.stop()  # first, for loads wait for it
        await asyncio.gather(*(model.stop() for model in self.models.values()))
        self.requests.close()
        self._inference.shutdown(wait=False, cancel_futures=True)
        self._loops.shutdown(wait=False, cancel_futures=True)
        self._housekeeping.shutdown(wait=False, cancel_futures=True)

    @property
    def is_ready(self) -> bool:
        """Whether each configured model has a version to answer with, whoever is asked."""
        return self.is_ready_itself and self.others_are_ready

    @property
    def is_ready_itself(self) -> bool:
        return bool(self.settings) and all(self.models[n].is_available() for n in self.settings)

    # ------------------------------------------------------------ finding

    def find(self, name: str, number: int | None, label: str | None = None) -> LoadedVersion:
        if not name:
            raise invalid("ModelSpec has no name specified.")
        model = self.models.get(name)
        try:
            if number is None and label:
                number = self._labelled(name, model, label)
            if model is not None:
                return model.latest() if number is None else model.specific(number)
            which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise not_found(f"Servable not found for request: {which}")
        except StatusError as error:
            if self._is_beginning:
                raise _not_yet() from error
            raise

    def find_for(self, spec: Any) -> LoadedVersion:
        """The version that a ModelSpec means."""
        choice = spec.WhichOneof("version_choice")
        if choice is None:
            return self.find(spec.name, None)
        if choice == "version":
            return self.find(spec.name, spec.version.value)
        return self.find(spec.name, None, spec.version_label)

    def number_of_label(self, name: str, label: str) -> int:
        return self._labelled(name, self.models.get(name), label)

    def _labelled(self, name: str, model: Model | None, label: str) -> int:
        if model is None or label not in model.labels:
            raise invalid(f"Unrecognized servable version label: {label}")
        return model.labels[label]

    # ------------------------------------------------------------ configuration

    async def reload(self, settings: dict[str, ModelSettings]) -> None:
        """Serve these models, and no others; returns when the new ones can be used.

        A configuration that cannot be used changes nothing. StatusError says what is wrong.
        """
        async with self._reloading:
            model_config.check_transition(self.settings, settings)
            new = settings.keys() - self.settings.keys()
            self._check_labels(settings, new)
            for name in self.settings.keys() - settings.keys():
                self.models[name].retire()
            for name, wanted in settings.items():
                if name in self.models:
                    self.models[name].configure(wanted)
                else:
                    self.models[name] = Model(wanted, self._loading)
            self.settings = settings
            self.requests.configure({n: wanted.log for n, wanted in settings.items() if wanted.log})
            await asyncio.gather(*(self.models[name].poll() for name in settings))
            waits = (self.models[name].one_available_or_failed() for name in new)
            await asyncio.gather(*waits)
            problem = await self._set_labels(settings)
            self._refuse_missing(new)
            if problem is not None:
                raise problem

    def _check_labels(self, settings: dict[str, ModelSettings], new: set[str]) -> None:
        """What can be known before anything is loaded: labels on models that are there."""
        for name in settings.keys() - new:
            same = self.settings[name].base_path == settings[name].base_path
            wanted = settings[name].policy == self.settings[name].policy
            if same and wanted:
                for label, number in settings[name].labels.items():
                    self._check_label(self.models[name], label, number)

    def _check_label(self, model: Model, label: str, number: int) -> None:
        if model.is_available(number):
            return
        used = model.labels.get(label)
        if self.flags.allow_version_labels_for_unavailable_models and used in (None, number):
            return
        raise failed_precondition(
            f"Request to assign label to version {number} of model {model.name}, which is not "
            "currently available for inference"
        )

    async def _set_labels(self, settings: dict[str, ModelSettings]) -> StatusError | None:
        """Those that can be; what is wrong with the first that cannot."""
        problem = None
        for name, wanted in settings.items():
            model = self.models[name]
            if any(not model.is_available(number) for number in wanted.labels.values()):
                await self._settled(model)
            labels = {}
            for label, number in wanted.labels.items():
                try:
                    self._check_label(model, label, number)
                    labels[label] = number
                except StatusError as error:
                    problem = problem or error
                    if label in model.labels:
                        labels[label] = model.labels[label]
            model.labels = labels
        return problem

    def _set_late_labels(self) -> None:
        """Of versions that could not be loaded at first, and now are."""
        for name, wanted in self.settings.items():
            model = self.models[name]
            for label, number in wanted.labels.items():
                if model.is_available(number):
                    model.labels[label] = number

    async def _settled(self, model: Model) -> None:
        """Give the labelled versions time to load, but do not wait for repeated tries."""
        while any(
            version.state in (10, 20) and version.error is None
            for version in model.versions.values()
        ):
            await asyncio.sleep(0.02)

    def _refuse_missing(self, new: set[str]) -> None:
        missing = [name for name in sorted(new) if not self.models[name].is_available()]
        if not missing:
            return
        texts = []
        for name in missing:
            errors = [v.error.text for v in self.models[name].versions.values() if v.error]
            texts.append(f"{{name: {name}}} due to error: {errors[-1] if errors else 'no version'}")
        raise StatusError.of(
            "UNKNOWN", f"{len(missing)} model(s) did not become available: {{{', '.join(texts)}}}"
        )

    async def _first(self, settings: dict[str, ModelSettings]) -> None:
        try:
            await self.reload(settings)
        except StatusError as error:
            log.error("%s", error)
        finally:
            self._is_beginning = False
            if self.prober is not None:
                self.prober.hurries = False

    async def _poll_models(self) -> None:
        await asyncio.gather(*(self.models[name].poll() for name in self.settings))
        if not self._reloading.locked():
            self._set_late_labels()

    async def _poll_config(self) -> None:
        path = self.flags.model_config_file
        message = await self._in_thread(text_protos.read_model_server_config, path)
        settings = model_config.from_message(message, self.flags)
        self.named_base_paths |= model_config.base_paths(settings or {})
        # What came by call stays until the file says something else.
        if settings is not None and settings != self._from_file:
            await self.reload(settings)
            self._from_file = settings

    def _repeat(self, seconds: float, action: Callable[[], Any]) -> None:
        async def loop() -> None:
            told = ""
            while True:
                await asyncio.sleep(seconds)
                try:
                    await action()
                    told = ""
                except (EstimandError, OSError) as error:
                    if str(error) != told:
                        told = str(error)
                        log.error("%s", error)
                except Exception:  # the next look may find something else
                    log.exception("%s failed", action.__name__)

        self._tasks.append(asyncio.create_task(loop(), name=action.__name__))

    # ------------------------------------------------------------ loading

    async def _check(self, name: str, path: str) -> None:
        """Raises VersionRefused for a version that would do harm."""
        platform = self.models[name].settings.platform
        if self.prober is not None and self._loader.probes(platform):
            self._single_threaded[path] = await self.prober.check(platform, path)

    async def _load(self, name: str, number: int, path: str) -> LoadedVersion:
        guard = self.prober.loading(path) if self.prober is not None else contextlib.nullcontext()
        async with self._loads, guard:
            return await self._load_now(name, number, path)

    async def _load_now(self, name: str, number: int, path: str) -> LoadedVersion:
        flags = self.flags
        platform = self.models[name].settings.platform
        single_threaded = self._single_threaded.pop(path, True)
        joins = name in flags.rows_are_independent
        servable = await self._in_thread(self._loader.open, platform, path, single_threaded, joins)
        try:
            await self._in_thread(servable.prepare)
            batches = await self._in_thread(self._batches_of, path)
            version = LoadedVersion(name, number, servable, self.running, batches)
            if flags.enable_model_warmup:
                records = await self._in_thread(warmup.read, path)
                await warmup.replay(version, records, flags.num_request_iterations_for_warmup)
        except BaseException as error:
            servable.close()
            raise from_exception(error) if isinstance(error, Exception) else error from error
        return version

    def _batch_settings(self) -> BatchSettings:
        flags = self.flags
        if flags.enable_batching:
            message = text_protos.batching_parameters()
            if flags.batching_parameters_file:
                message = text_protos.read_batching_parameters(flags.batching_parameters_file)
            return BatchSettings.of(message, self.cpus)
        return BatchSettings(
            max_rows=BatchSettings.max_rows if flags.adaptive_batching else 1, threads=self.cpus
        )

    def _batches_of(self, path: str) -> BatchSettings:
        """The settings of one version: its own, if it may have and has some."""
        own = own_batching_parameters(self.flags, path)
        return self.running.batches if own is None else BatchSettings.of(own, self.cpus)

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._housekeeping, call, *arguments)


def _not_yet() -> StatusError:
    """Clients take "Servable not found" for a server that has loaded what it has to."""
    return StatusError.of("UNAVAILABLE", "The server is still loading its first models.")
