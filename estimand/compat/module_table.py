"""Which module of tf.estimator has which names, and where Estimand keeps them: data only.

`API` has the public faces, `PRIVATE` the modules below `tensorflow_estimator.python.estimator`
that code in the wild imports. A name ending in `V2` is the one of `tf.estimator`, the same name
without it the one of `tf.compat.v1.estimator`.
"""

from __future__ import annotations

Names = dict[str, str]


def _at(home: str, names: str) -> Names:
    """Names that live in one place under the same name: "Name" or "Name=other_name_there"."""
    pairs = (entry.partition("=") for entry in names.split())
    dot = "." if ":" in home else ":"
    return {name: f"{home}{dot}{there or name}" for name, _, there in pairs}


_V1 = "estimand.compat.v1.estimator"
_OURS = "estimand.compat.private"
_EARLY = "estimand.hooks.early_stopping"
_OUTPUTS = "estimand.core.export_output"
_RECEIVERS = "estimand.export.receivers"

_CANNED = (
    "BaselineClassifier BaselineEstimator BaselineRegressor DNNClassifier DNNEstimator "
    "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor "
    "DNNRegressor LinearClassifier LinearEstimator LinearRegressor"
)
_HOOKS = (
    "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
    "LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer "
    "StepCounterHook StopAtStepHook SummarySaverHook"
)
_SESSION = "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues"
_HEADS = (
    "BinaryClassHead Head LogisticRegressionHead MultiClassHead MultiHead MultiLabelHead "
    "PoissonRegressionHead RegressionHead"
)
_SHARED = _at(
    "estimand",
    "BestExporter Estimator EstimatorSpec EvalSpec Exporter FinalExporter LatestExporter ModeKeys "
    "RunConfig TrainSpec VocabInfo WarmStartSettings add_metrics classifier_parse_example_spec "
    f"regressor_parse_example_spec train_and_evaluate {_HEADS} {_HOOKS} {_SESSION}",
)
_EXPERIMENTAL = _at(
    "estimand.experimental",
    "InMemoryEvaluatorHook build_raw_supervised_input_receiver_fn call_logit_fn "
    "make_early_stopping_hook make_stop_at_checkpoint_step_hook stop_if_higher_hook "
    "stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook",
) | {"LinearSDCA": "estimand.canned.sdca:LinearSDCA"}
_EXPORT_OUTPUTS = "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput"
_SERVING = (
    "ServingInputReceiver TensorServingInputReceiver build_parsing_serving_input_receiver_fn "
    "build_raw_serving_input_receiver_fn"
)
_EXPORT = _at(_OUTPUTS, _EXPORT_OUTPUTS) | _at(_RECEIVERS, _SERVING)
_TPU = "InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec"
_BUILDERS = "dnn_logit_fn_builder linear_logit_fn_builder"

# What tf.estimator and tf.compat.v1.estimator offer, module by module ("" is the module itself).
V2: dict[str, Names] = {
    "": _SHARED | _at("estimand", _CANNED),
    "experimental": _EXPERIMENTAL | _at("estimand.experimental", "RNNClassifier RNNEstimator"),
    "export": _EXPORT,
}
V1: dict[str, Names] = {
    "": _SHARED | _at(_V1, _CANNED),
    "experimental": _EXPERIMENTAL | _at("estimand.experimental", f"KMeans {_BUILDERS}"),
    "export": _EXPORT,
    "inputs": _at("estimand.inputs", "numpy_input_fn pandas_input_fn"),
    "tpu": _at("estimand.compat.v1.tpu", _TPU),
    "tpu.experimental": _at("estimand.compat.v1.tpu", "EmbeddingConfigSpec"),
}
# What releases before 2.15 had besides.
_TREES = "estimand.compat.v1.contrib_modules.trees"
OLD: dict[str, Names] = {
    "": _at(_TREES, "BoostedTreesClassifier BoostedTreesRegressor"),
    "experimental": _at(
        _TREES,
        "boosted_trees_classifier_train_in_memory boosted_trees_regressor_train_in_memory",
    ),
}
KERAS: Names = _at("estimand.compat.private.keras_lib", "model_to_estimator")

# What of the experimental parts of Keras 2 can be had.
KERAS_EXPERIMENTAL: dict[str, Names] = {
    "experimental": _at("estimand.features.keras_layers", "LinearModel SequenceFeatures")
    | _at("keras:optimizers.schedules", "CosineDecay CosineDecayRestarts"),
    "layers.experimental": {},
    "layers.experimental.preprocessing": _at(
        "keras:layers",
        "CategoryEncoding CenterCrop Discretization Hashing HashedCrossing IntegerLookup "
        "Normalization PreprocessingLayer=Layer RandomContrast RandomCrop RandomFlip "
        "RandomRotation RandomTranslation RandomZoom Rescaling Resizing StringLookup "
        "TextVectorization",
    ),
}

_KERAS_LIB: Names = KERAS | {"FormattedKeyError": "estimand.bridge.keras_names:KeyMissingError"}

API: dict[str, dict[str, Names]] = {
    "tensorflow.estimator": V2,
    "tensorflow.compat.v2.estimator": V2,
    "tensorflow.compat.v1.estimator": V1,
    "tensorflow_estimator.estimator": V2,
    "tensorflow_estimator._api.v1.estimator": V1,
    "tensorflow_estimator._api.v2.estimator": V2,
    "tensorflow_estimator.python.estimator.api._v1.estimator": V1,
    "tensorflow_estimator.python.estimator.api._v2.estimator": V2,
    "tensorflow.keras.estimator": {"": KERAS},
    "tensorflow.compat.v1.keras.estimator": {"": KERAS},
}


def _both(kind: str) -> Names:
    """A canned model under its v1 name and, with V2, under its name in tf.estimator."""
    models = [name for name in _CANNED.split() if name.startswith(kind)]
    if kind == "DNN":
        models = [name for name in models if "Linear" not in name]
    v2 = {f"{name}V2": f"estimand:{name}" for name in models}
    return _at(_V1, " ".join(models)) | v2


# Below tensorflow_estimator.python.estimator, and below tensorflow.python.estimator.
PRIVATE: dict[str, Names] = {
    "estimator": _at("estimand", "Estimator EstimatorV2=Estimator VocabInfo WarmStartSettings")
    | _at(
        f"{_OURS}.estimator",
        "_check_checkpoint_available _check_hooks_type _check_listeners_type "
        "_get_default_warm_start_settings _load_global_step_from_checkpoint_dir "
        "_verify_model_fn_args maybe_overwrite_model_dir_and_session_config "
        "_assert_members_are_not_overridden _canned_estimator_api_gauge _estimator_api_gauge",
    )
    | _at(f"{_OURS}.eval_events", "_dict_to_str _write_dict_to_summary"),
    "estimator_export": _at(f"{_OURS}.estimator", "estimator_export"),
    "estimator_lib": _SHARED
    | _at(_V1, _CANNED)
    | {f"{name}V2": f"estimand:{name}" for name in _CANNED.split()}
    | _at("estimand.inputs", "numpy_input_fn pandas_input_fn")
    | _EXPORT
    | _EXPERIMENTAL
    | _at("estimand", "EstimatorV2=Estimator"),
    "early_stopping": _at(
        _EARLY,
        "make_early_stopping_hook stop_if_higher_hook stop_if_lower_hook stop_if_no_increase_hook "
        "stop_if_no_decrease_hook",
    )
    | _at(
        f"{_OURS}.early_stopping",
        "_StopOnPredicateHook _CheckForStoppingHook _get_or_create_stop_var",
    )
    | _at("estimand.hooks.eval_metrics", "read_eval_metrics"),
    "exporter": _at(
        "estimand.export.exporters", "Exporter FinalExporter LatestExporter _SavedModelExporter"
    )
    | _at(
        "estimand.export.best",
        "BestExporter _loss_smaller=loss_smaller _verify_compare_fn_args=_check_compare_fn",
    ),
    "extenders": _at("estimand", "add_metrics"),
    "gc": _at(
        f"{_OURS}.gc",
        "Path _get_paths _largest_export_versions _mod_export_version _negation "
        "_one_of_every_n_export_versions _union",
    ),
    "keras": _KERAS_LIB,
    "keras_lib": _KERAS_LIB,
    "mode_keys": _at("estimand", "ModeKeys"),
    "model_fn": _at("estimand", "EstimatorSpec ModeKeys")
    | _at("estimand.canned.logit_fns", "call_logit_fn")
    | _at("estimand.compat.v1.tpu", "_TPUEstimatorSpec=TPUEstimatorSpec")
    | _at(
        f"{_OURS}.estimator",
        "verify_model_fn_args=_verify_model_fn_args LOSS_METRIC_KEY AVERAGE_LOSS_METRIC_KEY "
        "_check_is_tensor _check_is_tensor_or_operation",
    ),
    "run_config": _at("estimand.core.config", "RunConfig TaskType path_to_str=_as_path")
    | _at("estimand.core.session_config", "get_default_session_config=default_session_config")
    | _at(
        f"{_OURS}.run_config",
        "_DEFAULT_REPLACEABLE_LIST _USE_DEFAULT _SAVE_CKPT_ERR _TF_CONFIG_ENV _TASK_ENV_KEY "
        "_TASK_TYPE_KEY _TASK_ID_KEY _CLUSTER_KEY _SERVICE_KEY _SESSION_MASTER_KEY "
        "_EVAL_SESSION_MASTER_KEY _MODEL_DIR_KEY _LOCAL_MASTER _GRPC_SCHEME _count_ps "
        "_count_worker _get_model_dir _validate_properties",
    ),
    "training": _at("estimand", "EvalSpec TrainSpec")
    | _at(
        f"{_OURS}.executor_evaluation",
        "_ContinuousEvalListener _EvalResult _EvalStatus "
        "_NewCheckpointListenerForEvaluate=NewCheckpointListener",
    )
    | _at(
        f"{_OURS}.executor",
        "_TrainingExecutor _assert_eval_spec _is_google_env _MAX_DELAY_SECS _DELAY_SECS_PER_WORKER "
        "_TF_CONFIG_ENV _ENVIRONMENT_KEY _ENVIRONMENT_GOOGLE_VALUE _TRAINER_JOBS",
    )
    | _at(
        f"{_OURS}.training",
        "train_and_evaluate _StopAtSecsHook _validate_exporters _validate_hooks "
        "_validate_input_fn _validate_saving_listeners",
    ),
    "util": _at(
        f"{_OURS}.util",
        "MultiHostDatasetInitializerHook DistributedIteratorInitializerHook "
        "_DatasetInitializerHook fn_args parse_input_fn_result parse_iterator_result",
    ),
    "canned.baseline": _both("Baseline")
    | _at(f"{_OURS}.canned_model_fns", "_baseline_model_fn_builder_v2 _baseline_model_fn_v2"),
    "canned.dnn": _both("DNN")
    | _at("estimand.canned.logit_fns", "dnn_logit_fn_builder")
    | _at(f"{_OURS}.canned_model_fns", "_dnn_model_fn dnn_logit_fn_builder_v2 dnn_model_fn_v2")
    | _at("estimand.canned.layers", "_add_hidden_layer_summary=summarise"),
    "canned.dnn_linear_combined": _both("DNNLinearCombined")
    | _at(
        f"{_OURS}.canned_model_fns",
        "_dnn_linear_combined_model_fn _dnn_linear_combined_model_fn_v2",
    ),
    "canned.head": _at(
        f"{_OURS}.canned_heads",
        "LossSpec _Head _binary_logistic_head_with_sigmoid_cross_entropy_loss "
        "_binary_logistic_or_multi_class_head _multi_class_head_with_softmax_cross_entropy_loss "
        "_regression_head _summary_key _create_eval_metrics_tuple _DEFAULT_SERVING_KEY "
        "_CLASSIFY_SERVING_KEY _REGRESS_SERVING_KEY _PREDICT_SERVING_KEY _append_update_ops "
        "_BinaryLogisticHeadWithSigmoidCrossEntropyLoss _MultiClassHeadWithSoftmaxCrossEntropyLoss "
        "_RegressionHeadWithMeanSquaredErrorLoss",
    )
    | _at(
        f"{_OURS}.base_head",
        "_all_class_ids=all_class_ids _all_classes=all_classes _call_loss_fn=call_loss_fn "
        "_check_logits_final_dim=check_logits_final_dim _validate_n_classes=validate_n_classes "
        "_classification_output=classification_output _validate_loss_fn_args=validate_loss_fn_args "
        "_check_dense_labels_match_logits_and_reshape=check_dense_labels_match_logits_and_reshape "
        "_get_weights_and_check_match_logits=get_weights_and_check_match_logits "
        "_assert_range=check_label_range",
    ),
    "canned.kmeans": _at("estimand.canned.kmeans", "KMeansClustering=KMeans")
    | _at(f"{_OURS}.canned_layers", "_parse_features_if_necessary"),
    "canned.linear": _both("Linear")
    | _at(
        "estimand.canned.logit_fns",
        "linear_logit_fn_builder linear_logit_fn_builder_v2=linear_logit_fn_builder",
    )
    | _at(
        f"{_OURS}.canned_model_fns",
        "_compute_fraction_of_zero _linear_model_fn _linear_model_fn_v2 "
        "_validate_linear_sdca_optimizer_for_linear_classifier",
    )
    | _at("estimand.features.keras_layers", "LinearModel")
    | {"LinearSDCA": "estimand.canned.sdca:LinearSDCA"},
    "canned.metric_keys": _at("estimand.heads.keys", "MetricKeys"),
    "canned.optimizers": _at(
        f"{_OURS}.optimizers", "get_optimizer_instance get_optimizer_instance_v2"
    ),
    "canned.parsing_utils": {
        f"{name}{suffix}": f"estimand:{name}"
        for name in ("classifier_parse_example_spec", "regressor_parse_example_spec")
        for suffix in ("", "_v2")
    },
    "canned.prediction_keys": _at("estimand.heads.keys", "PredictionKeys"),
    "canned.saved_model_estimator": _at(f"{_OURS}.saved_model_estimator", "SavedModelEstimator"),
    "canned.rnn": _at("estimand.canned.rnn", "RNNClassifier RNNEstimator")
    | _at(
        f"{_OURS}.canned_layers",
        "USE_DEFAULT _DEFAULT_CLIP_NORM _DEFAULT_LEARNING_RATE _make_rnn_layer",
    )
    | _at(f"{_OURS}.rnn_model", "RNNModel"),
    "export.export": _at(
        _RECEIVERS,
        f"{_SERVING} SupervisedInputReceiver UnsupervisedInputReceiver "
        "build_raw_supervised_input_receiver_fn build_supervised_input_receiver_fn_from_input_fn",
    )
    | _at(
        f"{_OURS}.export",
        "build_all_signature_defs get_temp_export_dir get_timestamped_export_dir "
        "wrap_and_check_input_tensors",
    ),
    "export.export_lib": _at(_OUTPUTS, f"{_EXPORT_OUTPUTS} TrainOutput")
    | _at(
        _RECEIVERS,
        f"{_SERVING} SupervisedInputReceiver UnsupervisedInputReceiver "
        "build_raw_supervised_input_receiver_fn build_supervised_input_receiver_fn_from_input_fn",
    )
    | _at(
        f"{_OURS}.export",
        "build_all_signature_defs get_temp_export_dir get_timestamped_export_dir EXPORT_TAG_MAP "
        "export_outputs_for_mode",
    ),
    "export.export_output": _at(_OUTPUTS, f"{_EXPORT_OUTPUTS} TrainOutput _SupervisedOutput"),
    "head.base_head": _at("estimand.heads", "Head")
    | _at(
        f"{_OURS}.base_head",
        (
            "DEFAULT_SERVING_KEY CLASSIFY_SERVING_KEY REGRESS_SERVING_KEY PREDICT_SERVING_KEY "
            "all_class_ids all_classes call_loss_fn check_dense_labels_match_logits_and_reshape "
            "check_label_range check_logits_final_dim check_prediction_keys classification_output "
            "create_estimator_spec_summary create_estimator_spec_train_op "
            "create_eval_metrics_tuple get_weights_and_check_match_logits "
            "update_metric_with_broadcast_weights validate_loss_fn_args "
            "validate_loss_reduction validate_n_classes "
            "validate_trainable_variables validate_update_ops validate_v2_optimizer"
        ),
    ),
    "head.binary_class_head": _at("estimand.heads", "BinaryClassHead"),
    "head.head_utils": _at("estimand.heads", "binary_or_multi_class_head")
    | _at(
        f"{_OURS}.head_testing", "_initialize_variables _assert_simple_summaries _assert_no_hooks"
    )
    | _at(f"{_OURS}.base_head", "_DEFAULT_SERVING_KEY=DEFAULT_SERVING_KEY"),
    "head.multi_class_head": _at("estimand.heads", "MultiClassHead"),
    "head.multi_head": _at("estimand.heads", "MultiHead"),
    "head.multi_label_head": _at("estimand.heads", "MultiLabelHead"),
    "head.regression_head": _at(
        "estimand.heads", "RegressionHead PoissonRegressionHead LogisticRegressionHead"
    ),
    "head.sequential_head": _at("estimand.heads", "SequentialHeadWrapper")
    | _at(f"{_OURS}.base_head", "_flatten_tensor"),
    # TensorFlow's own, as ever: they work in sessions too, and the engine takes them as its own.
    "hooks.basic_session_run_hooks": _at("tensorflow:compat.v1.train", _HOOKS),
    "hooks.fake_summary_writer": _at(f"{_OURS}.fake_summary_writer", "FakeSummaryWriter"),
    "hooks.hooks": _at("estimand.experimental", "InMemoryEvaluatorHook")
    | _at(f"{_OURS}.early_stopping", "make_stop_at_checkpoint_step_hook")
    | _at(_EARLY, "_StopAtCheckpointStepHook=_StopAtCheckpointHook"),
    "hooks.session_run_hook": _at("estimand.hooks", _SESSION),
    "inputs.inputs": _at("estimand.inputs", "numpy_input_fn pandas_input_fn"),
    "inputs.numpy_io": _at("estimand.inputs", "numpy_input_fn"),
    "inputs.pandas_io": _at("estimand.inputs", "pandas_input_fn"),
    "tpu.tpu_config": _at("estimand.compat.v1.tpu", "InputPipelineConfig RunConfig TPUConfig"),
    "tpu.tpu_estimator": _at("estimand.compat.v1.tpu", "TPUEstimator TPUEstimatorSpec"),
    "tpu.util": _at(
        "estimand.compat.v1.tpu_config",
        "IterationsPerLoopCounter check_positive_integer parse_iterations_per_loop",
    )
    | _at(f"{_OURS}.util", "MultiHostDatasetInitializerHook"),
    "tools.checkpoint_converter": _at(f"{_OURS}.checkpoint_converter", "convert_checkpoint"),
}
PRIVATE_ROOTS = ("tensorflow_estimator.python.estimator", "tensorflow.python.estimator")
