"""Modules below `tensorflow.python` that moved: where programs look for them, and where they are.

TensorFlow took these paths away without leaving a forward. Programs took them because what they
need (tracked objects, the profiler, cells and layers to subclass) has no public name.
"""

from __future__ import annotations

_PYTHON = "tensorflow.python"
_TRACKABLE = f"{_PYTHON}.trackable"
_CHECKPOINT = f"{_PYTHON}.checkpoint"

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
