"""What the best exporter remembers: beside the checkpoints, not among the versions of exports.

Programs take whatever lies in the folder of an exporter for a version, and sort by number.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.core.files.atomic_files import remove_quietly, replace_text
from estimand.export import card

RECORD_FILE = "estimand_best.json"
# In the folder of the exporter, where earlier versions of Estimand wrote it.
_OLD_FILE = "best.json"

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class Record:
    """The best of one exporter.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> Record({"loss": 0.25}, "1719407230", "model.ckpt-10").save(folder, f"{folder}/export/best")
    >>> Record.load(folder, f"{folder}/export/best").eval_result
    {'loss': 0.25}
    """

    eval_result: dict[str, Any]
    version: str
    checkpoint: str

    @classmethod
    def load(cls, model_dir: str, export_path: str) -> Record | None:
        path = os.path.join(model_dir, RECORD_FILE)
        entries = _read(path).get(_key(model_dir, export_path))
        if entries is None:
            path = os.path.join(export_path, _OLD_FILE)
            entries = _read(path)
        if not entries:
            return None
        try:
            return cls(
                numbers(entries["eval_result"]),
                str(entries["version"]),
                str(entries["checkpoint"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            _log.warning("Ignoring %s, which cannot be read (%r).", path, error)
            return None

    def save(self, model_dir: str, export_path: str) -> None:
        path = os.path.join(model_dir, RECORD_FILE)
        entries = {**_read(path), _key(model_dir, export_path): card.plain(vars(self))}
        os.makedirs(model_dir, exist_ok=True)
        replace_text(path, json.dumps(entries, indent=1) + "\n")
        remove_quietly(os.path.join(export_path, _OLD_FILE))


def _key(model_dir: str, export_path: str) -> str:
    """An exporter's folder as seen from model_dir, which may be moved as a whole."""
    return os.path.relpath(os.path.realpath(export_path), os.path.realpath(model_dir))


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        if not isinstance(entries, dict):
            raise ValueError(f"expected an object, found {type(entries).__name__}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.warning("Ignoring %s, which cannot be read (%r).", path, error)
        return {}
    return entries


def numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result as it was before JSON: lists as arrays, nan and inf as numbers."""
    return {
        key: np.array(value) if isinstance(value, list) else _number(value)
        for key, value in result.items()
    }


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
