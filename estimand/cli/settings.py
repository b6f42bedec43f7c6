"""Settings of a program: from config files and --set to the arguments of its function."""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

_CONFIG_NAMES = ("run_config", "config")  # made an est.RunConfig
# Argument that tells the model_dir -> the setting that changes it.
PLACES_OF_MODEL_DIR = {"model_dir": "model_dir"} | {n: f"{n}.model_dir" for n in _CONFIG_NAMES}
_MISSING = inspect.Parameter.empty

Settings = dict[str, Any]


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--config and --set."""
    command = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting, such as params.units=64; repeatable, after those of files.",
    )(command)
    return click.option(
        "--config",
        "configs",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        help="Settings from a TOML, JSON or YAML file; repeatable.",
    )(command)


def gather(configs: Iterable[str], assignments: Iterable[str]) -> Settings:
    """The settings of files, then those of the command line; later ones win."""
    settings: Settings = {}
    for path in configs:
        _merge(settings, read_file(path))
    for assignment in assignments:
        _merge(settings, parse(assignment))
    return settings


def merged(settings: Mapping[str, Any], values: Mapping[str, Any]) -> Settings:
    """
    >>> merged({"steps": 10}, {"params.units": 64, "steps": 20})
    {'steps': 20, 'params': {'units': 64}}
    """
    result = copy.deepcopy(dict(settings))
    for name, value in values.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        _merge(result, value)
    return result


def parse(assignment: str) -> Settings:
    """
    >>> parse("params.units=64"), parse("params.layers=[8, 4]"), parse("model_dir=runs/a")
    ({'params': {'units': 64}}, {'params': {'layers': [8, 4]}}, {'model_dir': 'runs/a'})
    """
    name, equals, text = assignment.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not equals or not all(part.isidentifier() for part in parts):
        raise click.BadParameter(
            f"{assignment!r} is not NAME=VALUE, such as params.units=64.", param_hint="--set"
        )
    return merged({}, {".".join(parts): value_of(text.strip())})


def value_of(text: str) -> Any:
    """As TOML or JSON has it (64, 0.1, true, [8, 4], "text", null); else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def read_file(path: str) -> Settings:
    ending = os.path.splitext(path)[1].lower()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if ending == ".toml":
            parsed: Any = tomllib.loads(text)
        elif ending == ".json":
            parsed = json.loads(text)
        elif ending in (".yaml", ".yml"):
            parsed = _yaml(text, path)
        else:
            raise ValueError("its name has to end in .toml, .json or .yaml")
        if not isinstance(parsed, dict):
            raise ValueError(f"it holds {type(parsed).__name__}, and no names with values")
    except ValueError as error:
        raise click.BadParameter(
            f"{path} cannot be used: {error}.", param_hint="--config"
        ) from None
    return parsed


def _yaml(text: str, path: str) -> Any:
    try:
        import yaml
    except ImportError:
        from estimand.core.errors import MissingExtraError

        raise MissingExtraError(f"reading {path}", "kubernetes", "pyyaml") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error).replace("\n", " ")) from None


def _merge(into: Settings, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


# ------------------------------------------------------------------ to a function's arguments


def call(function: Callable[..., Any], settings: Settings, what: str) -> Any:
    """`function` with the settings as its arguments; what it does not take is refused by name.

    A setting with parts (`params.units`) changes the default of its argument, which is a dict or
    an est.HParams; of an argument called `run_config` or `config` an est.RunConfig is made.
    """
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    for name in settings:
        if name not in defaults and not takes_all:
            raise click.UsageError(_unknown(name, defaults, what, "argument"))
    missing = [n for n, value in defaults.items() if value is _MISSING and n not in settings]
    if missing:
        wishes = (f"--set {n}{'.model_dir' if n in _CONFIG_NAMES else ''}=..." for n in missing)
        raise click.UsageError(f"{what} has arguments without a value. Add {' '.join(wishes)}")
    arguments = {
        name: _argument(name, value, defaults.get(name), what) for name, value in settings.items()
    }
    return function(**arguments)


def _argument(name: str, value: Any, default: Any, what: str) -> Any:
    if not isinstance(value, dict):
        return value
    if name in _CONFIG_NAMES:
        from estimand.core.config import RunConfig

        return default.replace(**value) if isinstance(default, RunConfig) else RunConfig(**value)
    from estimand.core.hparams import HParams

    if isinstance(default, HParams):
        return copy.deepcopy(default).override_from_dict(value)
    if not isinstance(default, dict):
        return value
    for key in value:
        if key not in default:
            raise click.UsageError(_unknown(f"{name}.{key}", default, what, "setting", f"{name}."))
    changed = copy.deepcopy(default)
    _merge(changed, value)
    return changed


def _unknown(name: str, known: Iterable[str], what: str, kind: str, start: str = "") -> str:
    names = [f"{start}{name}" for name in known]
    near = difflib.get_close_matches(name, names, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    has = f"it has: {', '.join(names)}" if names else "it has none"
    return f"{what} has no {kind} {name!r}; {has}.{meant}"
