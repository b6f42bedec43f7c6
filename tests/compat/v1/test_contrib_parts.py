"""Modules in which the code of contrib lay are imported as programs import them."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.install import install, uninstall
from estimand.compat.v1 import contrib, rnn_cell
from estimand.migrate.names import NameHome, Names
from estimand.migrate.uses import Target


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    install()
    yield
    uninstall()


def run(statement: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(statement, names)
    return names


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib.framework.python.framework import checkpoint_utils",
        "from tensorflow.contrib.framework.python.ops import add_arg_scope, arg_scope",
        "from tensorflow.contrib.framework.python.ops import variables as contrib_variables",
        "from tensorflow.contrib.rnn.python.ops import core_rnn_cell, rnn_cell",
        "from tensorflow.contrib.rnn.python.ops.core_rnn_cell import BasicLSTMCell",
        "from tensorflow.contrib.layers.python.layers import initializers, regularizers, utils",
        "from tensorflow.contrib.layers.python.layers import batch_norm",
        "import tensorflow.contrib.layers.python.layers.layers as layers_lib",
        "from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator, tpu_optimizer",
        "from tensorflow.contrib.seq2seq.python.ops import attention_wrapper, basic_decoder",
        "from tensorflow.contrib.seq2seq.python.ops.helper import TrainingHelper",
        "from tensorflow.contrib.estimator.python.estimator import early_stopping, extenders",
        "from tensorflow.contrib.estimator.python.estimator.rnn import _DEFAULT_CLIP_NORM",
        "from tensorflow.contrib.opt.python.training.weight_decay_optimizers import AdamWOptimizer",
        "from tensorflow.contrib.data.python.ops import batching, iterator_ops",
        "from tensorflow.contrib.learn.python.learn.estimators import run_config, model_fn",
        "from tensorflow.contrib.learn.python.learn.datasets.mnist import read_data_sets",
        "from tensorflow.contrib.learn.python.learn.learn_runner import run",
        "from tensorflow.contrib.training.python.training import evaluation, hparam",
        "from tensorflow.contrib.slim.python.slim import nets",
        "from tensorflow.contrib.slim.python.slim.nets import resnet_v2",
        "from tensorflow.contrib.eager.python import tfe",
        "from tensorflow.contrib.lookup import lookup_ops",
        "from tensorflow.contrib.lookup.lookup_ops import index_table_from_file",
        "from tensorflow.contrib.tensorboard.plugins import projector",
        "from tensorflow.contrib.keras import layers, models",
        "from tensorflow.contrib.learn.python.learn.utils import input_fn_utils",
        "from tensorflow.contrib.learn.python.learn.learn_io.pandas_io import pandas_input_fn",
        "from tensorflow.contrib.learn.python.learn.monitors import ValidationMonitor",
        "from tensorflow.contrib.learn.python import SKCompat",
        "from tensorflow.contrib.crf.python.ops.crf import viterbi_decode",
    ],
)
def test_imports_of_real_code(statement: str) -> None:
    run(statement)


def test_a_file_that_is_called_like_its_function_is_a_file() -> None:
    found = run(
        "from tensorflow.contrib.estimator.python.estimator import multi_head, replicate_model_fn\n"
        "from tensorflow.contrib.estimator.python.estimator.multi_head import multi_head as both"
    )
    assert found["multi_head"].multi_head is found["both"]
    assert found["multi_head"]._MultiHead is est.MultiHead
    assert callable(found["replicate_model_fn"].replicate_model_fn)


def test_context_is_joined_to_each_step_of_a_sequence() -> None:
    found = run(
        "from tensorflow.contrib.estimator.python.estimator.rnn import _concatenate_context_input"
    )
    join = found["_concatenate_context_input"]
    joined = join(tf.reshape(tf.range(6.0), [1, 3, 2]), tf.constant([[7.0]]))
    assert joined.numpy().tolist() == [[[0, 1, 7], [2, 3, 7], [4, 5, 7]]]
    with pytest.raises(ValueError, match="context_input must have rank 2"):
        join(tf.zeros([1, 3, 2]), tf.zeros([1]))


def test_heads_of_contrib_are_heads_with_the_older_face() -> None:
    found = run(
        "from tensorflow.contrib.estimator import multi_class_head, multi_label_head\n"
        "from tensorflow.python.estimator.canned.head import _Head"
    )
    assert isinstance(found["multi_label_head"](3), found["_Head"])
    head = found["multi_class_head"](3)
    loss = head.create_loss({}, "train", tf.zeros([4, 3]), tf.constant([[0], [1], [2], [0]]))
    assert loss.training_loss.numpy() == pytest.approx(math.log(3))


def test_what_is_found_is_what_the_part_has() -> None:
    found = run(
        "from tensorflow.contrib.training.python.training import hparam\n"
        "from tensorflow.contrib.rnn.python.ops import core_rnn_cell_impl as impl\n"
        "from tensorflow.contrib.learn.python.learn.learn_runner import run"
    )
    assert found["hparam"].HParams is est.HParams
    assert found["impl"].GRUCell is rnn_cell.GRUCell
    assert found["run"] is est.learn_runner.run
    part = importlib.import_module("tensorflow.contrib.rnn")
    assert part.python.ops.core_rnn_cell_impl is found["impl"]
    assert contrib.rnn.python.ops.core_rnn_cell.GRUCell is rnn_cell.GRUCell  # `estimand run`


def test_sounds_are_read_by_audio_ops() -> None:
    found = run(
        "from tensorflow.contrib.framework.python.ops import audio_ops as contrib_audio\n"
        "from tensorflow.contrib.lookup import string_to_index_table_from_tensor as to_index"
    )
    audio = found["contrib_audio"]
    sound = tf.sin(tf.range(1600.0) * 0.5)[:, tf.newaxis]
    read = audio.decode_wav(audio.encode_wav(sound, 16000), desired_channels=1)
    assert read.sample_rate == 16000
    windows = audio.audio_spectrogram(
        read.audio, window_size=480, stride=160, magnitude_squared=True
    )
    # Half a radian a sample is bin 0.5 / (2 pi) * 512 of 512.
    assert set(tf.argmax(windows, -1).numpy().ravel()) == {41}
    cepstrum = audio.mfcc(windows, read.sample_rate, dct_coefficient_count=10)
    assert cepstrum.shape == [1, windows.shape[1], 10]
    assert found["to_index"](["a", "b"]).lookup(tf.constant(["b"])).numpy() == [1]


def test_a_module_does_not_hide_the_function_of_its_name() -> None:
    found = run(
        "from tensorflow.contrib.framework.python.ops.arg_scope import add_arg_scope\n"
        "from tensorflow.contrib.framework.python.ops import arg_scope"
    )
    assert found["arg_scope"] is contrib.framework.arg_scope


def test_unknown_names_are_told_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'GRUCel'. It has: .*GRUCell"):
        contrib.rnn.python.ops.core_rnn_cell.GRUCel  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'foo'"):
        run("from tensorflow.contrib.rnn.python.ops.core_rnn_cell import foo")
    with pytest.raises(ImportError, match="cannot import name 'GRUCel'"):
        run("from tensorflow.contrib.rnn.python.ops import GRUCel")
    with pytest.raises(TypeError, match=r"tensorflow.contrib.rnn has no 'foo'. It has: .*GRUCell"):
        contrib.rnn.python.ops.foo(3)


@pytest.mark.parametrize(
    "statement",
    ["from tensorflow.contrib import ffmpeg", "import tensorflow.contrib.ffmpeg.python.ops"],
)
def test_a_part_that_is_not_offered_is_told_with_those_that_are(statement: str) -> None:
    with pytest.raises(ImportError, match=r"contrib.ffmpeg is not offered. Offered are: .*tpu"):
        run(statement)


def test_what_takes_the_place_of_a_part_is_told() -> None:
    instead = "contrib.distributions is not offered; in its place: .*tensorflow-probability"
    with pytest.raises(ModuleNotFoundError, match=instead):
        run("import tensorflow.contrib.distributions as tfd")
    with pytest.raises(AttributeError, match=instead):
        contrib.distributions  # noqa: B018
    with pytest.raises(AttributeError, match=instead):
        sys.modules["tensorflow.contrib"].distributions  # noqa: B018


def test_uninstalling_takes_all_of_it_out() -> None:
    run("from tensorflow.contrib.rnn.python.ops import core_rnn_cell")
    uninstall()
    assert not [name for name in sys.modules if name.startswith("tensorflow.contrib")]
    assert contrib.finder not in sys.meta_path
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow.contrib.rnn.python.ops")
    install()


def test_migrate_knows_them() -> None:
    names = Names()
    path = "tensorflow.contrib.rnn.python.ops.core_rnn_cell"
    for v1 in (False, True):
        assert names.find(Target(f"{path}.GRUCell", v1), v1) is NameHome.SUPPLIED
        assert names.find(Target(f"{path}.GRUCel", v1), v1) is NameHome.NOWHERE
