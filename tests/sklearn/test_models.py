"""`est.sklearn`: what scikit-learn asks of its models, and goes on with them."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import estimand as est
from estimand.sklearn.tables import Layout

POINTS = np.random.default_rng(0).normal(size=(120, 2)) * 3 + 5
SIDES = np.where(POINTS.sum(axis=1) > 10, "above", "below")


def linear(feature_columns: Any, n_classes: int, config: Any, params: Any) -> est.Estimator:
    assert params["twice"] in (1, 2)
    return est.LinearClassifier(feature_columns, n_classes=n_classes, config=config)


def small(**more: Any) -> est.sklearn.Classifier:
    return est.sklearn.Classifier(max_steps=60, random_state=0, **more)


def test_pipeline_cross_validation_and_grid_search() -> None:
    pipeline = make_pipeline(StandardScaler(), small())
    assert cross_val_score(pipeline, POINTS, SIDES, cv=2).min() > 0.8
    grid = {"classifier__params__hidden_units": [(4,), (8, 4)]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(POINTS, SIDES)
    assert search.best_params_["classifier__params__hidden_units"] in [(4,), (8, 4)]
    assert search.score(POINTS, SIDES) > 0.8
    shown = search.predict_proba(POINTS[:3])
    assert shown.shape == (3, 2) and np.allclose(shown.sum(axis=1), 1)


def test_data_frame_of_numbers_and_words_exports_its_columns(tmp_path: Any) -> None:
    frame = pd.DataFrame({"size": POINTS[:, 0], "color": np.where(SIDES == "above", "red", "blue")})
    frame.loc[0, "color"] = None
    model = est.sklearn.Classifier(max_steps=300, random_state=0).fit(frame, SIDES)
    assert model.feature_names_in_.tolist() == ["size", "color"]
    assert model.classes_.tolist() == ["above", "below"]
    assert model.score(frame, SIDES) > 0.9
    unseen = frame.assign(color="green")
    assert len(model.predict(unseen)) == len(frame)
    with est.load_model(model.export(tmp_path / "export")) as loaded:
        rows = frame.iloc[1:4]
        answers = loaded.signatures["predict"](
            size=rows["size"].to_numpy("float32"), color=rows["color"].to_numpy(object)
        )
    assert np.allclose(answers["probabilities"], model.predict_proba(rows), atol=1e-6)
    with pytest.raises(ValueError, match="should match those that were passed during fit"):
        model.predict(frame[["color", "size"]])


def test_data_frame_of_polars_is_that_of_pandas() -> None:
    polars = pytest.importorskip("polars")
    table = {"size": [1.0, 2.0, 3.0, 4.0] * 3, "color": ["red", "blue"] * 6}
    model = small().fit(polars.DataFrame(table), table["color"])
    shown = model.predict_proba(polars.DataFrame(table))
    assert np.array_equal(shown, model.predict_proba(pd.DataFrame(table)))

    class Unknown:
        columns = ("size",)

    with pytest.raises(est.errors.InputError, match=r"X is a .*Unknown, .*pandas or polars"):
        Layout.of(model, Unknown())


def test_weights_decide_where_rows_contradict_each_other() -> None:
    x = np.zeros([40, 1])
    y = np.tile([0, 1], 20)
    model = small().fit(x, y, sample_weight=np.where(y == 1, 1.0, 0.01))
    assert model.predict([[0.0]]) == [1]


def test_pickled_model_answers_the_same_and_its_folder_goes_with_it() -> None:
    model = small().fit(POINTS, SIDES)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(POINTS), model.predict_proba(POINTS))
    folder = again.estimator_.model_dir
    assert os.path.isdir(folder) and folder != model.estimator_.model_dir
    del again
    assert not os.path.exists(folder)


def test_estimator_of_ones_own_and_its_params() -> None:
    model = est.sklearn.Classifier(linear, {"twice": 1}, max_steps=5)
    assert clone(model).set_params(params__twice=2).params == {"twice": 2}
    assert model.get_params()["params__twice"] == 1
    assert model.fit(POINTS, SIDES).estimator_.get_variable_names()


def test_regression_with_one_and_several_columns() -> None:
    x = (POINTS - 5) / 3
    both = x @ [[1.0, 0.0], [2.0, 3.0]]
    model = est.sklearn.Regressor(max_steps=200, random_state=0)
    assert model.fit(x, both).predict(x[:5]).shape == (5, 2)
    assert model.score(x, both) > 0.9
    assert model.fit(x, both[:, 1]).predict(x[:5]).shape == (5,)


def test_mistakes_are_told() -> None:
    with pytest.raises(est.errors.ConfigError, match=r"'units'.*deep network does not know"):
        small(params={"units": 3}).fit(POINTS, SIDES)
    with pytest.raises(est.errors.ConfigError, match=r"has to return an est\.Estimator"):
        est.sklearn.Classifier(lambda: 3).fit(POINTS, SIDES)
    with pytest.raises(est.errors.InputError, match="needs 'predictions'"):
        est.sklearn.Regressor(
            lambda feature_columns: est.LinearClassifier(feature_columns), max_steps=2
        ).fit(POINTS, SIDES == "above").predict(POINTS)
