"""Layers, cells, decoders and variables of `tf.contrib`, and where they are now: data only."""

from __future__ import annotations

from estimand.compat.module_table import Names, _at
from estimand.core.tf_private.moved_modules import NEST

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
        f"{_HERE}.layers.columns",
        "bucketized_column create_feature_spec_for_parsing crossed_column embedding_column "
        "input_from_feature_columns one_hot_column parse_feature_columns_from_examples "
        "real_valued_column shared_embedding_columns "
        "sparse_column_with_hash_bucket sparse_column_with_integerized_feature "
        "sparse_column_with_keys sparse_column_with_vocabulary_file weighted_sparse_column "
        "weighted_sum_from_feature_columns",
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


NETWORKS: dict[str, Names] = {
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
        "load_variable=train.load_variable py_func",
    )
    | {"nest": NEST},
    "layers": _LAYERS,
    "layers.utils": _LAYER_UTILS,
    "legacy_seq2seq": _at(
        f"{_HERE}.seq2seq.legacy",
        "basic_rnn_seq2seq embedding_rnn_decoder rnn_decoder sequence_loss "
        "sequence_loss_by_example tied_rnn_seq2seq",
    ),
    "rnn": _at("estimand.compat.v1.rnn_cell", f"{_CELLS} LayerRNNCell=RNNCell")
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
    | _at(f"{_HERE}.rnn.networks", "_transpose_batch_time=transpose_batch_time")
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
    "slim": _LAYERS | _VARIABLES,
    "slim.utils": _LAYER_UTILS,
}
