"""Exports of converted estimators: batch normalization included, which once failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.bridge.conversions import CASES, X, Y, convert, fit, read, small_model


def raw_receiver(x: Any) -> Any:
    features = x if isinstance(x, dict) else {"x": x}
    specs = {k: tf.TensorSpec([None, *v.shape[1:]], v.dtype) for k, v in features.items()}
    return est.export.build_raw_serving_input_receiver_fn(specs)


def test_an_export_has_the_moving_averages_of_batch_normalization(tmp_path: Path) -> None:
    model = small_model()
    estimator = convert(model, tmp_path / "m")
    estimator.train(read(X, Y), steps=10)
    fit(model, read(X, Y)(), 10)
    exported = estimator.export_saved_model(str(tmp_path / "e"), raw_receiver(X))
    with est.load_model(exported.decode()) as loaded:
        (answer,) = loaded({"x": X}).values()
    np.testing.assert_allclose(answer, model.predict(X, verbose=0), atol=1e-4)
    # They have moved: with the first ones, the answers are others.
    untrained = small_model()
    untrained.set_weights(
        [
            first if v.name.startswith("moving") else last
            for v, first, last in zip(
                model.weights, untrained.get_weights(), model.get_weights(), strict=True
            )
        ]
    )
    assert np.abs(untrained.predict(X, verbose=0) - answer).max() > 1e-2


@pytest.mark.parametrize("name", ["recurrent", "two_towers", "subclassed", "dict_outputs"])
def test_other_kinds_of_models(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    estimator = convert(case.make(), tmp_path / "m")
    estimator.train(read(case.x, case.y), steps=2)
    exported = estimator.export_saved_model(str(tmp_path / "e"), raw_receiver(case.x))
    predicted = list(estimator.predict(read(case.x, epochs=1)))
    with est.load_model(exported.decode()) as loaded:
        answers = loaded(case.x if isinstance(case.x, dict) else {"x": case.x})
    assert answers
    for key, values in answers.items():
        np.testing.assert_allclose(values, [p[key] for p in predicted], atol=1e-5)


def test_outputs_with_signatures_of_their_own(tmp_path: Path) -> None:
    case = CASES["two_towers"]
    estimator = convert(
        case.make(),
        tmp_path / "m",
        export_outputs={"price": est.export.RegressionOutput},
    )
    estimator.train(read(case.x, case.y), steps=1)

    def receiver_fn() -> Any:
        specs = {k: tf.io.FixedLenFeature([4], tf.float32) for k in ("left", "right")}
        return est.export.build_parsing_serving_input_receiver_fn(specs)()

    exported = estimator.export_saved_model(str(tmp_path / "e"), receiver_fn)
    with est.load_model(exported.decode()) as loaded:
        assert set(loaded.signatures) >= {"serving_default", "price"}


def test_a_signature_for_an_output_that_is_not_there(tmp_path: Path) -> None:
    estimator = convert(
        small_model(), tmp_path, export_outputs={"price": est.export.RegressionOutput}
    )
    with pytest.raises(KeyError, match=r"Missed keys: {'price'}"):
        next(estimator.predict(read(X, epochs=1)))


def test_before_any_training_the_weights_of_the_model_are_exported(tmp_path: Path) -> None:
    model = small_model()
    exported = convert(model, tmp_path / "m").export_saved_model(
        str(tmp_path / "e"), raw_receiver(X)
    )
    with est.load_model(exported.decode()) as loaded:
        (answer,) = loaded({"x": X}).values()
    np.testing.assert_allclose(answer, model.predict(X, verbose=0), atol=1e-5)
    assert tf.train.latest_checkpoint(str(tmp_path / "m")) is None


@pytest.mark.parametrize("steps", [0, 3])
def test_with_metrics_added_it_is_exported_as_without(steps: int, tmp_path: Path) -> None:
    model = small_model()
    plain = convert(model, tmp_path / "m")
    measured = est.add_metrics(plain, lambda labels: {"mean": tf.compat.v1.metrics.mean(labels)})
    if steps:
        measured.train(read(X, Y), steps=steps)
        fit(model, read(X, Y)(), steps)
    exported = measured.export_saved_model(str(tmp_path / "e"), raw_receiver(X))
    with est.load_model(exported.decode()) as loaded:
        (answer,) = loaded({"x": X}).values()
    np.testing.assert_allclose(answer, model.predict(X, verbose=0), atol=1e-4)
