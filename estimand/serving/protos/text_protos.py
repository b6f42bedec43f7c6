"""Text-format files: ModelServerConfig, ConfigProto, and some that have no published class.

These, BatchingParameters, MonitoringConfig and SSLConfig, are described here, with TensorFlow
Serving's field names, because the package of its messages leaves them out.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pool, text_format, wrappers_pb2

from estimand.core.errors import ConfigError
from estimand.core.files import described
from estimand.core.files.described import BOOL, INT64, MESSAGE, STRING, Field

_PACKAGE = "estimand.serving"
_INT64_VALUE, _STRING_VALUE, _BOOL_VALUE = (
    f".google.protobuf.{kind}Value" for kind in ("Int64", "String", "Bool")
)
_MESSAGES = {
    "BatchingParameters": {
        1: Field("max_batch_size", MESSAGE, message=_INT64_VALUE),
        2: Field("batch_timeout_micros", MESSAGE, message=_INT64_VALUE),
        3: Field("max_enqueued_batches", MESSAGE, message=_INT64_VALUE),
        4: Field("num_batch_threads", MESSAGE, message=_INT64_VALUE),
        5: Field("thread_pool_name", MESSAGE, message=_STRING_VALUE),
        6: Field("allowed_batch_sizes", INT64, is_repeated=True),
        7: Field("pad_variable_length_inputs", BOOL),
        8: Field("enable_large_batch_splitting", MESSAGE, message=_BOOL_VALUE),
        9: Field("max_execution_batch_size", MESSAGE, message=_INT64_VALUE),
    },
    "PrometheusConfig": {1: Field("enable", BOOL), 2: Field("path", STRING)},
    "MonitoringConfig": {
        1: Field("prometheus_config", MESSAGE, message=f".{_PACKAGE}.PrometheusConfig")
    },
    "SSLConfig": {
        1: Field("server_key", STRING),
        2: Field("server_cert", STRING),
        3: Field("custom_ca", STRING),
        4: Field("client_verify", BOOL),
    },
}


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
    return described.message_class(_pool(), f"{_PACKAGE}.{name}")()


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    return described.pool(_PACKAGE, _MESSAGES, [wrappers_pb2.DESCRIPTOR])
