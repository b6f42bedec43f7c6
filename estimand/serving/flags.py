"""The server's settings: tensorflow_model_server's flags under their own names, and a few more.

Needs neither TensorFlow nor gRPC: `estimand serve --help` reads only this.

>>> flags = Flags(model_name="m", model_base_path="/models/m", rest_api_port=8501)
>>> flags.check() is flags
True
>>> Flags(batching_parameters_file="b.pbtxt", model_base_path="/models/m").check()
Traceback (most recent call last):
    ...
estimand.core.errors.ConfigError: --batching_parameters_file=b.pbtxt is set without \
--enable_batching. Add --enable_batching, or leave the file out.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any

from estimand.core.errors import ConfigError
from estimand.serving import channel_arguments

TENSORFLOW = "tensorflow"  # the platform of SavedModels; others are named by --servable
_LAST_PORT = 65_535
# Where tensorflow_model_server has a meaning for it: never, or without a pause.
_MAY_BE_NEGATIVE = frozenset(
    {
        "load_retry_interval_micros",
        "file_system_poll_wait_seconds",
        "model_config_file_poll_wait_seconds",
    }
)


def _flag(default: Any, text: str, *, hidden: bool = False, refused: str = "") -> Any:
    return field(default=default, metadata={"help": text, "hidden": hidden, "refused": refused})


def _ignored(default: Any, text: str) -> Any:
    """A flag of tensorflow_model_server that has nothing to set here; scripts may still pass it."""
    return _flag(default, f"{text} (accepted, without effect)", hidden=True)


def _refused(default: Any, instead: str) -> Any:
    """A flag of tensorflow_model_server that would promise what is not there."""
    return _flag(default, f"Not supported. {instead}", hidden=True, refused=instead)


@dataclass(frozen=True)
class Flags:
    """Every flag of the server, with its default."""

    # Addresses
    port: int = _flag(8500, "TCP port of gRPC; 0 for none.")
    rest_api_port: int = _flag(0, "TCP port of REST; 0 for none.")
    host: str = _flag("127.0.0.1", "Address to listen on; 0.0.0.0 for every interface.")
    grpc_socket_path: str = _flag("", "Also listen for gRPC on this UNIX socket.")
    grpc_backend: str = _flag(
        "auto",
        "lean: an HTTP/2 front of our own, several times as fast; grpcio: Google's; auto: lean, "
        "but grpcio for --grpc_channel_arguments that only it knows.",
    )

    # Models
    model_name: str = _flag("default", "Name of the one model.")
    model_base_path: str = _flag("", "Directory of its versions (directories named by numbers).")
    model_version: int = _flag(0, "Serve this version of it, and no other; 0 for the newest.")
    model_config_file: str = _flag("", "Text-format ModelServerConfig with several models.")
    model_config_file_poll_wait_seconds: int = _flag(
        0, "Read that file again every so many seconds; 0 for never."
    )
    file_system_poll_wait_seconds: int = _flag(
        1, "Look for new versions every so many seconds; 0 for once."
    )
    allow_version_labels_for_unavailable_models: bool = _flag(
        False, "Accept labels on versions that are not loaded yet."
    )
    transition_policy: str = _flag(
        "availability", "availability: load the new version, then unload the old; or: resource."
    )
    saved_model_tags: str = _flag("serve", "Tags of the graph to load, separated by commas.")
    max_num_load_retries: int = _flag(5, "How often a failed load is tried again.")
    load_retry_interval_micros: int = _flag(
        60_000_000, "Time between two tries; negative for none."
    )
    probe_versions: bool = _flag(
        True, "Try a version in a process of its own before it is loaded, and refuse what ends it."
    )
    probe_timeout_seconds: float = _flag(
        300.0, "A version that is not done with that in time is refused; 0 for no limit."
    )
    probe_max_bytes: int = _flag(
        0, "Memory that it may take there; 0 for nine tenths of what is free."
    )
    num_load_threads: int = _flag(0, "Versions that load at the same time; 0 for one.")
    enable_model_warmup: bool = _flag(
        True, "Replay assets.extra/tf_serving_warmup_requests before a version is used."
    )
    num_request_iterations_for_warmup: int = _flag(1, "How often each of those is replayed.")
    enable_signature_method_name_check: bool = _flag(
        False, "Refuse a call whose method is not the one the signature was exported for."
    )
    prefer_tflite_model: bool = _flag(
        False, "Serve model.tflite of a version's directory, where there is one."
    )
    use_tflite_model: bool = _flag(False, "The older name of --prefer_tflite_model.", hidden=True)

    servable: tuple[str, ...] = _flag(
        (), "module:Class of a custom servable, for models with this model_platform; repeatable."
    )
    load_op_library: tuple[str, ...] = _flag(
        (), "Shared library (.so) with operations that models use; repeatable."
    )
    enable_reload_config_rpc: bool = _flag(True, "Answer HandleReloadConfigRequest.")
    reload_config_base_path: tuple[str, ...] = _flag(
        (),
        "HandleReloadConfigRequest may name base paths below this one too, not only below those "
        "of the start; / for any; repeatable. With --auth_tokens_file it may name any.",
    )

    # Batching
    adaptive_batching: bool = _flag(
        True, "Run together what is waiting, where rows are proven not to depend on each other."
    )
    rows_are_independent: tuple[str, ...] = _flag(
        (), "Name of a model for which that need not be proven; repeatable."
    )
    enable_batching: bool = _flag(False, "Batch as tensorflow_model_server does.")
    batching_parameters_file: str = _flag("", "Text-format BatchingParameters.")
    enable_per_model_batching_parameters: bool = _flag(
        False, "Read batching_params.pbtxt of each version's directory."
    )

    # Load
    max_queued_requests: int = _flag(
        4096,
        "Requests of one client, or for one model, that may wait; the next gets "
        "RESOURCE_EXHAUSTED (429) at once.",
    )
    max_queue_seconds: float = _flag(
        2.0, "One that would wait longer for its model gets RESOURCE_EXHAUSTED (429) at once."
    )
    max_pending_bytes: int = _flag(
        512 * 2**20, "Memory for large requests until they are answered; more have to wait."
    )
    max_request_bytes: int = _flag(2**31 - 1, "Largest gRPC message that is accepted.")
    rest_api_max_body_bytes: int = _flag(
        256 * 2**20, "Largest REST body that is accepted, also after decompression."
    )
    rest_api_max_values: int = _flag(
        10_000_000, "Most values that the JSON of a REST body may have; more get 413 at once."
    )
    rest_api_timeout_in_ms: int = _flag(30_000, "Time limit of a REST request.")
    rest_api_enable_cors_support: bool = _flag(False, "Answer cross-origin requests of browsers.")
    rest_api_header_timeout_seconds: float = _flag(
        10.0, "Time for the headers of a REST request to arrive."
    )
    rest_api_idle_timeout_seconds: float = _flag(
        60.0, "How long a REST connection may be idle between requests."
    )
    rest_api_max_header_bytes: int = _flag(65_536, "Largest headers of a REST request.")
    run_timeout_seconds: float = _flag(
        120.0, "A call of a model with a loop that may depend on its input ends then; 0 for never."
    )
    drain_seconds: float = _flag(30.0, "After SIGTERM, time for running requests to end.")
    shutdown_delay_seconds: float = _flag(
        0.0, "After SIGTERM, keep serving (as not ready) so long, for load balancers to notice."
    )

    num_workers: int = _flag(
        1, "Processes that serve at the same address; 0 for one for every two cores."
    )
    worker_timeout_seconds: float = _flag(
        60.0, "A worker that is silent for so long is killed and replaced; 0 for never."
    )

    # Who may ask
    ssl_config_file: str = _flag(
        "", "Text-format SSLConfig: gRPC with TLS; with client_verify, for known clients only."
    )
    rest_api_ssl_config_file: str = _flag("", "The same for REST.")
    auth_tokens_file: str = _flag(
        "", "File of tokens, one a line; a request needs one as a bearer token or API key."
    )

    # Request logging
    request_log_dir: str = _flag("", "Directory of the request logs (TFRecords for warm-up).")
    request_log_sampling_rate: float = _flag(
        0.0, "Part of the requests to log, from 0 to 1, for models without a logging_config."
    )
    request_log_max_bytes: int = _flag(64 * 2**20, "A log file of this size is ended.")
    request_log_max_files: int = _flag(16, "So many log files of a model are kept.")

    # TensorFlow
    tensorflow_session_parallelism: int = _flag(0, "Threads of both pools below; 0 for automatic.")
    tensorflow_intra_op_parallelism: int = _flag(0, "Threads inside one operation.")
    tensorflow_inter_op_parallelism: int = _flag(0, "Operations that run at the same time.")
    tensorflow_session_config_file: str = _flag(
        "", "Text-format ConfigProto of TensorFlow's sessions; the flags above go before it."
    )
    inference_threads: int = _flag(0, "Threads for models slower than a millisecond; 0: one a CPU.")

    # Operation
    grpc_channel_arguments: str = _flag("", "Arguments for gRPC: key=value, separated by commas.")
    enable_grpc_healthcheck_service: bool = _flag(True, "Offer grpc.health.v1.Health.")
    enable_profiler: bool = _flag(
        True, "Offer tensorflow.ProfilerService: TensorBoard captures profiles of the server."
    )
    enable_serialization_as_tensor_content: bool = _flag(
        False, "Answer tensors as raw bytes (tensor_content) and not as typed fields."
    )
    monitoring_config_file: str = _flag("", "Text-format MonitoringConfig: path of the metrics.")

    # Of tensorflow_model_server, with nothing to set here
    rest_api_num_threads: int = _ignored(0, "Threads of REST.")
    grpc_max_threads: int = _ignored(0, "Threads of gRPC.")
    num_unload_threads: int = _ignored(0, "Threads that unload.")
    flush_filesystem_caches: bool = _ignored(True, "Flush file caches after loading.")
    per_process_gpu_memory_fraction: float = _ignored(0.0, "Part of the GPU memory to take.")
    remove_unused_fields_from_bundle_metagraph: bool = _ignored(True, "Drop what is not needed.")
    xla_cpu_compilation_enabled: bool = _ignored(False, "Compile with XLA.")
    xla_gpu_compilation_enabled: bool = _ignored(False, "Compile with XLA.")
    skip_initialize_tpu: bool = _ignored(False, "Leave TPUs alone.")
    num_tflite_pools: int = _ignored(0, "Pools of TFLite interpreters.")
    num_tflite_interpreters_per_pool: int = _ignored(0, "TFLite interpreters of a pool.")
    thread_pool_factory_config_file: str = _ignored("", "Text-format ThreadPoolFactoryConfig.")

    # Of tensorflow_model_server, and not to be had here
    use_alts_credentials: bool = _refused(
        False, "ALTS works inside Google's data centres only; for TLS, set --ssl_config_file."
    )
    platform_config_file: str = _refused(
        "", "What is no SavedModel is served by a class: --servable=module:Class."
    )
    mixed_precision: str = _refused(
        "", "Set auto_mixed_precision in a --tensorflow_session_config_file."
    )

    @property
    def is_lean(self) -> bool:
        """Which back end answers gRPC.

        >>> Flags().is_lean, Flags(grpc_channel_arguments="grpc.http2.bdp_probe=0").is_lean
        (True, False)
        """
        if self.grpc_backend != "auto":
            return self.grpc_backend == "lean"
        are_known = channel_arguments.are_all_known(self.grpc_channel_arguments)
        return are_known and bool(find_spec("hpack"))

    def check(self) -> Flags:
        """Itself, if the values fit together; with the number of workers that 0 stands for."""
        for problem in _problems(self):
            raise ConfigError(problem)
        return self if self.num_workers else replace(self, num_workers=automatic_workers(self))


def _problems(flags: Flags) -> list[str]:
    problems = []
    if not flags.model_config_file and not flags.model_base_path:
        problems.append(
            "No model to serve. Give a directory, as in estimand serve runs/census/export/best, "
            "or set --model_base_path=DIR, the directory of the versions "
            "(export_dir_base of the export), or --model_config_file=FILE."
        )
    if flags.batching_parameters_file and not flags.enable_batching:
        problems.append(
            f"--batching_parameters_file={flags.batching_parameters_file} is set without "
            "--enable_batching. Add --enable_batching, or leave the file out."
        )
    if flags.transition_policy not in ("availability", "resource"):
        problems.append(
            f"--transition_policy={flags.transition_policy} is unknown. Use availability or "
            "resource."
        )
    if flags.grpc_backend not in ("auto", "lean", "grpcio"):
        problems.append(
            f"--grpc_backend={flags.grpc_backend} is unknown. Use auto, lean or grpcio."
        )
    if not flags.port and not flags.rest_api_port and not flags.grpc_socket_path:
        problems.append(
            "Nowhere to listen: --port=0 and no --rest_api_port. Set one, such as --port=8500."
        )
    if flags.port and flags.port == flags.rest_api_port:
        problems.append(
            f"--rest_api_port={flags.rest_api_port} is the same as --port. Set another one, such "
            "as --rest_api_port=8501."
        )
    for name in ("port", "rest_api_port"):
        if getattr(flags, name) > _LAST_PORT:
            problems.append(
                f"--{name}={getattr(flags, name)} is no port. Use one from 1 to {_LAST_PORT}, or 0 "
                "for none."
            )
    problems += _problems_together(flags)
    for flag in fields(flags):
        value = getattr(flags, flag.name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and value < 0 and flag.name not in _MAY_BE_NEGATIVE:
            problems.append(f"--{flag.name}={value} is negative. Use 0 or more.")
        if flag.metadata["refused"] and value != flag.default:
            problems.append(f"--{flag.name}={value} is not supported. {flag.metadata['refused']}")
    return problems


def _problems_together(flags: Flags) -> list[str]:
    problems = []
    if flags.num_workers > 1 and flags.grpc_socket_path and not flags.is_lean:
        problems.append(
            "--grpc_socket_path cannot be shared by several workers of grpcio. Add "
            "--grpc_backend=lean, or leave out --num_workers."
        )
    if len(flags.servable) > 1 and not flags.model_config_file:
        problems.append(
            f"--servable is set {len(flags.servable)} times for one model. Keep one, or tell the "
            "models apart in --model_config_file by model_platform."
        )
    if flags.request_log_sampling_rate > 1:
        problems.append(
            f"--request_log_sampling_rate={flags.request_log_sampling_rate} is larger than 1."
        )
    if flags.request_log_sampling_rate and not flags.request_log_dir:
        problems.append("--request_log_sampling_rate is set without --request_log_dir=DIR.")
    return problems


def automatic_workers(flags: Flags) -> int:
    """How many processes are worth their memory here.

    Python answers on one core at a time. The other half of the cores is the system's, for its
    network, and TensorFlow's threads'. On two cores a second process answers no more requests and
    takes a quarter to a half more processor time for each.
    """
    can_share = sys.platform != "win32" and (flags.is_lean or not flags.grpc_socket_path)
    return max(1, thread_count(0) // 2) if can_share else 1


def thread_count(asked: int) -> int:
    """As many as asked for; 0 means one for each CPU this process may use."""
    if asked:
        return asked
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
