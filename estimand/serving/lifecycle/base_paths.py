"""What a directory is that somebody wants served: versions, one version, a model_dir."""

from __future__ import annotations

import os
from dataclasses import dataclass

from estimand.core.errors import ConfigError
from estimand.serving.models import disk

_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "model.tflite")
_SHOWN = 6


@dataclass(frozen=True)
class ModelAtPath:
    """The model behind a directory, and in `text` what was made of it."""

    name: str
    base_path: str
    text: str
    version: int = 0  # 0 for the newest


def find(directory: str) -> ModelAtPath:
    """The one model that a directory stands for; ConfigError says what to give instead.

    That is the folder of its versions, one of these, or a model_dir with one export below.
    """
    if "://" in directory:
        return ModelAtPath(_name(directory.rstrip("/")), directory, f"the versions in {directory}")
    path = os.path.abspath(directory)
    if os.path.isfile(path):
        raise ConfigError(
            f"{directory} is a file. Give the directory of an exported model, or a model_dir with "
            f"one.{_beside(path)}"
        )
    if not os.path.isdir(path):
        raise ConfigError(f"There is no directory {directory}.{_beside(path)}")
    if _is_model(path):
        number = os.path.basename(path)
        if not _is_number(number):
            raise ConfigError(_unnumbered(directory, path))
        base = os.path.dirname(path)
        return ModelAtPath(
            _name(base), base, f"version {int(number)} in {base}, no other", int(number)
        )
    if _has_versions(path):
        return ModelAtPath(_name(path), path, f"the newest version in {path}")
    exports = _exports_below(path)
    if len(exports) == 1:
        return ModelAtPath(_name(exports[0]), exports[0], f"the newest version in {exports[0]}")
    if exports:
        which = "\n".join(f"  estimand serve {os.path.relpath(export)}" for export in exports)
        raise ConfigError(f"There are several models below {directory}. Give one:\n{which}")
    runs = sorted(
        folder.path
        for folder in os.scandir(path)
        if folder.is_dir() and _exports_below(folder.path)
    )
    if runs:
        which = "\n".join(f"  estimand serve {os.path.relpath(run)}" for run in runs[:_SHOWN])
        raise ConfigError(f"{directory} is no model_dir, but has some. Give one:\n{which}")
    has = ", ".join(sorted(os.listdir(path))[:6]) or "nothing"
    raise ConfigError(
        f"There is no exported model in {directory} or its export folder; it has: {has}. Export "
        "one: est.BestExporter of an EvalSpec, or estimator.export_saved_model."
    )


def _beside(path: str) -> str:
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        return ""
    folders = sorted(entry.name for entry in os.scandir(parent) if entry.is_dir())
    names = ", ".join(name for name in folders if not name.startswith("."))
    return f" In {parent} there are: {names}." if len(names) in range(1, 300) else ""


def advice(base_path: str) -> str:
    """What to give instead of a base path without versions; empty if that cannot be told.

    >>> advice("/nowhere")
    ''
    """
    if "://" in base_path or not os.path.isdir(base_path) or _has_versions(base_path):
        return ""
    path = os.path.abspath(base_path)
    if _is_model(path):
        if not _is_number(os.path.basename(path)):
            return _unnumbered(base_path, path)
        return f"{base_path} is itself a version. Give its parent, {os.path.dirname(path)}."
    exports = _exports_below(path)
    if not exports:
        return ""
    below = " and ".join(os.path.relpath(export, path) for export in exports)
    verb = "is" if len(exports) == 1 else "are"
    return f"{below} {verb} below: give {' or '.join(exports)}."


def _exports_below(path: str) -> list[str]:
    """Of a model_dir, or of its export folder: what has versions."""
    export = os.path.join(path, "export")
    for folder in (export, path):
        if not os.path.isdir(folder):
            continue
        if folder == export and _has_versions(folder):
            return [folder]
        exports = [
            entry.path
            for entry in os.scandir(folder)
            if entry.is_dir() and _has_versions(entry.path)
        ]
        if exports:
            return sorted(exports)
    return []


def _has_versions(path: str) -> bool:
    return any(_is_model(version) for version in disk.versions(path).values())


def _is_model(path: str) -> bool:
    return any(os.path.isfile(os.path.join(path, name)) for name in _MODEL_FILES)


def _is_number(name: str) -> bool:
    return name.isdecimal() and len(name) <= 18


def _name(path: str) -> str:
    """Of the folder; an exporter's in a model_dir has the model_dir's.

    >>> _name("/models/half"), _name("/runs/census/export/best"), _name("/runs/census/export")
    ('half', 'census', 'census')
    """
    parent, name = os.path.split(path)
    if name == "export":
        return os.path.basename(parent) or name
    if os.path.basename(parent) == "export":
        return os.path.basename(os.path.dirname(parent)) or name
    return name


def _unnumbered(given: str, path: str) -> str:
    name = os.path.basename(path)
    return (
        f"{given} is a model, but the folder of a version has a number for a name. Type: "
        f"mkdir -p models/{name} && cp -r {given} models/{name}/1 && estimand serve models/{name}"
    )
