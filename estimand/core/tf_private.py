"""Every private TensorFlow and Keras name this package uses, each with its reason.

Nothing else in the package imports `tensorflow.python` or `keras.src`: when TensorFlow moves
one of these names, this is the file to mend.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

# Saver.save/restore of TensorFlow accept only instances of this class; what hooks get as their
# session is one, so that `saver.restore(session, path)` in user code works.
from tensorflow.python.client.session import SessionInterface

# Executors, eager mode under `disable_eager_execution()`.
from tensorflow.python.eager import context as _context

# Which seeds an op gets: see `explicit_seeds_stand`.
from tensorflow.python.framework import random_seed as _random_seed

# v1 code asks a variable for `.op.name`, which an eager variable refuses: ours subclass it.
from tensorflow.python.ops.resource_variable_ops import (
    BaseResourceVariable,
    ResourceVariable,
)

__all__ = [
    "V1_ITERATOR_METHODS",
    "BaseResourceVariable",
    "ResourceVariable",
    "SessionInterface",
    "add_control_inputs",
    "capture",
    "eager_mode",
    "executor",
    "explicit_seeds_stand",
    "first_read_values",
    "fresh_eager_scope",
    "fresh_keras_names",
    "get_variable_is_creating",
    "global_seed_restored",
    "has_tunable_stage",
    "hook_arguments",
    "initializer_set_from_checkpoint",
    "kept_resources",
    "keras_variable_being_created",
    "make_graph_tensors_hashable",
    "object_graph_names",
    "order_control_flow_bodies",
    "replace_input",
    "save_slice",
    "saver_variables",
    "seed_keeping_kernels",
    "set_final_ops_values",
    "set_string_attribute",
    "single_threaded_tracing",
    "v1_summaries_stay_v1",
    "variables_read_in",
]

_SINGLE_THREADED = "SINGLE_THREADED_EXECUTOR"


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Eager execution, also where the program called `tf.compat.v1.disable_eager_execution()`."""
    if tf.executing_eagerly():
        yield
    else:
        # Public API can only switch eager execution on once, at program start.
        with _context.eager_mode():
            yield


@contextlib.contextmanager
def single_threaded_tracing() -> Iterator[None]:
    """Trace so that either executor may run the graph.

    The single-threaded executor refuses `cond` and `while` that were marked, at trace time, to
    be lowered to v1 control flow; the ordinary one runs both forms.
    """
    with _context.function_executor_type(_SINGLE_THREADED):
        yield


@contextlib.contextmanager
def executor(single_threaded: bool) -> Iterator[None]:
    """Run function calls with the single-threaded executor, or the ordinary one."""
    if single_threaded:
        with _context.function_executor_type(_SINGLE_THREADED):
            yield
    else:
        yield


def variables_read_in(graph: tf.Graph) -> list[tf.Variable]:
    """Variables that a function graph, or an eager scope, reads, in the order of first sight.

    The public `graph.variables` is filled only when tracing is over; a model function that uses
    variables made outside of it needs them before (`est.minimize` without a list).
    """
    if hasattr(graph, "_estimand_first_reads"):
        return [variable for variable, _ in graph._estimand_first_reads.values()]
    by_handle = {id(v.handle): v for v in graph._watched_variables}
    return [by_handle[id(outer)] for outer, _ in graph.captures if id(outer) in by_handle]


def add_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Make `op` wait for `before`; public API can do so only while an op is being created."""
    op._add_control_inputs(list(before))


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Feed `tensor` to an op that already exists."""
    op._update_input(index, tensor)


def set_string_attribute(op: tf.Operation, name: str, value: str) -> None:
    """Change an attribute of an op that already exists."""
    op._set_attr(name, tf.compat.v1.AttrValue(s=value.encode()))


def keras_variable_being_created(depth: int = 24) -> tuple[Any, bool]:
    """The Keras variable whose constructor is up the stack, and whether it is a metric's.

    The name that TensorFlow sees is made unique by graph name scopes and so depends on what
    else was built before; Keras' own `path` (`sequential/dense/kernel`) does not. None when it
    is not Keras that creates a variable.
    """
    frame = sys._getframe(1)
    variable: Any = None
    for _ in range(depth):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            break
        if not frame.f_globals.get("__name__", "").startswith("keras.src"):
            continue
        caller = frame.f_locals.get("self")
        if variable is None:
            variable = caller if isinstance(getattr(caller, "_path", None), str) else None
        elif hasattr(caller, "update_state") and hasattr(caller, "reset_state"):
            return variable, True
    return variable, False


def get_variable_is_creating(depth: int = 8) -> bool:
    """Whether the variable being created was asked for through `get_variable`.

    Executing eagerly, `get_variable` itself adds what it creates to the collections.
    """
    frame = sys._getframe(1)
    for _ in range(depth):
        frame = frame.f_back  # type: ignore[assignment]
        if frame is None:
            return False
        if frame.f_code.co_name == "_get_single_variable":
            return True
    return False


@contextlib.contextmanager
def kept_resources() -> Iterator[list[Any]]:
    """The lookup tables and other resources created inside.

    Such an object destroys its table when Python drops it, though a traced graph still uses it.
    """
    from tensorflow.python.trackable import resource

    tracker = resource.ResourceTracker()
    with resource.resource_tracker_scope(tracker):
        yield tracker.resources


@contextlib.contextmanager
def fresh_keras_names() -> Iterator[None]:
    """Let Keras number its layers (dense, dense_1) from the start, as in a new graph.

    The counter is per process: without this a second trace of one model function would name
    the same layer differently, and its weights could not be found again.
    """
    if "keras" not in sys.modules:
        # Keras may be imported by the traced code; its counter then starts fresh anyway.
        yield
        return
    from keras.src.backend.common import global_state

    saved = global_state.get_global_attribute("object_name_uids")
    global_state.set_global_attribute("object_name_uids", collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute("object_name_uids", saved or collections.defaultdict(int))


_summary_patch_lock = threading.RLock()


@contextlib.contextmanager
def v1_summaries_stay_v1() -> Iterator[None]:
    """Keep `tf.compat.v1.summary.*` producing Summary protos while a v2 writer is the default.

    With a default writer TensorFlow turns v1 summary calls into v2 ones, and
    `merge_all()`, which hooks fetch, finds nothing; without one it warns at every call.
    """
    from tensorflow.python.summary import summary

    names = [n for n in ("_should_invoke_v2_op", "should_invoke_v2_op") if hasattr(summary, n)]
    with _summary_patch_lock:
        saved: dict[str, Callable[..., Any]] = {n: getattr(summary, n) for n in names}
        for name in names:
            setattr(summary, name, lambda: False)
        try:
            yield
        finally:
            for name, value in saved.items():
                setattr(summary, name, value)


def saver_variables(saver: Any) -> dict[str, Any] | None:
    """What a v1 Saver was told to save, by checkpoint name; None if it was told nothing.

    A Saver keeps this to itself, but a `Scaffold(saver=Saver(ema.variables_to_restore()))` is
    the usual way to evaluate with averaged weights.
    """
    chosen = getattr(saver, "_var_list", None)
    if chosen is None:
        return None
    if isinstance(chosen, dict):
        return dict(chosen)
    return {v.name.split(":")[0]: v for v in chosen}


def save_slice(variable: tf.Variable) -> tuple[str, str] | None:
    """Full name and slice of a part of a partitioned variable, as its checkpoint has it."""
    info = getattr(variable, "_save_slice_info", None)
    return None if info is None else (info.full_name, info.spec)


def object_graph_names(serialized: bytes) -> list[tuple[str, str]]:
    """Variable name and checkpoint key of all that an object-based checkpoint holds.

    The message class of `_CHECKPOINTABLE_OBJECT_GRAPH` has no public name.
    """
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)
    attributes = (attribute for node in graph.nodes for attribute in node.attributes)
    return [(a.full_name, a.checkpoint_key) for a in attributes if a.full_name]


def initializer_set_from_checkpoint(variable: tf.Variable) -> tf.Operation | None:
    """The op that `tf.compat.v1.train.init_from_checkpoint` put in place of an initializer."""
    return getattr(variable, "_initializer_op", None)


# Every v1 way to an iterator (the `tf.compat.v1.data.make_*_iterator` functions, under whatever
# name they were imported, and the methods of v1 Datasets) ends in one of these two methods of
# `tf.compat.v1.data.Dataset`; replacing the public functions would miss earlier imports.
V1_ITERATOR_METHODS = ("_make_one_shot_iterator", "_make_initializable_iterator")


@contextlib.contextmanager
def fresh_eager_scope() -> Iterator[tf.Graph]:
    """Eager execution with collections and variable scopes of its own.

    v1 code keeps its scope counters (dense, dense_1) and collections on the default graph, in
    eager mode too; and `get_variable(reuse=True)` needs a store of eager variables, which
    TensorFlow 2 has but does not export.
    """
    from tensorflow.python.ops.variable_scope import EagerVariableStore

    with (
        tf.Graph().as_default() as graph,
        _context.eager_mode(),
        EagerVariableStore().as_default(),
    ):
        _note_reads(graph)
        yield graph


def first_read_values(graph: tf.Graph) -> dict[int, tf.Tensor]:
    """What each variable held when code in a `fresh_eager_scope` first read it, by its id."""
    return {key: value for key, (_, value) in graph._estimand_first_reads.items()}


def _note_reads(graph: tf.Graph) -> None:
    """A gradient tape tells the trainable variables only; this is how TensorFlow tells all."""
    reads = graph._estimand_first_reads = {}

    def watch_variable(variable: tf.Variable) -> None:
        if id(variable) not in reads:
            reads[id(variable)] = (variable, None)  # reading it comes here again
            reads[id(variable)] = (variable, variable.read_value())

    graph.watch_variable = watch_variable


# For each hook of TensorFlow: which attribute holds which argument, and what the arguments that
# went into its timer are called (steps, seconds).
_HOOK_ATTRIBUTES: dict[str, dict[str, str]] = {
    "CheckpointSaverHook": {
        "checkpoint_dir": "_checkpoint_dir",
        "checkpoint_basename": "_save_path",
        "saver": "_saver",
        "scaffold": "_scaffold",
        "listeners": "_listeners",
        "save_graph_def": "_save_graph_def",
    },
    "FeedFnHook": {"feed_fn": "feed_fn"},
    "FinalOpsHook": {"final_ops": "_final_ops", "final_ops_feed_dict": "_final_ops_feed_dict"},
    "GlobalStepWaiterHook": {"wait_until_step": "_wait_until_step"},
    "LoggingTensorHook": {
        "tensors": "_tensors",
        "at_end": "_log_at_end",
        "formatter": "_formatter",
    },
    "NanTensorHook": {"loss_tensor": "_loss_tensor", "fail_on_nan_loss": "_fail_on_nan_loss"},
    "ProfilerHook": {
        "output_dir": "_output_file",
        "show_dataflow": "_show_dataflow",
        "show_memory": "_show_memory",
    },
    "StepCounterHook": {"output_dir": "_output_dir", "summary_writer": "_summary_writer"},
    "StopAtStepHook": {"num_steps": "_num_steps", "last_step": "_last_step"},
    "SummarySaverHook": {
        "output_dir": "_output_dir",
        "summary_writer": "_summary_writer",
        "scaffold": "_scaffold",
        "summary_op": "_summary_op",
    },
}
_HOOK_TIMERS = {
    "CheckpointSaverHook": ("save_steps", "save_secs"),
    "LoggingTensorHook": ("every_n_iter", "every_n_secs"),
    "ProfilerHook": ("save_steps", "save_secs"),
    "StepCounterHook": ("every_n_steps", "every_n_secs"),
    "SummarySaverHook": ("save_steps", "save_secs"),
}


def hook_arguments(hook: Any) -> dict[str, Any]:
    """The arguments with which one of TensorFlow's own hooks was made.

    The hooks keep them to themselves, and we need them to do the same job without looking at
    every step.
    """
    kind = type(hook).__name__
    given = {name: getattr(hook, held) for name, held in _HOOK_ATTRIBUTES[kind].items()}
    if kind in _HOOK_TIMERS:
        steps, secs = _HOOK_TIMERS[kind]
        # A hook that logs only at the end has a timer without these.
        given[steps] = getattr(hook._timer, "_every_steps", None)
        given[secs] = getattr(hook._timer, "_every_secs", None)
    if kind == "CheckpointSaverHook":
        given["checkpoint_basename"] = os.path.basename(given["checkpoint_basename"])
    elif kind == "LoggingTensorHook" and all(t is tag for tag, t in given["tensors"].items()):
        given["tensors"] = list(hook._tag_order)  # it was given a list, not a dict
    elif kind == "ProfilerHook":
        given["output_dir"] = os.path.dirname(given["output_dir"])
    elif kind == "StopAtStepHook" and given["num_steps"] is not None:
        given["last_step"] = None  # worked out in an earlier run
    return given


def set_final_ops_values(hook: Any, values: Any) -> None:
    """Let a `FinalOpsHook` of TensorFlow answer with values that were computed elsewhere."""
    hook._final_ops_values = values


def make_graph_tensors_hashable() -> None:
    """Let tensors of a traced model function be dict keys, as tensors of a v1 graph were.

    `feed_dict={tensor: value}` in hooks and dicts keyed by tensors in model functions need it;
    TensorFlow 2 refuses to hash tensors of a function graph. Eager ones stay unhashable.
    """
    original = tf.Tensor.__hash__
    if getattr(original, "_estimand", False):
        return

    def __hash__(self: tf.Tensor) -> int:
        graph = None if hasattr(self, "numpy") else getattr(self, "graph", None)
        return original(self) if graph is None else id(self)

    __hash__._estimand = True  # type: ignore[attr-defined]
    tf.Tensor.__hash__ = __hash__  # type: ignore[method-assign]


def capture(tensor: tf.Tensor) -> tf.Tensor:
    """The stand-in for an outside tensor in the function graph being built; its own stay as is.

    Using the tensor in an op would do the same, but graph import wants the stand-in itself.
    """
    return tf.compat.v1.get_default_graph().capture(tensor)


def seed_keeping_kernels(seed: int) -> None:
    """Seed what is built from now on, as `tf.random.set_seed` does, but keep compiled kernels.

    `tf.random.set_seed` drops the kernels of all functions, so that random ones start over; each
    function would be optimized and compiled anew at its next call.
    """
    context = _context.context()
    context._seed = seed
    context._rng = random.Random(seed)


@contextlib.contextmanager
def global_seed_restored() -> Iterator[None]:
    """Give the program back, afterwards, the global seed it has now; there is no public getter."""
    context = _context.context()
    seed, generator = context._seed, getattr(context, "_rng", None)  # made with the first seed
    try:
        yield
    finally:
        context._seed, context._rng = seed, generator


_explicit_seeds = threading.local()


@contextlib.contextmanager
def explicit_seeds_stand() -> Iterator[None]:
    """Let the seed that a user gave to an op count as if no global seed were set.

    A global seed that we drew, to be able to repeat it in a resumed run, would otherwise mix
    into `shuffle(seed=3)` or `random_normal_initializer(seed=1)`, which users write to get the
    same values in every run. TensorFlow has no public way to seed only what has no seed.
    """
    original = _random_seed.get_seed
    if not hasattr(original, "_estimand"):

        def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
            if op_seed is not None and getattr(_explicit_seeds, "depth", False):
                return _random_seed.DEFAULT_GRAPH_SEED, op_seed % (2**31 - 1)
            return original(op_seed)

        get_seed._estimand = True  # type: ignore[attr-defined]
        _random_seed.get_seed = get_seed
    _explicit_seeds.depth = getattr(_explicit_seeds, "depth", False) + 1
    try:
        yield
    finally:
        _explicit_seeds.depth -= 1


def has_tunable_stage(dataset: tf.data.Dataset) -> bool:
    """Whether any stage of a pipeline leaves its parallelism to `tf.data.AUTOTUNE`.

    A Dataset knows its inputs, but has no public way to ask for them. When in doubt: yes.
    """
    stack = [dataset]
    while stack:
        stage = stack.pop()
        calls = getattr(stage, "_num_parallel_calls", None)
        if calls is not None and tf.get_static_value(calls) in (None, tf.data.AUTOTUNE):
            return True
        if type(stage).__name__ == "_VariantDataset":  # what it is made of cannot be seen
            return True
        stack.extend(stage._inputs())
    return False


def order_control_flow_bodies(graph: tf.Graph) -> None:
    """Let the bodies of `cond` and `while_loop` built in `graph` run in program order.

    A body decides by this mark of the graph around it whether it gets automatic control
    dependencies. Without them what Keras code assigns inside a body races or is lost.
    """
    graph._add_control_dependencies = True
