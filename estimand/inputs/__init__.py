"""From the user's data to one Dataset of (features, labels)."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ModelInput": "contract",
    "call_input_fn": "contract",
    "csv_input_fn": "csv.files",
    "image_folder_input_fn": "images.files",
    "numpy_input_fn": "memory.arrays",
    "pandas_input_fn": "memory.arrays",
    "parquet_input_fn": "parquet_files",
    "plain_errors": "sources",
    "service": "service_input",
    "table_input_fn": "memory.tables",
    "text_input_fn": "text_files",
    "tfrecord_input_fn": "tfrecord.files",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # Lazily: importing this package must not import TensorFlow.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
