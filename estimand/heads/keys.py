"""The keys of metrics and predictions, spelled as `tf.estimator` spells them."""

from __future__ import annotations


class MetricKeys:
    """Keys of what `evaluate` returns; those with `%` are completed per threshold or class.

    >>> from estimand.heads import MetricKeys
    >>> MetricKeys.AUC
    'auc'
    """

    LOSS = "loss"
    LOSS_MEAN = "average_loss"
    LOSS_REGULARIZATION = "regularization_loss"
    ACCURACY = "accuracy"
    PRECISION = "precision"
    RECALL = "recall"
    ACCURACY_BASELINE = "accuracy_baseline"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    LABEL_MEAN = "label/mean"
    PREDICTION_MEAN = "prediction/mean"
    ACCURACY_AT_THRESHOLD = "accuracy/positive_threshold_%g"
    PRECISION_AT_THRESHOLD = "precision/positive_threshold_%g"
    RECALL_AT_THRESHOLD = "recall/positive_threshold_%g"
    PROBABILITY_MEAN_AT_CLASS = "probability_mean/class%d"
    AUC_AT_CLASS = "auc/class%d"
    AUC_PR_AT_CLASS = "auc_precision_recall/class%d"
    PROBABILITY_MEAN_AT_NAME = "probability_mean/%s"
    AUC_AT_NAME = "auc/%s"
    AUC_PR_AT_NAME = "auc_precision_recall/%s"


class PredictionKeys:
    """Keys of what `predict` yields.

    >>> from estimand.heads import PredictionKeys
    >>> PredictionKeys.CLASS_IDS
    'class_ids'
    """

    CLASSES = "classes"
    CLASS_IDS = "class_ids"
    ALL_CLASSES = "all_classes"
    ALL_CLASS_IDS = "all_class_ids"
    LOGISTIC = "logistic"
    LOGITS = "logits"
    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"


class ServingKeys:
    """Keys of export signatures."""

    DEFAULT = "serving_default"
    CLASSIFY = "classification"
    REGRESS = "regression"
    PREDICT = "predict"
