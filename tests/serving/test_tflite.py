"""TFLite models: `model.tflite` in a version's directory, with --prefer_tflite_model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.serving.flags import Flags
from estimand.serving.model_config import TENSORFLOW
from estimand.serving.opening import Opener
from estimand.serving.status import StatusError

v1 = tf.compat.v1


def with_signature() -> bytes:
    class Half(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.float32, name="x")])
        def call(self, x):
            return {"y": x * 0.5 + 2.0}

    half = Half()
    function = half.call.get_concrete_function()
    return tf.lite.TFLiteConverter.from_concrete_functions([function], half).convert()


def without_signature() -> bytes:
    """As the converter of TF1 wrote them."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [1, 1], name="x")
        y = tf.add(x * 0.5, 2.0, name="y")
        return v1.lite.TFLiteConverter.from_session(session, [x], [y]).convert()


@pytest.mark.parametrize("make", [with_signature, without_signature])
def test_a_tflite_model_answers_batches_of_any_size(make, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(make())
    opened = Opener(Flags(prefer_tflite_model=True)).open(TENSORFLOW, str(tmp_path))
    signature = opened.signatures["serving_default"]
    assert (list(signature.inputs), list(signature.outputs)) == (["x"], ["y"])
    program = opened.program(list(signature.inputs.values()), list(signature.outputs.values()))
    # TensorFlow Serving's own test feeds a vector.
    for given in ([2.0], [[2.0]], [[2.0], [4.0], [6.0]], [[2.0]]):
        (y,) = program.run([np.float32(given)])
        np.testing.assert_allclose(y, np.float32(given) / 2 + 2)
    opened.close()


def test_without_the_flag_it_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"no model" * 99)
    with pytest.raises(StatusError, match=r"NOT_FOUND: Could not find SavedModel \.pb or \.pbtxt"):
        Opener(Flags()).open(TENSORFLOW, str(tmp_path))
    with pytest.raises(ValueError, match="Model provided"):
        Opener(Flags(prefer_tflite_model=True)).open(TENSORFLOW, str(tmp_path))
