"""From the user's data to one Dataset of (features, labels).

- `contract` calls an input function (`call`) and makes one Dataset of what it returns, whatever
  `structure` that has; `legacy/` has what input functions of TensorFlow 1 return.
- `csv/`, `text_files` (both by `lines`), `tfrecord/`, `parquet_files`, `images/`, `memory/` and
  `service_input` are the ready-made ones; `files` finds what they read, `order` and `permutation`
  shuffle it, `sources` and `broken_data` name the row that was the reason of an error.
- `records/` is `est.records`, tools for TFRecord files, which no input function is.
- `remote_pipelines`: pipelines in other processes; `watched_batches`: those of Python code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.interpreter.lazy_names import lazy_names

# Public name -> the module where it lives. Lazily: importing this package imports no TensorFlow.
_HOME = {
    "ModelInput": "estimand.inputs.contract",
    "call_input_fn": "estimand.inputs.contract",
    "csv_input_fn": "estimand.inputs.csv.files",
    "image_folder_input_fn": "estimand.inputs.images.files",
    "numpy_input_fn": "estimand.inputs.memory.arrays",
    "pandas_input_fn": "estimand.inputs.memory.arrays",
    "parquet_input_fn": "estimand.inputs.parquet_files",
    "plain_errors": "estimand.inputs.sources",
    "service": "estimand.inputs.service_input",
    "table_input_fn": "estimand.inputs.memory.tables",
    "text_input_fn": "estimand.inputs.text_files",
    "tfrecord_input_fn": "estimand.inputs.tfrecord.files",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.inputs.contract import ModelInput as ModelInput
    from estimand.inputs.contract import call_input_fn as call_input_fn
    from estimand.inputs.csv.files import csv_input_fn as csv_input_fn
    from estimand.inputs.images.files import image_folder_input_fn as image_folder_input_fn
    from estimand.inputs.memory.arrays import numpy_input_fn as numpy_input_fn
    from estimand.inputs.memory.arrays import pandas_input_fn as pandas_input_fn
    from estimand.inputs.memory.tables import table_input_fn as table_input_fn
    from estimand.inputs.parquet_files import parquet_input_fn as parquet_input_fn
    from estimand.inputs.service_input import service as service
    from estimand.inputs.sources import plain_errors as plain_errors
    from estimand.inputs.text_files import text_input_fn as text_input_fn
    from estimand.inputs.tfrecord.files import tfrecord_input_fn as tfrecord_input_fn
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
