"""Writing one export: MetaGraphs, variables, assets and the model card."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.engine.checkpoints.publishing import Entry, join_bundles, write_bundle
from estimand.engine.checkpoints.slices import InSlices
from estimand.export.flat_graph import FlatGraph
from estimand.export.signatures import TAGS

EXTRA_FOLDER = "assets.extra"
# Where TensorFlow's own trainers look for the op that makes a step.
_TRAIN_OP_KEY = "saved_model_train_op"


@dataclass
class ModeGraph:
    """The graph of one mode, ready to be written."""

    mode: str
    flat: FlatGraph
    signatures: dict[str, Any]
    # In the order of flat.saved.
    values: Sequence[tf.Tensor | InSlices]


def write(
    directory: str,
    graphs: Sequence[ModeGraph],
    *,
    assets_extra: Mapping[str, str] | None,
    as_text: bool,
    strip_default_attrs: bool,
    session_config: tf.compat.v1.ConfigProto | None,
) -> None:
    """Write a SavedModel of one MetaGraph per mode; the variables are those of the first."""
    builder = tf.compat.v1.saved_model.Builder(directory)
    for number, graph_of_mode in enumerate(graphs):
        arguments = {
            "tags": [TAGS[graph_of_mode.mode]],
            "signature_def_map": graph_of_mode.signatures,
            "assets_collection": graph_of_mode.flat.assets,
            "main_op": graph_of_mode.flat.init_op,
            "strip_default_attrs": strip_default_attrs,
        }
        with graph_of_mode.flat.graph.as_default():
            if graph_of_mode.flat.train_op is not None:
                graph_of_mode.flat.graph.add_to_collection(
                    _TRAIN_OP_KEY, graph_of_mode.flat.train_op
                )
            variables = {name: variable for name, (_, variable) in graph_of_mode.flat.saved.items()}
            saver = _Saver(variables, sharded=True, allow_empty=True)
            if number > 0:
                builder.add_meta_graph(saver=saver, **arguments)
                continue
            saver.values = dict(zip(variables, graph_of_mode.values, strict=True))
            with tf.compat.v1.Session(config=session_config) as session:
                builder.add_meta_graph_and_variables(session, saver=saver, **arguments)
    builder.save(as_text)
    for name, source in (assets_extra or {}).items():
        _copy(source, os.path.join(directory, EXTRA_FOLDER, name))


def check_assets_extra(assets_extra: Mapping[str, str] | None) -> None:
    """Raise before any work is done if a file to be taken along is not there."""
    if assets_extra is not None and not isinstance(assets_extra, Mapping):
        raise ConfigError(
            f"assets_extra must be a dict of destination -> source file, given: {assets_extra!r}."
        )
    for name, source in (assets_extra or {}).items():
        if not os.path.isfile(source):
            raise ConfigError(
                f"assets_extra[{name!r}] names the file {os.fspath(source)!r}, which does not "
                "exist. Keys are paths in the export, values are existing files."
            )
        inside = os.path.normpath(name)
        if os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
            raise ConfigError(
                f"assets_extra has the destination {name!r}, which is outside of the export; "
                "give a path relative to it."
            )


class _Saver(tf.compat.v1.train.Saver):
    """Writes values that no variable of a session has to hold."""

    values: Mapping[str, tf.Tensor | InSlices]

    def save(self, sess: tf.compat.v1.Session, save_path: str, *args: Any, **kwargs: Any) -> str:
        """Called by TensorFlow's builder, for the variables of the export."""
        del sess, args, kwargs
        if not self.values:
            return save_path
        whole = [Entry(n, v) for n, v in self.values.items() if not isinstance(v, InSlices)]
        large = {n: v for n, v in self.values.items() if isinstance(v, InSlices)}
        parts: list[str] = []
        for name, value in large.items():
            for entry in value.entries(name):
                parts.append(f"{save_path}-{len(parts)}")
                write_bundle(parts[-1], [entry])
                del entry  # before the next one is read
        if parts:
            join_bundles(save_path, whole, parts)
        else:
            write_bundle(save_path, whole)
        return save_path


def _copy(source: str, destination: str) -> None:
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    shutil.copyfile(source, destination)
