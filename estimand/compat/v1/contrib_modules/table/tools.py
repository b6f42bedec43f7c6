"""Data, metrics, training and the rest of `tf.contrib`, and where it is now: data only."""

from __future__ import annotations

from estimand.compat.module_table import Names, _at
from estimand.compat.v1.contrib_modules.table.learn import LEARN

_HERE = "estimand.compat.v1.contrib_modules"
LOSSES = _at(
    f"{_HERE}.losses.weighted",
    "absolute_difference add_loss compute_weighted_loss cosine_distance get_losses "
    "get_regularization_losses get_total_loss hinge_loss log_loss mean_pairwise_squared_error "
    "mean_squared_error sigmoid_cross_entropy softmax_cross_entropy sparse_softmax_cross_entropy",
)

_LOOKUP = _at(
    f"{_HERE}.lookup",
    "index_table_from_file index_table_from_tensor index_to_string_table_from_file "
    "index_to_string_table_from_tensor "
    "string_to_index_table_from_file=index_table_from_file "
    "string_to_index_table_from_tensor=index_table_from_tensor",
) | _at(
    "tensorflow",
    "HashTable=lookup.StaticHashTable "
    "MutableHashTable=lookup.experimental.MutableHashTable "
    "MutableDenseHashTable=lookup.experimental.DenseHashTable "
    "IdTableWithHashBuckets=lookup.StaticVocabularyTable "
    "TextFileIndex=lookup.TextFileIndex "
    "KeyValueTensorInitializer=lookup.KeyValueTensorInitializer "
    "TextFileInitializer=lookup.TextFileInitializer",
)

TOOLS: dict[str, Names] = LEARN | {
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
    "data": _at(
        "tensorflow:compat.v1.data",
        "Dataset FixedLengthRecordDataset Iterator TFRecordDataset TextLineDataset",
    )
    | _at(
        "tensorflow:compat.v1.data.experimental",
        "AUTOTUNE Counter CsvDataset bucket_by_sequence_length choose_from_datasets "
        "get_single_element group_by_window ignore_errors make_batched_features_dataset "
        "make_csv_dataset map_and_batch parallel_interleave prefetch_to_device "
        "sample_from_datasets scan shuffle_and_repeat unbatch unique dense_to_sparse_batch "
        "enumerate_dataset Optional RandomDataset Reducer SqlDataset TFRecordWriter "
        "copy_to_device get_next_as_optional group_by_reducer parse_example_dataset "
        "rejection_resample",
    )
    | _at(
        f"{_HERE}.data",
        "batch_and_drop_remainder make_saveable_from_iterator padded_batch_and_drop_remainder "
        "sloppy_interleave",
    ),
    "distribute": _at(
        f"{_HERE}.distribute",
        "CollectiveAllReduceStrategy DistributeConfig MirroredStrategy OneDeviceStrategy "
        "ParameterServerStrategy",
    )
    | _at(
        "tensorflow:compat.v1.distribute",
        "AllReduceCrossDeviceOps=HierarchicalCopyAllReduce "
        "AllReduceCrossTowerOps=HierarchicalCopyAllReduce CrossDeviceOps "
        "DistributionStrategy=Strategy ReductionToOneDeviceCrossDeviceOps=ReductionToOneDevice "
        "ReplicaContext TPUStrategy=experimental.TPUStrategy "
        "get_distribution_strategy=get_strategy get_loss_reduction get_replica_context "
        "get_strategy has_distribution_strategy=has_strategy has_strategy "
        "in_cross_replica_context",
    ),
    "eager": _at(
        "tensorflow",
        "Variable=Variable enable_eager_execution=compat.v1.enable_eager_execution "
        "executing_eagerly=executing_eagerly py_func=py_function defun=function GradientTape "
        "TensorSpec custom_gradient function make_template=compat.v1.make_template",
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
    )
    | _at("estimand.features.layers", "sequence_input_layer"),
    "lookup": _LOOKUP,
    "lookup.lookup_ops": _LOOKUP,
    "metrics": _at(
        f"{_HERE}.metrics",
        "accuracy aggregate_metric_map aggregate_metrics count f1_score streaming_accuracy "
        "streaming_auc streaming_covariance streaming_false_negatives "
        "streaming_false_negatives_at_thresholds streaming_false_positives "
        "streaming_false_positives_at_thresholds streaming_mean streaming_mean_absolute_error "
        "streaming_mean_cosine_distance streaming_mean_iou streaming_mean_relative_error "
        "streaming_mean_squared_error streaming_mean_tensor streaming_pearson_correlation "
        "streaming_percentage_less streaming_precision streaming_precision_at_thresholds "
        "streaming_recall streaming_recall_at_k streaming_recall_at_thresholds "
        "streaming_root_mean_squared_error streaming_sensitivity_at_specificity "
        "streaming_sparse_average_precision_at_k streaming_sparse_precision_at_k "
        "streaming_sparse_recall_at_k streaming_specificity_at_sensitivity "
        "streaming_true_negatives streaming_true_negatives_at_thresholds "
        "streaming_true_positives streaming_true_positives_at_thresholds",
    )
    | _at(
        "tensorflow:compat.v1",
        "confusion_matrix set_difference=sets.difference set_intersection=sets.intersection "
        "set_size=sets.size set_union=sets.union",
    ),
    "opt": _at(
        f"{_HERE}.opt",
        "AdamWOptimizer DecoupledWeightDecayExtension LazyAdamOptimizer MomentumWOptimizer "
        "NadamOptimizer extend_with_decoupled_weight_decay",
    )
    | _at(f"{_HERE}.averaging", "MovingAverageOptimizer"),
    "slim.learning": _at(
        f"{_HERE}.train_ops",
        "add_gradients_summaries clip_gradient_norms create_train_op=create_slim_train_op "
        "multiply_gradients",
    ),
    "slim.losses": LOSSES,
    "predictor": _at(f"{_HERE}.predictor", "from_estimator from_saved_model"),
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
    )
    | _at(
        "tensorflow:compat.v1.tpu",
        "batch_parallel bfloat16_scope core cross_replica_sum initialize_system "
        "outside_compilation replicate rewrite shard shutdown_system",
    ),
    "training": _at("estimand", "HParams")
    | _at(
        f"{_HERE}.train_ops",
        "add_gradients_summaries clip_gradient_norms clip_gradient_norms_fn create_train_op "
        "multiply_gradients",
    )
    | _at("tensorflow:train", "checkpoints_iterator"),
    "util": _at(
        "tensorflow",
        "constant_value=get_static_value make_ndarray=make_ndarray "
        "make_tensor_proto=make_tensor_proto",
    ),
    "autograph": _at(
        "tensorflow:autograph",
        "Feature=experimental.Feature do_not_convert=experimental.do_not_convert set_verbosity "
        "to_code to_graph trace",
    ),
    "checkpoint": _at(
        "tensorflow",
        "CheckpointManager=train.CheckpointManager "
        "Checkpointable=__internal__.tracking.AutoTrackable",
    ),
    "compiler": {},
    "compiler.jit": _at(
        "tensorflow:compat.v1.xla.experimental", "experimental_jit_scope=jit_scope"
    ),
    "compiler.xla": _at("tensorflow:compat.v1.xla.experimental", "compile"),
    "hooks": _at("estimand", "ProfilerHook"),
    "image": _at(
        f"{_HERE}.image",
        "angles_to_projective_transforms compose_transforms dense_image_warp "
        "flat_transforms_to_matrices matrices_to_flat_transforms rotate transform translate "
        "translations_to_projective_transforms",
    ),
    "losses": LOSSES,
    "losses.metric_learning": _at(
        f"{_HERE}.losses.distances",
        "contrastive_loss npairs_loss pairwise_distance triplet_semihard_loss",
    ),
    "nn": _at("tensorflow:compat.v1.nn", "conv1d_transpose"),
    "signal": _at(
        "tensorflow:signal",
        "frame hamming_window hann_window inverse_stft inverse_stft_window_fn "
        "linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms overlap_and_add stft",
    ),
    "stateless": _at(
        "tensorflow:compat.v1.random",
        "stateless_multinomial stateless_random_normal=stateless_normal "
        "stateless_random_uniform=stateless_uniform "
        "stateless_truncated_normal=stateless_truncated_normal",
    ),
    "tensorboard": {},
    "tensorboard.plugins": {},
    "tensorboard.plugins.projector": _at(
        "tensorboard.plugins.projector",
        "EmbeddingInfo ProjectorConfig SpriteMetadata visualize_embeddings",
    ),
    "keras": _at(
        "tensorflow:keras",
        "Input Model Sequential activations applications backend callbacks constraints datasets "
        "initializers layers losses metrics models optimizers preprocessing regularizers utils",
    ),
    "sparsemax": _at(f"{_HERE}.sparsemax", "sparsemax sparsemax_loss"),
}
