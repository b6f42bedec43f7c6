"""Programs for tf.keras of version 2, which TensorFlow keeps alive as the package tf_keras."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimand.engine.checkpoints.contents import CheckpointContents
from tests import forked

REPOSITORY = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tf_keras") is None,
    reason="Keras 2 is not installed: pip install 'estimand[keras2]'",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A process of its own: what tf.keras is, is decided once per process."""
    output = tmp_path_factory.mktemp("keras2") / "results.json"
    command = [sys.executable, "-m", "tests.legacy.keras2.programs_in_one_process", str(output)]
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.fixture
def found(request: pytest.FixtureRequest, results: dict[str, Any]) -> dict[str, Any]:
    one = results[request.param]
    assert "failed" not in one, one["failed"]
    return one


@pytest.mark.parametrize("found", ["model functions"], indirect=True)
def test_model_functions_with_each_way_to_make_a_train_op(found: dict[str, Any]) -> None:
    assert set(found) == {"adam", "legacy adam", "nadam", "updates", "method"}
    for name, one in found.items():
        assert one["step"] == 30 and one["rows"] == 256, name
        assert one["accuracy"] > 0.6, name
        assert one["moved"] > 0.01, name  # the averages of batch normalization


@pytest.mark.parametrize("found", ["rates"], indirect=True)
def test_rates_are_taken_as_before_the_newer_optimizers(found: dict[str, Any]) -> None:
    assert found.pop("lr") == pytest.approx(1.5)
    expected = 0.5 + 0.5 / 1.5 + 0.5 / 2
    assert found == pytest.approx(
        dict.fromkeys(("decay", "legacy decay", "saved", "tensor"), expected)
    )


@pytest.mark.parametrize("found", ["conversion"], indirect=True)
def test_a_converted_model_trains_as_fit_does(found: dict[str, Any]) -> None:
    assert found["unchanged"] and found["far from fit"] < 1e-6
    # As tf.estimator 2.15 wrote them.
    assert {"dense/kernel", "training/Adam/dense/kernel/m", "training/Adam/beta_1"} <= set(
        found["names"]
    )
    assert found["metrics"]["global_step"] == 40
    assert [found["metrics"][n] for n in ("loss", "accuracy")] == pytest.approx(found["of keras"])
    assert found["served"] == pytest.approx(found["predicted"], rel=1e-4)
    assert found["step of file"] == 1


@pytest.mark.parametrize("found", ["inputs and outputs"], indirect=True)
def test_several_inputs_and_outputs(found: dict[str, Any]) -> None:
    assert found["after"] < 0.01 < found["before"]


@pytest.mark.parametrize("found", ["eagerly"], indirect=True)
def test_a_program_run_eagerly_is_the_same_program(found: dict[str, Any]) -> None:
    eager, traced = found["eager"], found["traced"]
    assert eager.keys() == traced.keys()
    for name, values in eager.items():  # Adam is one kernel there: up to the rounding of 1 - beta
        np.testing.assert_allclose(values, traced[name], rtol=1e-4, atol=1e-8, err_msg=name)
    assert found["eager"]["iteration"] == found["eager"]["global_step"] == 4


@pytest.mark.parametrize("found", ["weights in the model_dir"], indirect=True)
def test_weights_that_keras_saved_into_the_model_dir(found: dict[str, Any]) -> None:
    assert found["begins from"] == "/keras/mine.ckpt"
    np.testing.assert_allclose(found["predicted"], found["of keras"], rtol=1e-5)


@pytest.mark.parametrize("found", ["weights in H5"], indirect=True)
def test_weights_of_an_h5_file(found: dict[str, Any]) -> None:
    assert found["predicted"] == pytest.approx(found["of keras"], rel=1e-5)


@pytest.mark.parametrize("found", ["optimizer of TensorFlow 1"], indirect=True)
def test_a_model_compiled_with_an_optimizer_of_tensorflow_1(found: dict[str, Any]) -> None:
    assert found["after"] < 0.2 * found["before"]


@pytest.mark.parametrize("found", ["made in a graph"], indirect=True)
def test_a_model_made_in_a_graph_with_a_lambda(found: dict[str, Any]) -> None:
    assert found["predicted"] == pytest.approx(found["of keras"], rel=1e-5)
    assert found["metrics"] == ["global_step", "loss", "mae"]
    assert found["soft"]  # as upstream, the config of an estimator has a session config


@pytest.mark.parametrize("found", ["canned"], indirect=True)
def test_optimizers_of_keras_2_in_canned_models(found: dict[str, Any]) -> None:
    assert "training/Adam/dnn/logits/kernel/m" in found["adam"]
    assert "training/Adagrad/dnn/logits/kernel/accumulator" in found["adagrad"]
    assert "training/Nadam/m/dnn/logits/kernel" in found["nadam"]


@pytest.mark.parametrize("found", ["replicas"], indirect=True)
def test_two_replicas_train_as_one(found: dict[str, Any]) -> None:
    assert found["two"] == pytest.approx(found["one"], abs=1e-6)


@pytest.mark.parametrize("found", ["layers of replicas"], indirect=True)
def test_each_replica_numbers_its_layers_from_the_start(found: dict[str, Any]) -> None:
    layers = ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel"]
    assert found == {"step": 2, "names": [*layers, "global_step"]}


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "options"),
    [("workers", ["--workers", "1"]), ("ps", ["--workers", "1", "--ps", "1"])],
)
def test_clusters_train_models_of_keras_2(kind: str, options: list[str], tmp_path: Path) -> None:
    program = Path(__file__).parent / "cluster_program.py"
    command = [sys.executable, "-m", "estimand", "launch", *options, str(program), kind]
    done = subprocess.run(
        [*command, str(tmp_path / "model")],
        cwd=REPOSITORY,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    contents = CheckpointContents(tmp_path / "model")
    names = {one.name for one in contents.tensors}
    assert contents.step == 12
    assert "sequential/batch_normalization/moving_mean" in names
    assert "Adam/m/sequential/out/kernel" in names


@pytest.mark.parametrize("found", ["own gradients"], indirect=True)
def test_an_optimizer_that_takes_gradients_its_own_way_is_asked_for_them(
    found: dict[str, Any],
) -> None:
    assert found["w"] == [-2.0]  # and not by the 50 of the second example


def test_a_layer_made_before_is_copied_in_the_model_function(tmp_path: Path) -> None:
    """`copy.deepcopy(layer)` of a program with graphs, in which Keras 2 has layers of a kind."""
    done = forked.run(
        ["-m", "estimand", "run", "--keras=2", Path(__file__).parent / "copied_layer.py", tmp_path]
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all done" in done.stdout
