"""`Classifier` and `Regressor`: an estimator behind scikit-learn's fit and predict."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted

from estimand.canned import DNNClassifier, DNNRegressor
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError, InputError
from estimand.engine.checkpoints.api import checkpoint_files
from estimand.estimator.estimator import Estimator
from estimand.export.receivers import build_raw_serving_input_receiver_fn
from estimand.inputs.memory.arrays import numpy_input_fn
from estimand.sklearn.tables import Layout

_WEIGHT = "_sample_weight"
_ROWS_AT_ONCE = 1024
_PREFIX = "params__"
_DEFAULTS: dict[str, Any] = {"hidden_units": (64,), "learning_rate": 0.01, "dropout": None}


class _Model(BaseEstimator):
    """What both have: how they are trained, asked, copied and kept."""

    def __init__(
        self,
        make_estimator: Callable[..., Estimator] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_steps: int = 500,
        batch_size: int = 32,
        random_state: Any = None,
    ) -> None:
        self.make_estimator = make_estimator
        self.params = params
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.random_state = random_state

    # Parameters: those of the model function are reached as params__name.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments, and with `deep` each of `params` as `params__name`."""
        arguments = super().get_params(deep=False)
        if deep and isinstance(self.params, Mapping):
            arguments |= {_PREFIX + name: value for name, value in self.params.items()}
        return arguments

    def set_params(self, **settings: Any) -> Any:
        """Set arguments, or by `params__name` one of `params`."""
        inner = {n.removeprefix(_PREFIX): v for n, v in settings.items() if n.startswith(_PREFIX)}
        super().set_params(**{n: v for n, v in settings.items() if not n.startswith(_PREFIX)})
        if inner:
            self.params = {**(self.params or {}), **inner}
        return self

    # Training and asking

    def _fit(self, x: Any, labels: np.ndarray, weights: Any, outputs: Mapping[str, int]) -> None:
        self._layout = Layout.of(self, x)
        features = self._layout.features(self, x)
        check_consistent_length(labels, *features.values())
        self._columns = self._layout.columns(features)
        self._outputs = dict(outputs)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._weighted = weights is not None
        self._specs = {
            name: tf.TensorSpec([None, *values.shape[1:]], tf.as_dtype(values.dtype))
            for name, values in features.items()
        }
        if weights is not None:
            rows = next(iter(features.values()))
            features[_WEIGHT] = _check_sample_weight(weights, rows, dtype=np.float32)
        self._open()
        batch = min(self.batch_size, len(labels))
        read = numpy_input_fn(features, labels, batch, num_epochs=None, shuffle=True)
        self.estimator_.train(read, max_steps=self.max_steps)

    def _open(self) -> None:
        """Make the estimator, in a folder that goes when this object does."""
        folder = tempfile.mkdtemp(prefix="estimand-sklearn-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        config = RunConfig(
            folder, self._seed, save_summary_steps=0, log_step_count_steps=None, progress=False,
            keep_checkpoint_max=1, checkpoint_save_graph_def=False, check_data=False,
        )  # fmt: skip
        given = {
            "feature_columns": self._columns,
            "weight_column": _WEIGHT if self._weighted else None,
            "config": config,
            "params": dict(self.params or {}),
            **self._outputs,
        }
        make = self.make_estimator or self._deep
        self.estimator_ = make(**_declared(make, given))
        if not isinstance(self.estimator_, Estimator):
            raise ConfigError(
                f"make_estimator of est.sklearn.{type(self).__name__} has to return an "
                f"est.Estimator, and returned {self.estimator_!r}."
            )

    def _deep(self, **given: Any) -> Estimator:
        raise NotImplementedError

    def _answers(self, x: Any, *keys: str) -> np.ndarray:
        """The first of the keys that the model's predictions have, for all rows."""
        check_is_fitted(self)
        features = self._layout.features(self, x)
        read = numpy_input_fn(features, batch_size=_ROWS_AT_ONCE, shuffle=False)
        batches = list(self.estimator_.predict(read, yield_single_examples=False))
        key = next((key for key in keys if key in batches[0]), None)
        if key is None:
            raise InputError(
                f"The model's predictions have the keys {sorted(batches[0])}; "
                f"est.sklearn.{type(self).__name__} needs {' or '.join(map(repr, keys))}."
            )
        return np.concatenate([batch[key] for batch in batches])

    def export(self, directory: str | os.PathLike[str]) -> str:
        """Write the fitted model as a SavedModel, to serve or to load; returns its path."""
        check_is_fitted(self)
        receiver_fn = build_raw_serving_input_receiver_fn(self._specs)
        return os.fsdecode(self.estimator_.export_saved_model(directory, receiver_fn))

    # Copying and pickling: with the files of the newest checkpoint in place of the estimator.

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "estimator_" in state:
            path = state.pop("estimator_").latest_checkpoint()
            model_dir = os.path.dirname(path)
            paths = [*checkpoint_files(path), _state_file(path)]
            state["_files"] = {os.path.relpath(path, model_dir): _read(path) for path in paths}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is None:
            return
        self._open()
        for name, content in files.items():
            path = os.path.join(self.estimator_.model_dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)


class Classifier(ClassifierMixin, _Model):
    """A classifier for scikit-learn: by default a deep network, or what `make_estimator` makes.

    `fit` starts anew each time. Columns of a DataFrame are features of their names, an array is
    the feature "x". The trained estimator is `estimator_`, in a folder that lives as long as this
    object; `export(directory)` writes it for serving.

    Args:
      make_estimator: called with those of `feature_columns`, `n_classes`, `weight_column`,
        `config` and `params` that it declares; returns an estimator whose predictions have
        "probabilities" or "class_ids". Module-level functions can be pickled.
      params: handed to it, as `params`; each can be set, and searched, as `params__name`. Those
        of the deep network are `hidden_units`, `learning_rate` and `dropout`.
      max_steps: how many batches to train on.
      batch_size: rows of a batch.
      random_state: a number makes `fit` repeatable.

    >>> import estimand as est, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(x.sum(axis=1) > 0, "above", "below")
    >>> model = est.sklearn.Classifier(max_steps=200, random_state=0).fit(x, y)
    >>> model.predict([[1.0, 1.0], [-1.0, -1.0]]).tolist(), model.score(x, y) > 0.9
    (['above', 'below'], True)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Classifier:
        """Train on rows X with the classes y, which may be of any type."""
        check_classification_targets(_given(y, self))
        self.classes_, numbers = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        classes = max(2, len(self.classes_))
        self._fit(X, numbers.astype(np.int64), sample_weight, {"n_classes": classes})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        answers = self._answers(X, "probabilities", "class_ids")
        if answers.dtype.kind == "f":
            answers = answers[:, : len(self.classes_)].argmax(axis=1)
        return self.classes_[answers.reshape(len(answers))]

    def predict_proba(self, X: Any) -> np.ndarray:
        """A column for each of `classes_`."""
        answers: np.ndarray = self._answers(X, "probabilities").astype(np.float64)
        answers = answers[:, : len(self.classes_)]  # of a single class there are two
        return answers / answers.sum(axis=1, keepdims=True)

    def _deep(self, **given: Any) -> Estimator:
        return DNNClassifier(**_of_deep_network(given))


class Regressor(RegressorMixin, _Model):
    """A regression for scikit-learn: by default a deep network, or what `make_estimator` makes.

    As `Classifier`; `y` may have several columns.

    Args:
      make_estimator: called with those of `feature_columns`, `label_dimension`, `weight_column`,
        `config` and `params` that it declares; returns an estimator whose predictions have
        "predictions".
      params: handed to it, as `params`; each can be set, and searched, as `params__name`. Those
        of the deep network are `hidden_units`, `learning_rate` and `dropout`.
      max_steps: how many batches to train on.
      batch_size: rows of a batch.
      random_state: a number makes `fit` repeatable.

    >>> import estimand as est, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = est.sklearn.Regressor(max_steps=300, random_state=0).fit(x, x @ [1.0, 2.0])
    >>> bool(abs(model.predict([[1.0, 1.0]])[0] - 3.0) < 0.3)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Regressor:
        """Train on rows X with the numbers y."""
        numbers = check_array(_given(y, self), ensure_2d=False, dtype=np.float32, input_name="y")
        self._flat = numbers.ndim == 1
        columns = numbers.reshape(len(numbers), -1)
        self._fit(X, columns, sample_weight, {"label_dimension": columns.shape[1]})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """A number for each row; as many columns as y had."""
        answers: np.ndarray = self._answers(X, "predictions").astype(np.float64)
        return answers.reshape(len(answers)) if self._flat else answers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _deep(self, **given: Any) -> Estimator:
        return DNNRegressor(**_of_deep_network(given))


def _of_deep_network(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a canned deep network."""
    params = given.pop("params")
    unknown = sorted(params.keys() - _DEFAULTS.keys())
    if unknown:
        raise ConfigError(
            f"params of est.sklearn has {unknown}, which its deep network does not know; it takes "
            f"{sorted(_DEFAULTS)}. For another model, give make_estimator."
        )
    chosen = _DEFAULTS | params
    rate = chosen["learning_rate"]
    return {
        **given,
        "hidden_units": list(chosen["hidden_units"]),
        "dropout": chosen["dropout"],
        "optimizer": lambda: tf.compat.v1.train.AdamOptimizer(rate),
    }


def _declared(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in parameters}


def _given(y: Any, model: Any) -> Any:
    if y is None:
        raise InputError(
            f"requires y to be passed, but the target y is None: est.sklearn."
            f"{type(model).__name__}.fit(X, y) learns from labels."
        )
    return y


def _state_file(checkpoint: str) -> str:
    return os.path.join(os.path.dirname(checkpoint), "checkpoint")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
