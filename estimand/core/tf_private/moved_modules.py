"""Modules below `tensorflow.python` that moved: where programs look for them, and where they are.

TensorFlow took these paths away without leaving a forward. Programs took them because what they
need (tracked objects, the profiler, cells and layers to subclass) has no public name.
"""

from __future__ import annotations

_PYTHON = "tensorflow.python"
_TRACKABLE = f"{_PYTHON}.trackable"
_CHECKPOINT = f"{_PYTHON}.checkpoint"
NEST = f"{_PYTHON}.util.nest"  # has more than `tf.nest`, and was `tf.contrib.framework.nest`

_TRACKING: dict[str, tuple[str, ...]] = {
    "base": (f"{_TRACKABLE}.base",),
    "base_delegate": (f"{_TRACKABLE}.base_delegate",),
    "data_structures": (f"{_TRACKABLE}.data_structures",),
    "graph_view": (f"{_CHECKPOINT}.graph_view",),
    "layer_utils": (f"{_TRACKABLE}.layer_utils",),
    "python_state": (f"{_TRACKABLE}.python_state",),
    "resource": (f"{_TRACKABLE}.resource",),
    "tracking": (
        f"{_TRACKABLE}.autotrackable",
        f"{_TRACKABLE}.resource",
        f"{_TRACKABLE}.asset",
        f"{_TRACKABLE}.base",
    ),
    "util": (f"{_CHECKPOINT}.checkpoint", f"{_CHECKPOINT}.util", f"{_TRACKABLE}.trackable_utils"),
}

# The old path -> the modules that have its names now.
MOVED: dict[str, tuple[str, ...]] = {
    f"{_PYTHON}.training.tracking": (),
    **{f"{_PYTHON}.training.tracking.{name}": now for name, now in _TRACKING.items()},
    f"{_PYTHON}.training.checkpointable": (),
    **{f"{_PYTHON}.training.checkpointable.{name}": now for name, now in _TRACKING.items()},
    f"{_PYTHON}.eager.profiler_client": (f"{_PYTHON}.profiler.profiler_client",),
    f"{_PYTHON}.training.training_ops": (f"{_PYTHON}.ops.gen_training_ops",),
}
# Names that changed as well: old path and name -> the module and the name that it has now.
RENAMED: dict[str, str] = {
    f"{_PYTHON}.training.checkpointable.base:Checkpointable": f"{_TRACKABLE}.base:Trackable",
    f"{_PYTHON}.training.checkpointable.base:CheckpointableBase": f"{_TRACKABLE}.base:Trackable",
    f"{_PYTHON}.training.checkpointable.tracking:AutoCheckpointable": (
        f"{_TRACKABLE}.autotrackable:AutoTrackable"
    ),
    f"{_PYTHON}.training.checkpointable.tracking:Checkpointable": (
        f"{_TRACKABLE}.autotrackable:AutoTrackable"
    ),
    f"{_PYTHON}.training.tracking.tracking:TrackableAsset": f"{_TRACKABLE}.asset:Asset",
}


def _moved_names() -> dict[str, dict[str, str]]:
    framework, ops = f"{_PYTHON}.framework", f"{_PYTHON}.ops"
    toggle = f"{ops}.resource_variables_toggle"
    slices = f"{framework}.indexed_slices"
    homes = {
        f"{framework}.ops": {
            "Tensor": f"{framework}.tensor",
            "IndexedSlices": slices,
            "IndexedSlicesValue": slices,
            "convert_to_tensor_or_indexed_slices": slices,
            "internal_convert_to_tensor_or_indexed_slices": slices,
            "convert_to_tensor_v2": f"{framework}.tensor_conversion",
            "register_tensor_conversion_function": f"{framework}.tensor_conversion_registry",
        },
        f"{framework}.tensor_util": {"shape_tensor": f"{ops}.shape_util"},
        f"{ops}.array_ops": dict.fromkeys(("stack", "unstack"), f"{ops}.array_ops_stack"),
        f"{ops}.variables": {
            "VariableV1": f"{ops}.variable_v1",
            "is_variable_initialized": f"{ops}.variable_v1",
            "RefVariable": f"{ops}.ref_variable",
            "default_variable_creator": f"{ops}.ref_variable",
        },
        f"{ops}.variable_scope": {
            "default_variable_creator": f"{ops}.ref_variable",
            "default_variable_creator_v2": f"{ops}.resource_variable_ops",
            **dict.fromkeys(
                (
                    "resource_variables_enabled",
                    "enable_resource_variables",
                    "disable_resource_variables",
                ),
                toggle,
            ),
        },
        f"{ops}.control_flow_ops": {
            "cond": f"{ops}.cond",
            "cond_for_tf_v2": f"{ops}.cond",
            "while_loop": f"{ops}.while_loop",
            "while_loop_v2": f"{ops}.while_loop",
            "case": f"{ops}.control_flow_case",
            "case_v2": f"{ops}.control_flow_case",
            "switch_case": f"{ops}.control_flow_switch_case",
            "Assert": f"{ops}.control_flow_assert",
            "smart_cond": f"{framework}.smart_cond",
        },
    }
    targets = {
        path: {name: f"{home}:{name}" for name, home in names.items()}
        for path, names in homes.items()
    }
    # A dict is nested, too, and was a sequence to it.
    targets[NEST] = {"is_sequence": f"{NEST}:is_nested"}
    # Made the Variable of TensorFlow 1, whatever kind that was.
    targets[f"{ops}.variable_scope"]["variable"] = f"{ops}.variable_v1:VariableV1"
    return targets


# Modules that are still there, and names of theirs that are in others now.
MOVED_NAMES: dict[str, dict[str, str]] = _moved_names()

# Arguments that have another name now: module, function, the old name and the new one.
RENAMED_ARGUMENTS: dict[str, dict[str, dict[str, str]]] = {
    "tensorflow.python.tools.freeze_graph": {
        name: {"variable_names_blacklist": "variable_names_denylist"}
        for name in ("freeze_graph", "freeze_graph_with_def_protos")
    },
}
