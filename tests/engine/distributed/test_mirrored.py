"""Two replicas of one process train as one does on the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests import forked
from tests.engine.distributed import models

REPOSITORY = Path(__file__).parents[3]
STEPS, BATCH = 4, 8


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    output = tmp_path_factory.mktemp("mirrored") / "results.json"
    done = forked.run(["-m", "tests.engine.distributed.mirrored_program", output], cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


@pytest.fixture(params=models.MIRRORED)
def pair(request, results):
    return results[request.param]["one"], results[request.param]["two"]


def assert_equal(one: dict, two: dict) -> None:
    assert one.keys() == two.keys() and one
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_the_loss_of_every_step_is_that_of_the_whole_batch(pair):
    one, two = pair
    assert len(two["losses"]) == STEPS // 2
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=0, atol=1e-5)


def test_checkpoints_have_the_same_names_and_values(pair):
    one, two = pair
    assert one["checkpoint"]["global_step"] == [STEPS]
    assert_equal(one["checkpoint"], two["checkpoint"])


def test_metrics_count_every_row_once_though_batches_do_not_come_out_even(pair):
    one, two = pair  # five batches on two replicas
    assert_equal(one["metrics"], two["metrics"])


@pytest.mark.parametrize("name", ["v1", "keras"])
def test_predictions_are_the_same(results, name):
    one, two = results[name]["one"], results[name]["two"]
    assert len(two["predictions"]) == models.ROWS
    np.testing.assert_allclose(two["predictions"], one["predictions"], atol=1e-5)


def test_checkpoints_go_from_one_process_to_two_replicas_and_back(results):
    one, two = results["v1"]["one"], results["v1"]["two"]
    assert one["resumed by the other"]["global_step"] == [STEPS + 2]
    assert_equal(one["resumed by the other"], two["resumed by the other"])


def test_statistics_of_batch_normalization_are_averaged_over_replicas(results):
    mean, variance = np.zeros(3), np.ones(3)
    rows = models.data()[0]["x"].astype(np.float64)
    for step in range(2):
        parts = [rows[(2 * step + r) * BATCH :][:BATCH] for r in range(2)]
        mean = 0.5 * mean + 0.5 * np.mean([p.mean(axis=0) for p in parts], axis=0)
        variance = 0.5 * variance + 0.5 * np.mean([p.var(axis=0) for p in parts], axis=0)
    saved = results["norm"]["checkpoint"]
    np.testing.assert_allclose(saved["batch_normalization/moving_mean"], mean, atol=1e-6)
    np.testing.assert_allclose(saved["batch_normalization/moving_variance"], variance, atol=1e-6)
    expected = (rows - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(results["norm"]["rows"], expected, atol=1e-4)
    np.testing.assert_allclose(results["norm"]["rows alone"], expected, atol=1e-4)


def test_dropout_masks_of_keras_differ_by_replica(results):
    first, second = results["masks"]
    assert {*first, *second} == {0.0, 2.0}  # two are kept of four
    assert first != second


def test_replicas_that_print_before_the_sum_do_not_wait_for_each_other(results):
    assert results["printing"] == 2


def test_batches_that_are_not_enough_for_all_replicas_are_told(results):
    (line,) = (one for one in results["left over"] if "left out" in one)
    assert line.startswith("1 batch left out at the end of the input")


def test_variable_made_outside_of_model_fn_is_named(results):
    assert results["outside"].startswith("'mine' cannot be trained under MirroredStrategy")


def test_one_device_that_is_not_the_default_one_does_all_as_no_strategy_does(results):
    alone, there = results["v1"]["one"], results["one device"]
    assert_equal(alone["checkpoint"], there["checkpoint"])
    assert_equal(alone["metrics"], there["metrics"])
    assert_equal({"p": alone["predictions"]}, there["predictions"])


def test_moving_averages_of_the_weights(results):
    found = results["averaged"]
    # 1 → 0.98 → 0.9604, and its average half the way behind it.
    assert found["w"] == pytest.approx([0.9604])
    average = found["w/ExponentialMovingAverage"]
    assert average == pytest.approx([(0.5 * (1 + 0.98) + 0.9604) / 2])
