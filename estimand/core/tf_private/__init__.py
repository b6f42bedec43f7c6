"""Every private TensorFlow and Keras name this package uses, each with its reason.

Nothing else in the package imports `tensorflow.python` or `keras.src`: when TensorFlow moves
one of these names, this is the place to mend.
"""

from __future__ import annotations

# Saver.save/restore of TensorFlow accept only instances of this class; what hooks get as their
# session is one, so that `saver.restore(session, path)` in user code works.
from tensorflow.python.client.session import SessionInterface

# v1 code asks a variable for `.op.name`, which an eager variable refuses: ours subclass it.
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

from estimand.core.tf_private.dataset_stages import Stage, stage_of
from estimand.core.tf_private.datasets import (
    V1_ITERATOR_METHODS,
    draws_in_parallel,
    full_batch_size,
    function_graphs,
    has_tunable_stage,
    is_spec_of_none,
    prefetched,
    rows_in_order,
    stateful_op_types,
)
from estimand.core.tf_private.eager_v1 import (
    averages_start_from,
    losses_are_collected,
)
from estimand.core.tf_private.execution import (
    calls_as_they_are,
    eager_mode,
    executor,
    first_read_values,
    fresh_eager_scope,
    noting_stateful_operations,
    single_threaded_tracing,
)
from estimand.core.tf_private.graphs import (
    add_control_inputs,
    capture,
    is_stateful,
    make_graph_tensors_hashable,
    op_definition,
    order_control_flow_bodies,
    rebind_captures,
    replace_input,
    set_string_attribute,
    tell_tensors_apart,
    variables_read_in,
)
from estimand.core.tf_private.hooks import (
    hook_arguments,
    set_final_ops_values,
)
from estimand.core.tf_private.interceptable import (
    inform,
    list_directory,
    seconds_timer,
    std_server,
    unwrapped,
    warn,
)
from estimand.core.tf_private.keras import (
    fresh_keras_names,
    keras_learning_rate,
    keras_optimizer_is_creating,
    keras_optimizer_lookups,
    keras_variable_being_created,
    v1_learning_rate,
    v1_optimizer_without_state,
)
from estimand.core.tf_private.keras_models import (
    CompiledParts,
    keras_kind,
    keras_layers,
    keras_takes_training,
    keras_variables_by_place,
    keras_variables_on_loan,
    plain_variables,
)
from estimand.core.tf_private.native_log import (
    ERROR,
    FATAL,
    has_gpu_device,
    look_for_devices_quietly,
    native_log_from,
    without_deprecations,
)
from estimand.core.tf_private.onednn import (
    has_onednn_twin,
    make_onednn,
    onednn_in_all_graphs,
    onednn_kernels_to_ask_for,
)
from estimand.core.tf_private.seeds import (
    explicit_seeds_stand,
    global_seed_restored,
    making_random_ops,
    seed_keeping_kernels,
    seeds_of_step,
    seeds_of_variables,
    step_draws,
)
from estimand.core.tf_private.sessions import (
    SavedModelReader,
    session_callable,
)
from estimand.core.tf_private.strategies import (
    cluster_of_servers,
    collective_keys_in_the_graph,
    keras_gradients_are_summed,
    keras_losses_are_whole,
    keras_optimizer_belongs_to,
    keras_seeds_differ_by_replica,
    keras_thread_settings,
    keras_thread_settings_applied,
    on_each_worker,
    v1_optimizers_share_the_loss,
    variable_belongs_to,
    variable_partitioner,
    whole_variable,
)
from estimand.core.tf_private.summaries import (
    v1_summaries_stay_v1,
)
from estimand.core.tf_private.v1_graphs import (
    kept_resources,
    like_a_v1_graph,
    loading_saved_models,
)
from estimand.core.tf_private.variables import (
    get_variable_is_creating,
    initializer_set_from_checkpoint,
    object_graph_names,
    op_before_read,
    read_after,
    save_like,
    save_slice,
    saver_limits,
    saver_overrides,
    saver_variables,
    text_file_of_table,
)

__all__ = [
    "ERROR",
    "FATAL",
    "V1_ITERATOR_METHODS",
    "BaseResourceVariable",
    "CompiledParts",
    "ResourceVariable",
    "SavedModelReader",
    "SessionInterface",
    "Stage",
    "add_control_inputs",
    "averages_start_from",
    "calls_as_they_are",
    "capture",
    "cluster_of_servers",
    "collective_keys_in_the_graph",
    "draws_in_parallel",
    "eager_mode",
    "executor",
    "explicit_seeds_stand",
    "first_read_values",
    "fresh_eager_scope",
    "fresh_keras_names",
    "full_batch_size",
    "function_graphs",
    "get_variable_is_creating",
    "global_seed_restored",
    "has_gpu_device",
    "has_onednn_twin",
    "has_tunable_stage",
    "hook_arguments",
    "inform",
    "initializer_set_from_checkpoint",
    "is_spec_of_none",
    "is_stateful",
    "kept_resources",
    "keras_gradients_are_summed",
    "keras_kind",
    "keras_layers",
    "keras_learning_rate",
    "keras_losses_are_whole",
    "keras_optimizer_belongs_to",
    "keras_optimizer_is_creating",
    "keras_optimizer_lookups",
    "keras_seeds_differ_by_replica",
    "keras_takes_training",
    "keras_thread_settings",
    "keras_thread_settings_applied",
    "keras_variable_being_created",
    "keras_variables_by_place",
    "keras_variables_on_loan",
    "like_a_v1_graph",
    "list_directory",
    "loading_saved_models",
    "look_for_devices_quietly",
    "losses_are_collected",
    "make_graph_tensors_hashable",
    "make_onednn",
    "making_random_ops",
    "native_log_from",
    "noting_stateful_operations",
    "object_graph_names",
    "on_each_worker",
    "onednn_in_all_graphs",
    "onednn_kernels_to_ask_for",
    "op_before_read",
    "op_definition",
    "order_control_flow_bodies",
    "plain_variables",
    "prefetched",
    "read_after",
    "rebind_captures",
    "replace_input",
    "rows_in_order",
    "save_like",
    "save_slice",
    "saver_limits",
    "saver_overrides",
    "saver_variables",
    "seconds_timer",
    "seed_keeping_kernels",
    "seeds_of_step",
    "seeds_of_variables",
    "session_callable",
    "set_final_ops_values",
    "set_string_attribute",
    "single_threaded_tracing",
    "stage_of",
    "stateful_op_types",
    "std_server",
    "step_draws",
    "tell_tensors_apart",
    "text_file_of_table",
    "unwrapped",
    "v1_learning_rate",
    "v1_optimizer_without_state",
    "v1_optimizers_share_the_loss",
    "v1_summaries_stay_v1",
    "variable_belongs_to",
    "variable_partitioner",
    "variables_read_in",
    "warn",
    "whole_variable",
    "without_deprecations",
]
