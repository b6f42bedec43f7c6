"""Which part of `tf.contrib` has which names, and where they are now: data only."""

from __future__ import annotations

from estimand.compat.module_table import Names, _at

_HERE = "estimand.compat.v1.contrib_modules"
_CELLS = (
    "BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple "
    "MultiRNNCell RNNCell ResidualWrapper"
)
_LAYERS = (
    _at(
        f"{_HERE}.layers.dense",
        "bias_add dense_to_sparse dropout elu flatten fully_connected linear maxout "
        "one_hot_encoding relu relu6 repeat scale_gradient softmax stack",
    )
    | _at(
        f"{_HERE}.layers.convolution",
        "conv1d conv2d conv2d_in_plane conv2d_transpose conv3d conv3d_transpose convolution "
        "convolution1d convolution2d convolution2d_in_plane convolution2d_transpose convolution3d "
        "convolution3d_transpose separable_conv2d separable_convolution2d",
    )
    | _at(
        f"{_HERE}.layers.normalization", "batch_norm group_norm instance_norm layer_norm unit_norm"
    )
    | _at(
        f"{_HERE}.layers.pooling",
        "avg_pool2d avg_pool3d max_pool2d max_pool3d pool spatial_softmax",
    )
    | _at(
        f"{_HERE}.layers.embedding",
        "bow_encoder embed_sequence embedding_lookup_unique safe_embedding_lookup_sparse "
        "sparse_feature_cross",
    )
    | _at(
        f"{_HERE}.layers.initializers",
        "variance_scaling_initializer xavier_initializer xavier_initializer_conv2d",
    )
    | _at(
        f"{_HERE}.layers.regularizers",
        "apply_regularization l1_l2_regularizer l1_regularizer l2_regularizer sum_regularizer",
    )
    | _at(
        f"{_HERE}.layers.summaries",
        "summarize_activation summarize_activations summarize_biases summarize_collection "
        "summarize_tensor summarize_tensors summarize_variables summarize_weights",
    )
    | _at(f"{_HERE}.optimizing", "OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES optimize_loss")
    | _at("tensorflow", "embedding_lookup_sparse=nn.embedding_lookup_sparse")
)
_LAYER_UTILS = _at(
    f"{_HERE}.layers.utils",
    "append_tensor_alias channel_dimension collect_named_outputs constant_value "
    "convert_collection_to_dict first_dimension gather_tensors_aliases get_tensor_aliases "
    "get_variable_collections last_dimension n_positive_integers smart_cond static_cond "
    "two_element_tuple",
)
_VARIABLES = (
    _at(
        f"{_HERE}.framework.variables",
        "add_model_variable assert_global_step assert_or_get_global_step filter_variables "
        "get_local_variables get_model_variables get_trainable_variables get_unique_variable "
        "get_variable_full_name get_variables get_variables_by_name get_variables_by_suffix "
        "get_variables_to_restore global_variable local_variable model_variable variable "
        "zero_initializer",
    )
    | _at(
        f"{_HERE}.framework.checkpoints",
        "assign_from_checkpoint assign_from_checkpoint_fn assign_from_values assign_from_values_fn",
    )
    | _at(
        f"{_HERE}.framework.arg_scope",
        "add_arg_scope arg_scope arg_scope_func_key arg_scoped_arguments current_arg_scope "
        "has_arg_scope",
    )
    | _at(
        "tensorflow:compat.v1.train",
        "create_global_step get_global_step get_or_create_global_step",
    )
)

MODULES: dict[str, Names] = {
    "cluster_resolver": _at(
        "tensorflow",
        "TPUClusterResolver=distribute.cluster_resolver.TPUClusterResolver "
        "TFConfigClusterResolver=distribute.cluster_resolver.TFConfigClusterResolver",
    ),
    "boosted_trees": {},
    "boosted_trees.estimator_batch": {},
    "boosted_trees.estimator_batch.estimator": _at(
        f"{_HERE}.old_trees",
        "GradientBoostedDecisionTreeClassifier GradientBoostedDecisionTreeRegressor",
    ),
    "boosted_trees.proto": _at(f"{_HERE}.old_trees", "learner_pb2"),
    "crf": _at(
        f"{_HERE}.crf",
        "crf_binary_score crf_decode crf_log_likelihood crf_log_norm crf_sequence_score "
        "crf_unary_score viterbi_decode",
    ),
    "cudnn_rnn": _at(
        f"{_HERE}.rnn.cudnn",
        "CudnnCompatibleGRUCell CudnnCompatibleLSTMCell CudnnGRU CudnnLSTM CudnnRNNRelu "
        "CudnnRNNTanh",
    ),
    "data": _at(
        "tensorflow:compat.v1.data.experimental",
        "AUTOTUNE Counter CsvDataset bucket_by_sequence_length choose_from_datasets "
        "get_single_element group_by_window ignore_errors make_batched_features_dataset "
        "make_csv_dataset map_and_batch parallel_interleave prefetch_to_device "
        "sample_from_datasets scan shuffle_and_repeat unbatch unique dense_to_sparse_batch "
        "enumerate_dataset",
    )
    | _at(f"{_HERE}.data", "batch_and_drop_remainder make_saveable_from_iterator"),
    "distribute": _at(
        f"{_HERE}.distribute",
        "CollectiveAllReduceStrategy MirroredStrategy OneDeviceStrategy ParameterServerStrategy",
    )
    | _at(
        "tensorflow",
        "DistributionStrategy=distribute.Strategy "
        "AllReduceCrossDeviceOps=distribute.HierarchicalCopyAllReduce "
        "AllReduceCrossTowerOps=distribute.HierarchicalCopyAllReduce",
    )
    | _at(f"{_HERE}.distribute", "DistributeConfig"),
    "eager": _at(
        "tensorflow",
        "Variable=Variable enable_eager_execution=compat.v1.enable_eager_execution "
        "executing_eagerly=executing_eagerly py_func=py_function defun=function",
    )
    | _at(
        f"{_HERE}.eager",
        "Checkpoint Iterator Saver gradients_function implicit_gradients "
        "implicit_value_and_gradients in_eager_mode num_gpus value_and_gradients_function",
    )
    | _at(f"{_HERE}.eager_network", "Network Sequential"),
    "eager.metrics": _at(f"{_HERE}.eager", "Accuracy Mean"),
    "factorization": _at(f"{_HERE}.factorization", "KMeans KMeansClustering"),
    "estimator": _at(
        f"{_HERE}.estimator",
        "binary_classification_head logistic_regression_head multi_class_head multi_head "
        "multi_label_head poisson_regression_head regression_head clip_gradients_by_norm "
        "forward_features replicate_model_fn TowerOptimizer",
    )
    | _at("estimand", "add_metrics")
    | _at(
        "estimand.experimental",
        "InMemoryEvaluatorHook build_raw_supervised_input_receiver_fn call_logit_fn "
        "dnn_logit_fn_builder linear_logit_fn_builder make_early_stopping_hook "
        "make_stop_at_checkpoint_step_hook stop_if_higher_hook stop_if_lower_hook "
        "stop_if_no_decrease_hook stop_if_no_increase_hook",
    )
    | _at("estimand.hooks.eval_metrics", "read_eval_metrics")
    | _at("estimand.compat.private.saved_model_estimator", "SavedModelEstimator")
    | _at(
        "estimand.compat.v1.estimator",
        "BaselineEstimator DNNEstimator DNNLinearCombinedEstimator LinearEstimator",
    )
    | _at("estimand.experimental", "RNNClassifier RNNEstimator")
    | _at(
        f"{_HERE}.trees",
        "boosted_trees_classifier_train_in_memory boosted_trees_regressor_train_in_memory",
    ),
    "feature_column": _at(
        "tensorflow:feature_column",
        "sequence_categorical_column_with_hash_bucket "
        "sequence_categorical_column_with_identity "
        "sequence_categorical_column_with_vocabulary_file "
        "sequence_categorical_column_with_vocabulary_list sequence_numeric_column",
    ),
    "framework": _VARIABLES
    | _at(
        f"{_HERE}.framework.tensors",
        "argsort assert_scalar assert_scalar_int convert_to_tensor_or_sparse_tensor deprecated "
        "deprecated_arg_values deprecated_args get_graph_from_inputs get_name_scope reduce_sum_n "
        "remove_squeezable_dimensions smart_case smart_cond smart_constant_value sort "
        "with_same_shape with_shape",
    )
    | _at(
        "tensorflow:compat.v1",
        "TensorSpec assert_same_float_dtype=debugging.assert_same_float_dtype "
        "init_from_checkpoint=train.init_from_checkpoint "
        "is_non_decreasing=debugging.is_non_decreasing "
        "is_numeric_tensor=debugging.is_numeric_tensor "
        "is_strictly_increasing=debugging.is_strictly_increasing is_tensor "
        "list_variables=train.list_variables load_checkpoint=train.load_checkpoint "
        "load_variable=train.load_variable nest py_func",
    ),
    "layers": _LAYERS,
    "layers.utils": _LAYER_UTILS,
    "learn": _at("estimand", "Experiment RunConfig learn_runner")
    | _at(f"{_HERE}.learn", "ModeKeys"),
    "learn.datasets": _at("estimand.compat.v1.mnist", "load_dataset"),
    "learn.datasets.mnist": _at(
        "estimand.compat.v1.mnist", "DataSet Datasets load_mnist read_data_sets"
    ),
    "learn.learn_runner": _at("estimand.estimator.lifecycle.learn_runner", "run"),
    "legacy_seq2seq": _at(
        f"{_HERE}.seq2seq.legacy",
        "basic_rnn_seq2seq embedding_rnn_decoder rnn_decoder sequence_loss "
        "sequence_loss_by_example tied_rnn_seq2seq",
    ),
    "lookup": _at(
        f"{_HERE}.lookup",
        "index_table_from_file index_table_from_tensor index_to_string_table_from_file "
        "index_to_string_table_from_tensor",
    )
    | _at(
        "tensorflow",
        "HashTable=lookup.StaticHashTable "
        "MutableHashTable=lookup.experimental.MutableHashTable "
        "MutableDenseHashTable=lookup.experimental.DenseHashTable "
        "IdTableWithHashBuckets=lookup.StaticVocabularyTable "
        "TextFileIndex=lookup.TextFileIndex "
        "KeyValueTensorInitializer=lookup.KeyValueTensorInitializer "
        "TextFileInitializer=lookup.TextFileInitializer",
    ),
    "metrics": _at(
        f"{_HERE}.metrics",
        "accuracy aggregate_metric_map aggregate_metrics f1_score streaming_accuracy streaming_auc "
        "streaming_false_negatives streaming_false_positives streaming_mean "
        "streaming_mean_absolute_error streaming_mean_iou streaming_mean_relative_error "
        "streaming_mean_squared_error streaming_mean_tensor streaming_percentage_less "
        "streaming_precision streaming_recall streaming_root_mean_squared_error "
        "streaming_true_negatives streaming_true_positives",
    ),
    "opt": _at(
        f"{_HERE}.opt",
        "AdamWOptimizer LazyAdamOptimizer MomentumWOptimizer NadamOptimizer "
        "extend_with_decoupled_weight_decay",
    ),
    "predictor": _at(f"{_HERE}.predictor", "from_estimator from_saved_model"),
    "rnn": _at("estimand.compat.v1.rnn_cell", _CELLS)
    | _at("tensorflow:compat.v1.nn", "static_bidirectional_rnn static_rnn static_state_saving_rnn")
    | _at(
        f"{_HERE}.rnn.networks",
        "stack_bidirectional_dynamic_rnn stack_bidirectional_rnn transpose_batch_time",
    )
    | _at(f"{_HERE}.rnn.linear", "_Linear _linear")
    | _at(
        f"{_HERE}.rnn.wrappers",
        "AttentionCellWrapper EmbeddingWrapper HighwayWrapper InputProjectionWrapper "
        "OutputProjectionWrapper",
    )
    | _at(
        f"{_HERE}.rnn.lstm",
        "Conv1DLSTMCell Conv2DLSTMCell Conv3DLSTMCell ConvLSTMCell CoupledInputForgetGateLSTMCell "
        "LayerNormBasicLSTMCell NASCell",
    )
    | _at(
        f"{_HERE}.rnn.gated",
        "IndRNNCell IndyGRUCell IndyLSTMCell IntersectionRNNCell SRUCell UGRNNCell",
    )
    | _at(
        f"{_HERE}.rnn.fused",
        "FusedRNNCellAdaptor GRUBlockCell GRUBlockCellV2 LSTMBlockCell LSTMBlockFusedCell "
        "TimeReversedFusedRNN",
    ),
    "seq2seq": _at(
        f"{_HERE}.seq2seq.decoding", "BasicDecoder BasicDecoderOutput Decoder dynamic_decode"
    )
    | _at(
        f"{_HERE}.seq2seq.helpers",
        "CustomHelper GreedyEmbeddingHelper Helper InferenceHelper SampleEmbeddingHelper "
        "ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper",
    )
    | _at(
        f"{_HERE}.seq2seq.beams",
        "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState "
        "FinalBeamSearchDecoderOutput gather_tree",
    )
    | _at(f"{_HERE}.seq2seq.losses", "sequence_loss tile_batch")
    | _at(
        f"{_HERE}.seq2seq.attention",
        "AttentionMechanism BahdanauAttention BahdanauMonotonicAttention LuongAttention "
        "LuongMonotonicAttention _BaseAttentionMechanism _bahdanau_score _luong_score hardmax "
        "monotonic_attention safe_cumprod",
    )
    | _at(
        f"{_HERE}.seq2seq.attention_cell",
        "AttentionWrapper AttentionWrapperState _compute_attention",
    ),
    "slim": _LAYERS | _VARIABLES | _at("tensorflow", "losses=compat.v1.losses"),
    "slim.utils": _LAYER_UTILS,
    "summary": _at(
        f"{_HERE}.summary",
        "all_summary_ops always_record_summaries create_file_writer flush generic histogram image "
        "initialize never_record_summaries record_summaries_every_n_global_steps scalar",
    ),
    "tensor_forest": _at(f"{_HERE}.trees", "ForestHParams"),
    "tensor_forest.client": {},
    "tensor_forest.client.random_forest": _at(f"{_HERE}.trees", "TensorForestEstimator"),
    "tpu": _at(
        "estimand.compat.v1.tpu",
        "CrossShardOptimizer InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec",
    ),
    "training": _at("estimand", "HParams"),
    "util": _at(
        "tensorflow",
        "constant_value=get_static_value make_ndarray=make_ndarray "
        "make_tensor_proto=make_tensor_proto",
    ),
}

_NETS = ["alexnet", "inception", "overfeat", "resnet_utils", "resnet_v1", "resnet_v2", "vgg"]
_SLIM_DATA = ["dataset", "dataset_data_provider", "parallel_reader", "tfexample_decoder"]

# What lives on in the package tf_slim, by the part of contrib: where it is installed, its names
# are found here.
OF_TF_SLIM: dict[str, str] = {
    "framework": "tf_slim.ops.variables",
    "layers": "tf_slim.layers",
    "losses": "tf_slim.losses",
    "metrics": "tf_slim.metrics",
    "slim": "tf_slim",
    "slim.utils": "tf_slim.layers.utils",
    "layers.utils": "tf_slim.layers.utils",
    "slim.nets": "tf_slim.nets",
    "slim.data": "tf_slim.data",
    "slim.learning": "tf_slim.learning",
    "training": "tf_slim.training.training",
}
OF_TF_SLIM |= {f"slim.nets.{name}": f"tf_slim.nets.{name}" for name in _NETS}
OF_TF_SLIM |= {f"slim.data.{name}": f"tf_slim.data.{name}" for name in _SLIM_DATA}
MODULES = {path: {} for path in OF_TF_SLIM} | MODULES
