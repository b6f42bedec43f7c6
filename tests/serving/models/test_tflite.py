"""TFLite models: `model.tflite` in a version's directory, with --prefer_tflite_model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import flexbuffers
from tensorflow.lite.tools import flatbuffer_utils

from estimand.serving.flags import TENSORFLOW, Flags
from estimand.serving.models.loader import ServableLoader
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
    opened = ServableLoader(Flags(prefer_tflite_model=True)).open(TENSORFLOW, str(tmp_path))
    signature = opened.signatures["serving_default"]
    assert (list(signature.inputs), list(signature.outputs)) == (["x"], ["y"])
    program = opened.program(list(signature.inputs.values()), list(signature.outputs.values()))
    # TensorFlow Serving's own test feeds a vector.
    for given in ([2.0], [[2.0]], [[2.0], [4.0], [6.0]], [[2.0]]):
        (y,) = program.run([np.float32(given)])
        np.testing.assert_allclose(y, np.float32(given) / 2 + 2)
    opened.close()


def with_metadata(model: bytes, **signatures: object) -> bytes:
    """As TensorFlow Lite's SetSignatureDefMap puts them in."""
    maker = flexbuffers.Builder()
    with maker.Map():
        for name, definition in signatures.items():
            maker.Key(name)
            maker.String(definition.SerializeToString().decode("ascii"))
    holder = flatbuffer_utils.convert_bytearray_to_object(bytearray(model))
    buffer = type(holder.buffers[0])()
    buffer.data = list(maker.Finish())
    holder.buffers.append(buffer)
    entry = type(holder.metadata[0])()
    entry.name, entry.buffer = "signature_defs_metadata", len(holder.buffers) - 1
    holder.metadata.append(entry)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(holder))


def definition(method: str, inputs: dict[str, str], outputs: dict[str, str]) -> object:
    made = v1.saved_model.build_signature_def(method_name=f"tensorflow/serving/{method}")
    for place, names in ((made.inputs, inputs), (made.outputs, outputs)):
        for alias, tensor in names.items():
            place[alias].name = tensor
    return made


def opened(folder: Path, model: bytes) -> object:
    (folder / "model.tflite").write_bytes(model)
    return ServableLoader(Flags(prefer_tflite_model=True)).open(TENSORFLOW, str(folder))


@pytest.mark.parametrize("name", ["serving_default", "half"])
def test_a_signature_in_the_metadata_names_inputs_and_outputs(name: str, tmp_path: Path) -> None:
    stated = definition("predict", {"tflite_in": "x:0"}, {"tflite_out": "y"})
    model = opened(tmp_path, with_metadata(without_signature(), **{name: stated}))
    assert set(model.signatures) == {"serving_default", name}
    for one in model.signatures.values():
        assert (list(one.inputs), list(one.outputs)) == (["tflite_in"], ["tflite_out"])
        program = model.program(list(one.inputs.values()), list(one.outputs.values()))
        assert program.run([np.float32([[2.0], [4.0]])])[0].tolist() == [[3.0], [4.0]]


def test_several_signatures_in_the_metadata_with_their_methods(tmp_path: Path) -> None:
    regress = definition("regress", {"inputs": "x"}, {"outputs": "y"})
    classify = definition("classify", {"inputs": "x"}, {"scores": "y"})
    whole = with_metadata(without_signature(), regress=regress, classify=classify)
    model = opened(tmp_path, whole)
    found = model.signatures
    assert {name: one.method for name, one in found.items()} == {
        "regress": "tensorflow/serving/regress",
        "classify": "tensorflow/serving/classify",
    }
    # MultiInference: both at once.
    inputs = [one.inputs["inputs"] for one in found.values()]
    outputs = [found["classify"].outputs["scores"], found["regress"].outputs["outputs"]]
    given = np.float32([[2.0]])
    scores, values = model.program(inputs, outputs).run([given, given])
    assert (scores.tolist(), values.tolist()) == ([[3.0]], [[3.0]])


def test_a_signature_in_the_metadata_that_does_not_fit_fails_to_load(tmp_path: Path) -> None:
    plain = without_signature()
    unknown = with_metadata(plain, s=definition("predict", {"x": "z:0"}, {"y": "y"}))
    with pytest.raises(StatusError, match="names the tensor 'z:0'; there are: x"):
        opened(tmp_path, unknown)
    # Else a request would be answered with what another one had put there.
    unset = with_metadata(plain, s=definition("predict", {}, {"y": "y"}))
    with pytest.raises(StatusError, match=r"gives no value to its input tensor x\."):
        opened(tmp_path, unset)
    good = with_metadata(plain, s=definition("predict", {"x": "x"}, {"y": "y"}))
    place = good.index(b"tensorflow/serving/predict")
    damaged = good[: place - 1] + b"\x7f" + good[place:]  # a length beyond the message
    with pytest.raises(StatusError, match="Invalid SignatureDefs found in TfLite model"):
        opened(tmp_path, damaged)


def test_without_the_flag_it_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"no model" * 99)
    with pytest.raises(StatusError, match=r"NOT_FOUND: Could not find SavedModel \.pb or \.pbtxt"):
        ServableLoader(Flags()).open(TENSORFLOW, str(tmp_path))
    with pytest.raises(ValueError, match="Model provided"):
        ServableLoader(Flags(prefer_tflite_model=True)).open(TENSORFLOW, str(tmp_path))
