"""The ready-made models of `tf.contrib.learn`: deep, linear, and both.

Losses are means over the batch. Variables have the names of then: `dnn/hiddenlayer_0/weights`,
`linear/<column>/weight`, `linear/bias_weight`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.learn.estimator import Estimator
from estimand.compat.v1.contrib_modules.learn.heads import Head, multi_class_head, regression_head
from estimand.compat.v1.contrib_modules.learn.keys import PredictionKey
from estimand.compat.v1.contrib_modules.learn.parts import Deep, Linear, Part, model_fn_of
from estimand.core.errors import ConfigError


class _Canned(Estimator):
    """Heads need no labels to predict."""

    _takes_labels_to_predict = False


class _Classifier(_Canned):
    """Predicts classes, unless told what else."""

    def predict(  # type: ignore[override]
        self,
        x: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        outputs: Any = None,
        as_iterable: bool = True,
    ) -> Any:
        """Classes; with `outputs`, dicts of what they name."""
        if not outputs:
            return self.predict_classes(x, input_fn, batch_size, as_iterable)
        return super().predict(x, input_fn, batch_size, outputs, as_iterable)

    def predict_classes(
        self,
        x: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The class of each row."""
        return self._one(PredictionKey.CLASSES, x, input_fn, batch_size, as_iterable)

    def predict_proba(
        self,
        x: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The probabilities of all classes for each row."""
        return self._one(PredictionKey.PROBABILITIES, x, input_fn, batch_size, as_iterable)

    def _one(self, key: str, x: Any, input_fn: Any, batch_size: Any, as_iterable: bool) -> Any:
        return _only(key, Estimator.predict(self, x, input_fn, batch_size, [key], as_iterable))


class _Regressor(_Canned):
    """Predicts numbers."""

    def predict(  # type: ignore[override]
        self,
        x: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        outputs: Any = None,
        as_iterable: bool = True,
    ) -> Any:
        """Numbers; with `outputs`, dicts of what they name."""
        if not outputs:
            return self.predict_scores(x, input_fn, batch_size, as_iterable)
        return super().predict(x, input_fn, batch_size, outputs, as_iterable)

    def predict_scores(
        self,
        x: Any = None,
        input_fn: Any = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The number of each row, or numbers."""
        key = PredictionKey.SCORES
        return _only(key, Estimator.predict(self, x, input_fn, batch_size, [key], as_iterable))


def _only(key: str, answers: Any) -> Any:
    return answers[key] if isinstance(answers, dict) else (answer[key] for answer in answers)


class _LinearValues(_Canned):
    """What a linear model has learnt, by the names of then."""

    @property
    def weights_(self) -> Any:
        """The weights, by name where there are several."""
        names = [n for n in self.get_variable_names() if n.startswith("linear/")]
        found = [n for n in names if n.endswith(("/weight", "/weights"))]
        values = {name: self.get_variable_value(name) for name in found}
        return next(iter(values.values())) if len(values) == 1 else values

    @property
    def bias_(self) -> Any:
        return self.get_variable_value("linear/bias_weight")

    linear_weights_ = weights_
    linear_bias_ = bias_


class LinearEstimator(_LinearValues):
    """Linear model with any head."""

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:
        part = Linear(feature_columns, optimizer, gradient_clip_norm)
        model_fn = model_fn_of(head, [part])
        super().__init__(model_fn, model_dir, config, feature_engineering_fn=feature_engineering_fn)


class LinearClassifier(_Classifier, LinearEstimator):
    """Linear model for two classes or more."""

    def __init__(
        self,
        feature_columns: Any = None,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        _joint_weight: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        label_keys: Any = None,
    ) -> None:
        head = multi_class_head(
            n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys
        )
        LinearEstimator.__init__(
            self, head, feature_columns, model_dir, optimizer, gradient_clip_norm, config,
            feature_engineering_fn,
        )  # fmt: skip


class LinearRegressor(_Regressor, LinearEstimator):
    """Linear model for numbers."""

    def __init__(
        self,
        feature_columns: Any = None,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        _joint_weights: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:
        head = regression_head(None, weight_column_name, label_dimension, enable_centered_bias)
        LinearEstimator.__init__(
            self, head, feature_columns, model_dir, optimizer, gradient_clip_norm, config,
            feature_engineering_fn,
        )  # fmt: skip


class DNNEstimator(_Canned):
    """Deep network with any head."""

    def __init__(
        self,
        head: Head,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: Any = None,
    ) -> None:
        del embedding_lr_multipliers, input_layer_min_slice_size
        part = Deep(
            feature_columns, optimizer, gradient_clip_norm, hidden_units, activation_fn, dropout
        )
        model_fn = model_fn_of(head, [part])
        super().__init__(model_fn, model_dir, config, feature_engineering_fn=feature_engineering_fn)


class DNNClassifier(_Classifier, DNNEstimator):
    """Deep network for two classes or more."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any = None,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: Any = None,
        label_keys: Any = None,
    ) -> None:
        head = multi_class_head(
            n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys
        )
        DNNEstimator.__init__(
            self, head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
            gradient_clip_norm, config, feature_engineering_fn, embedding_lr_multipliers,
            input_layer_min_slice_size,
        )  # fmt: skip


class DNNRegressor(_Regressor, DNNEstimator):
    """Deep network for numbers."""

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any = None,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        label_dimension: int = 1,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: Any = None,
    ) -> None:
        head = regression_head(None, weight_column_name, label_dimension, enable_centered_bias)
        DNNEstimator.__init__(
            self, head, hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout,
            gradient_clip_norm, config, feature_engineering_fn, embedding_lr_multipliers,
            input_layer_min_slice_size,
        )  # fmt: skip


class DNNLinearCombinedEstimator(_LinearValues):
    """Wide and deep with any head.

    A step trains both parts and counts as one; contrib.learn counted it twice unless
    `fix_global_step_increment_bug` was set.
    """

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        fix_global_step_increment_bug: bool = False,
        input_layer_min_slice_size: Any = None,
    ) -> None:
        del embedding_lr_multipliers, fix_global_step_increment_bug, input_layer_min_slice_size
        parts: list[Part] = []
        if dnn_feature_columns:
            parts.append(
                Deep(
                    dnn_feature_columns, dnn_optimizer, gradient_clip_norm, dnn_hidden_units,
                    dnn_activation_fn, dnn_dropout,
                )
            )  # fmt: skip
        if linear_feature_columns:
            parts.append(Linear(linear_feature_columns, linear_optimizer, gradient_clip_norm))
        if not parts:
            raise ConfigError(
                "Either linear_feature_columns or dnn_feature_columns must be defined."
            )
        super().__init__(
            model_fn_of(head, parts),
            model_dir,
            config,
            feature_engineering_fn=feature_engineering_fn,
        )


class DNNLinearCombinedClassifier(_Classifier, DNNLinearCombinedEstimator):
    """Wide and deep for two classes or more."""

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: Any = None,
        label_keys: Any = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        head = multi_class_head(
            n_classes, None, weight_column_name, enable_centered_bias, label_keys=label_keys
        )
        DNNLinearCombinedEstimator.__init__(
            self, head, model_dir, linear_feature_columns, linear_optimizer, joint_linear_weights,
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
            gradient_clip_norm, config, feature_engineering_fn, embedding_lr_multipliers,
            fix_global_step_increment_bug, input_layer_min_slice_size,
        )  # fmt: skip


class DNNLinearCombinedRegressor(_Regressor, DNNLinearCombinedEstimator):
    """Wide and deep for numbers."""

    def __init__(
        self,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        config: Any = None,
        feature_engineering_fn: Any = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: Any = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        head = regression_head(None, weight_column_name, label_dimension, enable_centered_bias)
        DNNLinearCombinedEstimator.__init__(
            self, head, model_dir, linear_feature_columns, linear_optimizer, _joint_linear_weights,
            dnn_feature_columns, dnn_optimizer, dnn_hidden_units, dnn_activation_fn, dnn_dropout,
            gradient_clip_norm, config, feature_engineering_fn, embedding_lr_multipliers,
            fix_global_step_increment_bug, input_layer_min_slice_size,
        )  # fmt: skip
