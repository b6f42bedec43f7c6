"""Random forests and gradient boosted trees, trained by ydf, as Estimators."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.canned.forest.table import Column, columns_of, note_columns
from estimand.canned.forest.training import (
    BOOSTED_TREES,
    RANDOM_FOREST,
    Examples,
    fit,
    taken_over,
    ydf_module,
)
from estimand.canned.forest.trees import ForestVariables
from estimand.canned.probabilities import logits_for
from estimand.core.config import RunConfig
from estimand.core.errors import InputError, NoCheckpointError
from estimand.core.files.atomic_files import temporary_path
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.api import CheckpointWriter, Entry
from estimand.engine.model_dir import ModelDirLock, RunRecord, ensure_writable
from estimand.estimator import checks
from estimand.estimator.estimator import Estimator
from estimand.estimator.run_context import engine_scope, keep_policy
from estimand.heads import RegressionHead, binary_or_multi_class_head
from estimand.heads.single import SingleHead
from estimand.inputs.contract import call_input_fn

_log = logging.getLogger("tensorflow")


class _ForestEstimator(Estimator):
    """What forests share: training is one call of ydf, the rest is an Estimator as any other."""

    _learner: str

    def __init__(
        self,
        head: SingleHead,
        n_classes: int | None,
        features: Sequence[str] | None,
        weight_column: str | None,
        hyperparameters: Mapping[str, Any] | None,
        model_dir: str | os.PathLike[str] | None,
        config: RunConfig | None,
    ) -> None:
        self._head = head
        self._n_classes = n_classes
        self._features = None if features is None else tuple(features)
        self._weight_column = weight_column
        self._hyperparameters = dict(hyperparameters or {})
        super().__init__(self._forest_model_fn, model_dir, config)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Estimator:
        """Read `input_fn` to its end, or `steps` batches of it, and grow the forest anew.

        A step is a batch that was read; there is one checkpoint, at the end. Hooks, which look
        at steps of a training, have nothing to look at and are not called.
        """
        checks.steps(steps, max_steps)
        checks.hooks(hooks)
        checks.saving_listeners(saving_listeners)
        ydf_module()  # before all data is read
        if hooks:
            _log.warning("%s trains in one call: hooks are not called.", type(self).__name__)
        model_dir = ensure_writable(self.model_dir)
        with engine_scope(self._workspace), ModelDirLock(model_dir):
            latest = self.latest_checkpoint()
            before = checkpoints.checkpoint_step(latest) if latest else 0
            if max_steps is not None:
                if before >= max_steps:
                    _log.info("Skipping training since max_steps has already saved.")
                    return self
                steps = max_steps - before
            data, batches = self._read(input_fn, steps)
            model = fit(self._learner, self._n_classes, self._hyperparameters, data)
            self._save(model, data.columns, before + batches, list(saving_listeners or ()))
            record = RunRecord.load(model_dir)
            record.params = self._workspace.noted_params()
            record.save(model_dir)
        return self

    def ydf_model(self) -> Any:
        """The model as ydf knows it: `.describe()`, `.analyze(...)`, `.variable_importances()`."""
        return ydf_module().load_model(self._folder_of_model())

    def _folder_of_model(self) -> str:
        path = self.latest_checkpoint()
        folder = None if path is None else _ydf_folder(path)
        if folder is None or not os.path.isdir(folder):
            raise NoCheckpointError(
                f"There is no trained forest in model_dir: {self.model_dir}. Call train first."
            )
        return folder

    def _read(self, input_fn: Callable[..., Any], steps: int | None) -> tuple[Examples, int]:
        given = call_input_fn(input_fn, mode=ModeKeys.TRAIN, params=self.params, config=self.config)
        if steps is None and given.dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise InputError(
                f"{type(self).__name__} reads all data before it trains, but input_fn never ends. "
                "Leave out repeat(), or give steps=."
            )
        columns: list[Column] = []
        batches: list[list[np.ndarray]] = []
        for element in given.dataset.take(-1 if steps is None else steps):
            features, labels = given.unpack(element)
            columns, values = self._columns(features)
            blank = tf.zeros([tf.shape(values[0])[0], self._head.logits_dimension])
            known = [*values, self._head._usable_labels(labels, blank)[:, 0]]
            if self._weight_column is not None:
                known.append(self._weights(features))
            batches.append([value.numpy() for value in known])
        if not batches:
            raise InputError(
                "Training with estimator made no steps. Perhaps input is empty or misspecified."
            )
        whole = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
        table = [_text(v) if c.is_text else v for c, v in zip(columns, whole, strict=False)]
        labels = whole[len(columns)]
        labels = labels.astype(np.float32 if self._n_classes is None else np.int64)
        weights = whole[-1] if self._weight_column is not None else None
        return Examples(columns, table, labels, weights), len(batches)

    def _columns(self, features: Any) -> tuple[list[Column], list[tf.Tensor]]:
        return columns_of(type(self).__name__, features, self._features, self._weight_column)

    def _weights(self, features: Any) -> tf.Tensor:
        if self._weight_column not in features:
            raise InputError(
                f"There is no feature {self._weight_column!r}, which is the weight_column. "
                f"input_fn gives: {sorted(features)}."
            )
        return tf.cast(tf.reshape(features[self._weight_column], [-1]), tf.float32)

    def _save(
        self, model: Any, columns: Sequence[Column], step: int, listeners: Sequence[Any]
    ) -> None:
        votes = bool(self._hyperparameters.get("winner_take_all", True))
        forest = taken_over(model, columns, self._n_classes, each_tree_votes=votes)
        entries = [Entry(name, tensor) for name, tensor in forest.tensors().items()]
        entries.append(Entry("global_step", tf.constant(step, tf.int64)))
        for listener in listeners:
            listener.begin()
            listener.before_save(None, step)
        with CheckpointWriter(self.model_dir, keep_policy(self.config)) as writer:
            folder = _ydf_folder(writer.prefix(step))
            temporary = temporary_path(self.model_dir, os.path.basename(folder))
            model.save(temporary)
            note_columns(temporary, columns)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(temporary, folder)
            writer.save(step, entries, meta={"complete": True}, synchronous=True)
        _remove_other_models(self.model_dir, folder)
        for listener in listeners:
            listener.after_save(None, step)
            listener.end(None, step)

    def _forest_model_fn(
        self, features: Any, labels: Any, mode: str, config: RunConfig
    ) -> EstimatorSpec:
        del config
        columns, values = self._columns(features)
        outputs = ForestVariables(self._n_classes or 1).outputs(columns, values)
        return self._head.create_estimator_spec(
            features=features, mode=mode, labels=labels, logits=self._logits(outputs)
        )

    def _logits(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs


class RandomForestClassifier(_ForestEstimator):
    """The vote of many decision trees, each grown on another sample of the data.

    Args:
      n_classes, weight_column, label_vocabulary: as of other classifiers.
      features: names of the features to use; by default all. Numbers and strings are taken as
        they are, NaN and "" for missing; a feature of shape [n] is n columns.
      hyperparameters: those of `ydf.RandomForestLearner`, such as `{"num_trees": 100}`.
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.

    Training needs `pip install 'estimand[forests]'` and all data in memory. The trained forest
    is evaluated by TensorFlow: evaluate, predict, exports and what is served need no ydf.

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> def input_fn():
    ...     x = np.linspace(-1, 1, 100)
    ...     return tf.data.Dataset.from_tensor_slices(({"x": x}, x > 0.2)).batch(25)
    >>> forest = est.RandomForestClassifier(hyperparameters={"num_trees": 10})
    >>> forest.train(input_fn).evaluate(input_fn)["accuracy"] > 0.95  # doctest: +SKIP
    True
    """

    _learner = RANDOM_FOREST

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
    ) -> None:
        head = binary_or_multi_class_head(n_classes, weight_column, label_vocabulary)
        super().__init__(
            head, n_classes, features, weight_column, hyperparameters, model_dir, config
        )

    def _logits(self, outputs: tf.Tensor) -> tf.Tensor:
        return logits_for(outputs)


class GradientBoostedTreesClassifier(_ForestEstimator):
    """Decision trees, each grown on the errors of those before it.

    `hyperparameters` are those of `ydf.GradientBoostedTreesLearner`; by default a tenth of the
    data tells it when to stop. The other arguments are those of `RandomForestClassifier`.

    Args:
      model_dir: where checkpoints and event files live; training continues from there.
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      features: names of the features to use; None: all.
      hyperparameters: settings of ydf's learner, by name.
      config: a RunConfig.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, (x > 0).astype("int64"), shuffle=False)
    >>> forest = est.GradientBoostedTreesClassifier(hyperparameters={"num_trees": 5}).train(read)
    >>> forest.evaluate(read)["accuracy"] > 0.9
    True
    """

    _learner = BOOSTED_TREES

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | None = None,
        label_vocabulary: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
    ) -> None:
        head = binary_or_multi_class_head(n_classes, weight_column, label_vocabulary)
        super().__init__(
            head, n_classes, features, weight_column, hyperparameters, model_dir, config
        )

    def _logits(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs[:, 1:] - outputs[:, :1] if self._n_classes == 2 else outputs


class _ForestRegressor(_ForestEstimator):
    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        weight_column: str | None = None,
        features: Sequence[str] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
    ) -> None:
        head = RegressionHead(1, weight_column)
        super().__init__(head, None, features, weight_column, hyperparameters, model_dir, config)


class RandomForestRegressor(_ForestRegressor):
    """The mean of many decision trees; arguments as of `RandomForestClassifier`.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.abs(x), shuffle=False)
    >>> forest = est.RandomForestRegressor(hyperparameters={"num_trees": 5}).train(read)
    >>> next(forest.predict(read))["predictions"].shape
    (1,)
    """

    _learner = RANDOM_FOREST


class GradientBoostedTreesRegressor(_ForestRegressor):
    """Boosted decision trees for numbers; arguments as of `GradientBoostedTreesClassifier`.

    >>> import estimand as est, numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, np.abs(x), shuffle=False)
    >>> forest = est.GradientBoostedTreesRegressor(hyperparameters={"num_trees": 5}).train(read)
    >>> next(forest.predict(read))["predictions"].shape
    (1,)
    """

    _learner = BOOSTED_TREES


def _text(values: np.ndarray) -> np.ndarray:
    return np.array([value.decode("utf-8", "replace") for value in values], dtype=np.str_)


def _ydf_folder(prefix: str) -> str:
    return f"{prefix}.ydf"


def _remove_other_models(model_dir: str, kept: str) -> None:
    for name in os.listdir(model_dir):
        path = os.path.join(model_dir, name)
        if name.endswith(".ydf") and path != kept:
            shutil.rmtree(path, ignore_errors=True)
