"""The CNN tutorial, run from end to end."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from tests.legacy.cnn_program import main


def digits(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images whose class is the place of a bright bar."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, rows).astype(np.int32)
    images = random.uniform(0, 0.1, size=(rows, 28, 28)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 4] += 1
    return images.reshape(rows, 784), labels


EVAL_X, EVAL_Y = digits(150, seed=1)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program returned, and what it logged."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("tensorflow")
    level, _ = logger.level, logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        model_dir = str(tmp_path_factory.mktemp("mnist"))
        estimator, eval_input_fn, results = main(*digits(200, seed=0), EVAL_X, EVAL_Y, model_dir)
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    return {
        "estimator": estimator,
        "eval_input_fn": eval_input_fn,
        "results": results,
        "messages": messages,
    }


def test_hook_logs_the_named_probabilities(program: dict[str, Any]) -> None:
    logged = [m for m in program["messages"] if m.startswith("probabilities = ")]
    assert len(logged) == 1
    assert logged[0].startswith("probabilities = [[0.")


def test_familiar_lines_are_logged(program: dict[str, Any]) -> None:
    messages = "\n".join(program["messages"])
    for line in (
        "Calling model_fn.",
        "Done calling model_fn.",
        "Saving checkpoints for 0 into",
        "loss = 2.",
        "Loss for final step: 2.",
        "Saving dict for global step 1: accuracy = ",
    ):
        assert line in messages


def test_evaluation_agrees_with_the_predictions(program: dict[str, Any]) -> None:
    rows = list(program["estimator"].predict(program["eval_input_fn"]))
    probabilities = np.array([row["probabilities"] for row in rows])
    classes = np.array([row["classes"] for row in rows])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(classes, probabilities.argmax(axis=1))
    losses = -np.log(probabilities[np.arange(150), EVAL_Y])
    results = program["results"]
    # numpy_input_fn takes batches of 128; the loss is the mean over those.
    expected = np.mean([losses[:128].mean(), losses[128:].mean()])
    assert results["loss"] == pytest.approx(expected, rel=1e-5)
    assert results["accuracy"] == pytest.approx(np.mean(classes == EVAL_Y))
    assert results["global_step"] == 1


def test_checkpoint_has_the_names_and_shapes_of_tf_layers(program: dict[str, Any]) -> None:
    estimator = program["estimator"]
    shapes = {n: estimator.get_variable_value(n).shape for n in estimator.get_variable_names()}
    assert shapes == {
        "conv2d/bias": (32,),
        "conv2d/kernel": (5, 5, 1, 32),
        "conv2d_1/bias": (64,),
        "conv2d_1/kernel": (5, 5, 32, 64),
        "dense/bias": (1024,),
        "dense/kernel": (3136, 1024),
        "dense_1/bias": (10,),
        "dense_1/kernel": (1024, 10),
        "global_step": (),
    }
