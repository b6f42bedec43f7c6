"""One call of `Estimator.export_saved_model`."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import expectations, voice
from estimand.core.errors import ConfigError, NoCheckpointError, SpecError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.engine import time_spent
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.slices import InSlices, in_slices
from estimand.engine.checkpoints.substitutes import substitutes
from estimand.engine.model_dir import RunRecord
from estimand.engine.tracing.trace import Trace, trace_model
from estimand.estimator.reading import model_to_read, wait_for_files
from estimand.estimator.run_context import engine_scope, model_seed
from estimand.estimator.workspace import Workspace
from estimand.export import card, deriving, flat_graph, saved_model, signatures, versions
from estimand.export.saved_model import ModeGraph

_log = logging.getLogger("tensorflow")

# Variables are written once, from the mode that has the most of them.
_ORDER = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)


@time_spent.on(time_spent.EXPORTS)
def export(
    workspace: Workspace,
    export_dir_base: str | os.PathLike[str],
    receiver_fns: Mapping[str, Callable[[], Any]],
    *,
    assets_extra: Mapping[str, str] | None,
    as_text: bool,
    checkpoint_path: str | os.PathLike[str] | None,
    strip_default_attrs: bool,
    session_config: tf.compat.v1.ConfigProto | None,
    model_fn: Callable[..., Any],
) -> bytes:
    """Write the model of a checkpoint as a new version below `export_dir_base`."""
    _check(export_dir_base, receiver_fns)
    saved_model.check_assets_extra(assets_extra)
    path = _checkpoint(workspace, checkpoint_path)
    with engine_scope(workspace):
        graphs = []
        settings = workspace.params or workspace.noted_params()
        notes = card.Notes.of(model_fn, workspace.model_dir, settings, path)
        for mode in (m for m in _ORDER if m in receiver_fns):
            trace, by_name = _trace(workspace, mode, receiver_fns[mode], notes)
            graph_of_mode = ModeGraph(mode, flat_graph.flatten(trace), by_name, ())
            graph_of_mode.values, path = _values(
                workspace, trace, graph_of_mode, path, not checkpoint_path
            )
            notes.checkpoint = path
            graphs.append(graph_of_mode)
        notes.note_values(graphs)

        def write(directory: str) -> None:
            saved_model.write(
                directory,
                graphs,
                assets_extra=assets_extra,
                as_text=as_text,
                strip_default_attrs=strip_default_attrs,
                session_config=session_config,
            )
            card.write(directory, notes)

        written = versions.write_version(export_dir_base, write)
        voice.tell("exported %s", written)
    _log.info("SavedModel written to: %s", written)
    return os.fsencode(written)


def derived_receiver_fn(workspace: Workspace, model_fn: Callable[..., Any]) -> Callable[[], Any]:
    """For exporters that were given none: what the model was trained on, or evaluated."""
    if workspace.trained_on is None:
        raise ConfigError(
            "A serving_input_receiver_fn can only be derived after training or evaluating in this "
            "process. Make one with est.export.build_serving_input_receiver_fn_from_input_fn("
            "input_fn)."
        )
    columns = None
    if getattr(model_fn, "__module__", "").startswith("estimand.canned"):
        # Only there it is sure that nothing but the columns is read; weights are for training.
        columns = [c for g in workspace.live.graphs() for c in expectations.columns(g)]
    return deriving.receiver_fn_for(workspace.trained_on, columns or None)


def _check(base: Any, receiver_fns: Mapping[str, Any]) -> None:
    if not base:
        raise ConfigError(f"export_dir_base must be the path of a directory, given: {base!r}.")
    if not any(mode in receiver_fns for mode in _ORDER):
        raise ConfigError(
            f"No valid modes for exporting found. Got {receiver_fns.keys()}. Give functions for "
            "any of est.ModeKeys.TRAIN, EVAL, PREDICT."
        )
    for mode, function in receiver_fns.items():
        if function is None:
            raise ConfigError(
                "An input_receiver_fn must be defined. Make one with est.export."
                "build_serving_input_receiver_fn_from_input_fn(input_fn), "
                "build_parsing_serving_input_receiver_fn(feature_spec) or "
                "build_raw_serving_input_receiver_fn(features)."
            )
        if not callable(function):
            raise ConfigError(
                f"The input_receiver_fn of mode {mode!r} must be a function without arguments, "
                f"given: {function!r}. Pass the function itself, not what it returns."
            )


def _checkpoint(workspace: Workspace, given: Any) -> str:
    wait_for_files(workspace)
    if given:
        return os.fsdecode(given)
    checkpoint = workspace.latest_checkpoint()
    if checkpoint is None and workspace.warm_start is not None:
        checkpoint = workspace.warm_start.ckpt_to_initialize_from
        if os.path.isdir(checkpoint):
            checkpoint = checkpoints.latest_checkpoint(checkpoint)
    if checkpoint is None:
        raise NoCheckpointError(
            f"Couldn't find trained model at {workspace.model_dir}. Call train first, or give "
            "checkpoint_path."
        )
    return checkpoint


def _trace(
    workspace: Workspace, mode: str, receiver_fn: Callable[[], Any], notes: card.Notes
) -> tuple[Trace, dict[str, Any]]:
    """Receiver and model function traced together on the live variables; the signatures."""
    made: dict[str, Any] = {}

    def build(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        del features, labels  # there is no input_fn: they come from the receiver
        receiver = _checked_receiver(receiver_fn(), mode)
        labels = getattr(receiver, "labels", None)
        spec: Any = workspace.build(receiver.features, labels, mode)
        if hasattr(spec, "as_estimator_spec"):
            spec = spec.as_estimator_spec()
        if isinstance(spec, EstimatorSpec):  # else whoever traces us complains
            made.update(signatures=signatures.signatures_for(spec, receiver))
            notes.note_features(mode, receiver)
        return spec

    live, reading = workspace.live, model_to_read(workspace)
    with contextlib.ExitStack() as stack:
        model = live if live.is_trained_here else stack.enter_context(reading)
        with model.store.shapes_will_do():
            trace = trace_model(
                build,
                mode,
                ({}, None),
                model.store,
                seed=model_seed(workspace, RunRecord.load(workspace.model_dir)),
                create_global_step=workspace.create_global_step,
            )
    return trace, made["signatures"]


def _checked_receiver(receiver: Any, mode: str) -> Any:
    if not (hasattr(receiver, "features") and hasattr(receiver, "receiver_tensors")):
        kind = "ServingInputReceiver" if mode == ModeKeys.PREDICT else "SupervisedInputReceiver"
        told = f"The input_receiver_fn of mode {mode!r} must return an est.export.{kind}, but"
        if isinstance(receiver, tf.data.Dataset):
            raise SpecError(
                f"{told} returned a Dataset, as an input_fn does. Make a receiver of it: "
                "est.export.build_serving_input_receiver_fn_from_input_fn(input_fn)."
            )
        raise SpecError(f"{told} returned {type(receiver).__name__}: {receiver!r}.")
    return receiver


def _values(
    workspace: Workspace, trace: Trace, graph_of_mode: ModeGraph, path: str, fall_back: bool
) -> tuple[list[tf.Tensor | InSlices], str]:
    """What the checkpoint holds of the variables; read anew, the live ones stay as they are."""
    wanted = [saved.wanted() for saved, _ in graph_of_mode.flat.saved.values()]
    find = substitutes(trace.collection)
    large = in_slices(path, wanted)
    others = [entry for number, entry in enumerate(wanted) if number not in large]
    try:
        values = iter(checkpoints.read_tensors(path, others, find))
        return [large.get(n) or next(values) for n in range(len(wanted))], path
    except (checkpoints.CheckpointDamaged, NoCheckpointError):
        if not fall_back:
            raise
        used, _ = checkpoints.restore_newest_intact(workspace.model_dir, others, find)
        return _values(workspace, trace, graph_of_mode, used, False)
    except checkpoints.CheckpointMismatch as error:
        raise type(error)(
            "Could not load all requested variables from checkpoint. Please make sure your "
            "model_fn does not expect variables that were not saved in the checkpoint.\n"
            f"In mode {graph_of_mode.mode!r}: {error}"
        ) from error
