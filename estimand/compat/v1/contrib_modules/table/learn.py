"""The names of `tf.contrib.learn`, and where they are now: data only."""

from __future__ import annotations

from estimand.compat.module_table import Names, _at

_HERE = "estimand.compat.v1.contrib_modules.learn"
_EXPORTING = _at(
    f"{_HERE}.exporting",
    "ExportStrategy InputFnOps build_default_serving_input_fn build_parsing_serving_input_fn "
    "make_export_strategy",
)
_MODEL_FN = _at(f"{_HERE}.model_fn", "ModelFnOps") | _at(f"{_HERE}.keys", "ModeKeys")
_MONITORS = (
    "BaseMonitor CaptureVariable CheckpointSaver EveryN LoggingTrainable NanLoss PrintTensor "
    "RunHookAdapterForMonitors StepCounter StopAtStep SummarySaver ValidationMonitor "
    "replace_monitors_with_hooks"
)
_HEADS = (
    "Head binary_svm_head multi_class_head multi_label_head poisson_regression_head regression_head"
)
_IO = (
    "extract_pandas_data extract_pandas_labels extract_pandas_matrix numpy_input_fn pandas_input_fn"
)
_READING = "read_batch_examples read_batch_features read_batch_record_features"
_BASE = "Dataset Datasets load_csv_with_header load_csv_without_header maybe_download"

LEARN: dict[str, Names] = {
    "learn": _at(
        f"{_HERE}.estimator",
        "BaseEstimator=FitsArrays Estimator Evaluable=FitsArrays NotFittedError SKCompat "
        "Trainable=FitsArrays",
    )
    | _at(
        f"{_HERE}.canned",
        "DNNClassifier DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator "
        "DNNLinearCombinedRegressor DNNRegressor LinearClassifier LinearEstimator LinearRegressor",
    )
    | _at(f"{_HERE}.clustering", "KMeansClustering")
    | _at(
        f"{_HERE}.heads",
        _HEADS,
    )
    | _at(f"{_HERE}.keys", "MetricKey ModeKeys PredictionKey ProblemType")
    | _at(
        f"{_HERE}.columns",
        "infer_real_valued_columns_from_input infer_real_valued_columns_from_input_fn",
    )
    | _at(f"{_HERE}.metric_spec", "MetricSpec")
    | _at(f"{_HERE}.config", "RunConfig")
    | _at(f"{_HERE}.experiment", "Experiment")
    | _at(
        f"{_HERE}.io",
        f"extract_pandas_data extract_pandas_labels extract_pandas_matrix {_READING}",
    )
    | _MODEL_FN
    | _EXPORTING
    | _at("estimand", "NanLossDuringTrainingError learn_runner")
    | _at("estimand.core.config", "TaskType"),
    "learn.datasets": _at(f"{_HERE}.datasets", "load_boston load_dataset load_iris"),
    "learn.datasets.base": _at(f"{_HERE}.datasets", f"{_BASE} load_boston load_iris"),
    "learn.datasets.mnist": _at(
        "estimand.compat.v1.mnist", "DataSet Datasets load_mnist read_data_sets"
    ),
    "learn.estimators": {},
    "learn.estimators.head": _at(f"{_HERE}.heads", _HEADS),
    "learn.estimators.model_fn": _MODEL_FN,
    "learn.estimators.prediction_key": _at(f"{_HERE}.keys", "PredictionKey"),
    "learn.estimators.metric_key": _at(f"{_HERE}.keys", "MetricKey"),
    "learn.estimators.run_config": _at(f"{_HERE}.config", "RunConfig")
    | _at("estimand.core.config", "TaskType"),
    "learn.head": _at(f"{_HERE}.heads", _HEADS),
    "learn.io": _at(f"{_HERE}.io", f"{_IO} {_READING} generator_input_fn"),
    "learn.learn_runner": _at("estimand.estimator.lifecycle.learn_runner", "run"),
    "learn.metric_spec": _at(f"{_HERE}.metric_spec", "MetricSpec"),
    "learn.monitors": _at(f"{_HERE}.monitors", _MONITORS),
    "learn.prediction_key": _at(f"{_HERE}.keys", "PredictionKey"),
    "learn.preprocessing": _at(
        "estimand.compat.v1.contrib_modules.learn_text",
        "CategoricalVocabulary VocabularyProcessor tokenizer",
    ),
    "learn.utils": _EXPORTING,
    "learn.utils.input_fn_utils": _EXPORTING,
    "learn.utils.saved_model_export_utils": _EXPORTING,
}
