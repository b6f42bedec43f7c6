"""Text-format files: ModelServerConfig, ConfigProto, and some that have no published class.

These, BatchingParameters, MonitoringConfig and SSLConfig, are described here, with TensorFlow
Serving's field names, because the package of its messages leaves them out.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from estimand.core.errors import ConfigError

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT64, _STRING, _BOOL, _MESSAGE = 3, 9, 8, 11
_WRAPPED = {
    _INT64: ".google.protobuf.Int64Value",
    _STRING: ".google.protobuf.StringValue",
    _BOOL: ".google.protobuf.BoolValue",
}
_PACKAGE = "estimand.serving"


def read_model_server_config(path: str) -> Any:
    from tensorflow_serving.config import model_server_config_pb2

    return read(path, model_server_config_pb2.ModelServerConfig())


def read_batching_parameters(path: str) -> Any:
    return read(path, batching_parameters())


def read_prometheus_path(path: str) -> str | None:
    """Where the metrics are served; None if the file turns them off."""
    config = read(path, _message("MonitoringConfig")).prometheus_config
    return (config.path or DEFAULT_METRICS_PATH) if config.enable else None


def read_session_config(path: str) -> bytes:
    """A ConfigProto, serialized; empty without a path."""
    if not path:
        return b""
    import tensorflow as tf

    serialized: bytes = read(path, tf.compat.v1.ConfigProto()).SerializeToString()
    return serialized


def read_ssl_config(path: str) -> Any:
    return read(path, _message("SSLConfig"))


DEFAULT_METRICS_PATH = "/monitoring/prometheus/metrics"


def batching_parameters() -> Any:
    """An empty BatchingParameters message.

    >>> text_format.Parse("max_batch_size { value: 8 }", batching_parameters()).max_batch_size.value
    8
    """
    return _message("BatchingParameters")


def read(path: str, message: Any) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return text_format.Parse(file.read(), message)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except text_format.ParseError as error:
        name = message.DESCRIPTOR.full_name.replace(_PACKAGE, "tensorflow.serving")
        raise ConfigError(f"Error parsing text-format {name}: {path}:{error}") from error


def _message(name: str) -> Any:
    pool = _pool()
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))()


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    # Loading the module registers the wrapper types that the fields below refer to.
    from google.protobuf import wrappers_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="estimand/serving/config.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    batching = file.message_type.add(name="BatchingParameters")
    for number, (name, kind) in {
        1: ("max_batch_size", _INT64),
        2: ("batch_timeout_micros", _INT64),
        3: ("max_enqueued_batches", _INT64),
        4: ("num_batch_threads", _INT64),
        5: ("thread_pool_name", _STRING),
        8: ("enable_large_batch_splitting", _BOOL),
        9: ("max_execution_batch_size", _INT64),
    }.items():
        _add(batching, name, number, _MESSAGE, _WRAPPED[kind])
    _add(batching, "allowed_batch_sizes", 6, _INT64).label = _FIELD.LABEL_REPEATED
    _add(batching, "pad_variable_length_inputs", 7, _BOOL)
    prometheus = file.message_type.add(name="PrometheusConfig")
    _add(prometheus, "enable", 1, _BOOL)
    _add(prometheus, "path", 2, _STRING)
    monitoring = file.message_type.add(name="MonitoringConfig")
    _add(monitoring, "prometheus_config", 1, _MESSAGE, f".{_PACKAGE}.PrometheusConfig")
    tls = file.message_type.add(name="SSLConfig")
    for number, name in enumerate(("server_key", "server_cert", "custom_ca"), 1):
        _add(tls, name, number, _STRING)
    _add(tls, "client_verify", 4, _BOOL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add(message: Any, name: str, number: int, kind: int, of: str | None = None) -> Any:
    return message.field.add(
        name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL, type_name=of
    )
