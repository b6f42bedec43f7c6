"""Which models to serve: from flags or a ModelServerConfig message to plain settings."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from estimand.core.errors import ConfigError
from estimand.serving.flags import TENSORFLOW, Flags
from estimand.serving.inference.request_log import LogSettings
from estimand.serving.status import StatusError, failed_precondition, invalid


@dataclass(frozen=True)
class VersionPolicy:
    """Which of the versions on disk to serve.

    >>> VersionPolicy().choose({1, 2, 3})
    {3}
    >>> VersionPolicy(latest=2).choose({1, 2, 3})
    {2, 3}
    >>> VersionPolicy(latest=None, specific=frozenset({2, 7})).choose({1, 2, 3})
    {2}
    >>> VersionPolicy(latest=None).choose({1, 2})
    {1, 2}
    """

    latest: int | None = 1
    specific: frozenset[int] | None = None

    def choose(self, there: set[int]) -> set[int]:
        if self.specific is not None:
            return there & self.specific
        if self.latest is not None:
            return set(sorted(there)[-self.latest :])
        return set(there)


@dataclass(frozen=True)
class ModelSettings:
    name: str
    base_path: str
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = field(default_factory=dict)
    platform: str = TENSORFLOW
    log: LogSettings | None = None


def from_flags(flags: Flags) -> dict[str, ModelSettings]:
    """The one model of --model_name and --model_base_path."""
    if not flags.model_name:
        raise ConfigError("--model_name is empty. Leave it out for the name 'default'.")
    path = flags.model_base_path
    if "://" not in path:
        path = os.path.abspath(path)
    name = flags.model_name
    platform = flags.servable[0] if flags.servable else TENSORFLOW
    log = LogSettings.from_flags(name, flags)
    policy = VersionPolicy()
    if flags.model_version:
        policy = VersionPolicy(latest=None, specific=frozenset({flags.model_version}))
    return {name: ModelSettings(name, path, policy, platform=platform, log=log)}


def from_message(message: Any, flags: Flags | None = None) -> dict[str, ModelSettings] | None:
    """The models of a ModelServerConfig; None if it is empty. StatusError if it cannot be used.

    It may come from the network: it can name what the flags allow, and nothing else.
    """
    kind = message.WhichOneof("config")
    if kind is None:
        return None
    if kind != "model_config_list":
        raise failed_precondition(
            "Cannot transition to requested config. It is only legal to transition from one "
            "ModelConfigList to another."
        )
    settings: dict[str, ModelSettings] = {}
    for config in message.model_config_list.config:
        if config.name in settings:
            raise invalid(f"Illegal to list model {config.name} multiple times in config list")
        settings[config.name] = _settings(config, flags or Flags())
    return settings


def _settings(config: Any, flags: Flags) -> ModelSettings:
    if not config.name:
        raise invalid("A model in the config list has no name.")
    if not os.path.isabs(config.base_path) and "://" not in config.base_path:
        raise invalid(
            f"Expected model {config.name} to have an absolute path or URI; got base_path()="
            f"{config.base_path}"
        )
    return ModelSettings(
        config.name,
        config.base_path,
        _policy(config),
        dict(config.version_labels),
        _platform(config, flags),
        LogSettings.of(config.name, config.logging_config, flags),
    )


def _platform(config: Any, flags: Flags) -> str:
    if config.model_type and config.model_platform:
        raise invalid("Illegal setting both model_type(deprecated) and model_platform.")
    platform = config.model_platform or {1: TENSORFLOW, 2: "other"}.get(config.model_type, "")
    if not platform:
        raise invalid("Illegal setting neither model_type(deprecated) nor model_platform.")
    if platform not in (TENSORFLOW, *flags.servable):
        raise invalid(
            f"Model {config.name} has model_platform {platform!r}, which this server does not "
            f"have; it has: {', '.join((TENSORFLOW, *flags.servable))}. Custom ones are named when "
            "the server is started: --servable=module:Class."
        )
    return platform


def _policy(config: Any) -> VersionPolicy:
    policy = config.model_version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return VersionPolicy(latest=None)
    if kind == "specific":
        return VersionPolicy(latest=None, specific=frozenset(policy.specific.versions))
    if kind == "latest":
        return VersionPolicy(latest=policy.latest.num_versions or 1)
    return VersionPolicy()


def base_paths(settings: Mapping[str, ModelSettings]) -> set[str]:
    return {model.base_path for model in settings.values()}


def check_base_paths(settings: Mapping[str, ModelSettings], allowed: Collection[str]) -> None:
    """Whether models that a caller names lie where this server may look.

    Links are followed first: what counts is where a path leads.
    """
    inside = [_real(path) for path in allowed]
    for name, model in settings.items():
        if not any(_is_below(_real(model.base_path), path) for path in inside):
            raise StatusError.of(
                "PERMISSION_DENIED",
                f"Model {name} has base_path {model.base_path}, which is not below "
                f"{' or '.join(sorted(allowed)) or 'any base path of the start'}. To let callers "
                "name it, start the server with --reload_config_base_path=DIR, or ask for tokens: "
                "--auth_tokens_file=FILE.",
            )


def _real(path: str) -> str:
    """
    >>> _real("gs://bucket/models/../secret")
    'gs://bucket/secret'
    """
    scheme, sign, rest = path.partition("://")
    return scheme + sign + posixpath.normpath(rest) if sign else os.path.realpath(path)


def _is_below(path: str, folder: str) -> bool:
    """
    >>> _is_below("/models/half", "/models"), _is_below("/models2", "/models")
    (True, False)
    """
    return path == folder or path.startswith(os.path.join(folder, ""))


def check_transition(old: Mapping[str, ModelSettings], new: Mapping[str, ModelSettings]) -> None:
    for name in old.keys() & new.keys():
        if old[name].platform != new[name].platform:
            raise invalid(
                f"Illegal to change a model's platform. For model {name} from "
                f"{old[name].platform} to {new[name].platform}"
            )
