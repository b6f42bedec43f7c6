"""`estimand.install()`: where code looks for tf.estimator, it finds Estimand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat import module_table
from estimand.compat.install import install, installed, uninstall
from estimand.compat.mapped_module import MappedModule

ROOTS = ("tensorflow_estimator", "tensorflow.estimator", "tensorflow.contrib")


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    with installed():
        yield


def mapped_modules() -> dict[str, MappedModule]:
    return {name: m for name, m in sys.modules.items() if isinstance(m, MappedModule)}


def test_the_public_faces() -> None:
    assert tf.estimator.Estimator is est.Estimator
    assert tf.estimator.DNNClassifier is est.DNNClassifier
    assert tf.compat.v1.estimator.DNNClassifier is est.compat.v1.DNNClassifier
    assert tf.estimator.export.PredictOutput is est.export.PredictOutput
    assert tf.compat.v1.estimator.inputs.numpy_input_fn is est.inputs.numpy_input_fn
    assert not hasattr(tf.estimator, "inputs")
    assert tf.keras.estimator.model_to_estimator is not None
    assert tf.compat.v1.layers is est.compat.v1.layers
    assert tf.compat.v1.nn.rnn_cell is est.compat.v1.rnn_cell


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow import estimator",
        "from tensorflow.estimator import Estimator",
        "import tensorflow.estimator.export as export",
        "from tensorflow.compat.v1.estimator import tpu",
        "from tensorflow.keras.estimator import model_to_estimator",
        "from tensorflow.keras import estimator",
        "from tensorflow_estimator.python.estimator import estimator as estimator_lib",
        "from tensorflow_estimator.python.estimator.canned import head as head_lib",
        "from tensorflow_estimator.python.estimator.head import base_head",
        "import tensorflow_estimator.python.estimator.export.export_lib as export_lib",
        "from tensorflow_estimator.python.estimator.training import _TrainingExecutor",
        "from tensorflow_estimator.python.estimator.exporter import _SavedModelExporter",
        "from tensorflow_estimator.python.estimator.util import _DatasetInitializerHook",
        "from tensorflow.python.estimator.canned.optimizers import get_optimizer_instance",
        "from tensorflow.python.estimator.estimator_export import estimator_export",
        "from tensorflow.contrib.learn.python.learn import learn_runner",
        "import tensorflow.contrib.layers as contrib_layers",
        "from tensorflow_estimator.python.estimator.estimator_lib import *",
    ],
)
def test_import_statements_of_real_code(statement: str) -> None:
    exec(statement, {})


def test_every_name_of_every_module_leads_somewhere() -> None:
    modules = mapped_modules()
    assert len(modules) > 100
    missing = []
    for name, module in modules.items():
        for attribute in module._homes:
            try:
                getattr(module, attribute)
            except (AttributeError, ImportError) as error:
                missing.append(f"{name}.{attribute}: {error}")
    assert not missing


def test_the_lists_have_the_names_of_tf_estimator() -> None:
    # 74 names in tf.estimator 2.15 and 83 in tf.compat.v1.estimator.
    assert sum(map(len, module_table.V2.values())) == 74
    assert sum(map(len, module_table.V1.values())) == 83


def test_a_missing_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Estimater'. It has: .*Estimator"):
        tf.estimator.Estimater  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from tensorflow_estimator.python.estimator.training import nothing", {})


def test_installing_twice_changes_nothing_and_uninstalling_all() -> None:
    module = tf.estimator
    install()
    assert tf.estimator is module
    uninstall()
    assert not hasattr(tf, "estimator")
    assert not hasattr(tf.compat.v1, "estimator")
    assert not [name for name in sys.modules if name.startswith(ROOTS)]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow_estimator")
    install()
    assert tf.estimator.Estimator is est.Estimator


@pytest.mark.parametrize("face", [tf, tf.compat.v1, tf.compat.v2])
def test_columns_of_tensorflow_are_refused_when_made_of_the_wrong_thing(face: ModuleType) -> None:
    columns = face.feature_column
    with pytest.raises(ValueError, match=r"embedding_column: .*'age'.*bucketized_column"):
        columns.embedding_column(columns.numeric_column("age"), 3)
    words = columns.categorical_column_with_vocabulary_list("job", ["a", "b"])
    made = columns.embedding_column(words, 3)
    assert type(made).__name__ == "EmbeddingColumn" and made.dimension == 3


def test_the_sdca_solver_is_there_by_both_names() -> None:
    linear = importlib.import_module("tensorflow_estimator.python.estimator.canned.linear")
    assert linear.LinearSDCA is tf.estimator.experimental.LinearSDCA


def test_legacy_keras_optimizers_train_canned_estimators(tmp_path: Path) -> None:
    def input_fn() -> tf.data.Dataset:
        x = np.linspace(-1, 1, 32, dtype="float32")
        return tf.data.Dataset.from_tensor_slices(({"x": x}, (x > 0).astype("int64"))).batch(8)

    estimator = tf.estimator.LinearClassifier(
        [tf.feature_column.numeric_column("x")],
        model_dir=tmp_path,
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.5, momentum=0.9),
    )
    estimator.train(input_fn)
    weights = "training/SGD/linear/linear_model/x/weights/momentum"
    assert weights in estimator.get_variable_names()
    uninstall()
    with pytest.raises(ImportError, match=r"keras\.optimizers\.legacy"):
        tf.keras.optimizers.legacy.SGD(0.5)


def test_names_of_devices_can_be_merged_in_place() -> None:
    """As functions given to `tf.device` did, which place variables on a parameter server."""
    with installed():
        device = importlib.import_module("tensorflow.python.framework.device")
        spec = device.DeviceSpec.from_string("/cpu:0")
        spec.merge_from(device.DeviceSpec.from_string("/job:worker/gpu:1"))
        assert spec.to_string() == "/job:worker/device:GPU:1"
        assert spec.parse_from_string("/cpu:3").device_index == 3
