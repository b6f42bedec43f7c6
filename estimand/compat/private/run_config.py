"""Constants and helpers of `tensorflow_estimator.python.estimator.run_config`."""

from __future__ import annotations

import json
from typing import Any

from estimand.core import config as ours
from estimand.core.config_rules import check
from estimand.core.tf_config import parse_tf_config

_TF_CONFIG_ENV = "TF_CONFIG"
_TASK_ENV_KEY = "task"
_TASK_TYPE_KEY = "type"
_TASK_ID_KEY = "index"
_CLUSTER_KEY = "cluster"
_SERVICE_KEY = "service"
_SESSION_MASTER_KEY = "session_master"
_EVAL_SESSION_MASTER_KEY = "eval_session_master"
_MODEL_DIR_KEY = "model_dir"
_LOCAL_MASTER = ""
_GRPC_SCHEME = "grpc://"
_SAVE_CKPT_ERR = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."
_USE_DEFAULT: Any = ours._DEFAULT
_DEFAULT_REPLACEABLE_LIST = list(ours._REPLACEABLE)


def _count_ps(cluster_spec: Any) -> int:
    """How many parameter servers there are."""
    if not cluster_spec:
        raise RuntimeError("Internal error: `_count_ps` does not expect empty cluster_spec.")
    return len(cluster_spec.as_dict().get("ps", []))


def _count_worker(cluster_spec: Any, chief_task_type: str) -> int:
    """How many workers there are, the chief among them."""
    if not cluster_spec:
        raise RuntimeError("Internal error: `_count_worker` does not expect empty cluster_spec.")
    jobs = cluster_spec.as_dict()
    return len(jobs.get("worker", [])) + len(jobs.get(chief_task_type, []))


def _get_model_dir(tf_config: dict[str, Any], model_dir: Any) -> str | None:
    """The directory that the argument and TF_CONFIG agree on."""
    in_tf_config = parse_tf_config({_TF_CONFIG_ENV: json.dumps(tf_config)}).model_dir
    return ours._agreed_model_dir(ours._as_path(model_dir), in_tf_config)


def _validate_properties(run_config: ours.RunConfig) -> None:
    check(run_config._value_of)
