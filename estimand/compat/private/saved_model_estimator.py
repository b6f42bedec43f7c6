"""`SavedModelEstimator`: a SavedModel trains, evaluates and predicts on, without its model_fn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import saved_model_pb2

from estimand.core.errors import InputError, NoModelError
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator
from estimand.export.signatures import DEFAULT, TAGS

_Keys = tf.compat.v1.GraphKeys
_SCOPE = "saved_model"
_TRAIN_OP = "saved_model_train_op"
_LABELS = "label"
_VALUE, _UPDATE, _PREDICTIONS = "/value", "/update_op", "predictions"


class ModeMissingError(NoModelError, RuntimeError):
    """The SavedModel was exported without the graph of a mode."""


class SavedModelEstimator(Estimator):
    """An Estimator of what `experimental_export_all_saved_models` has written.

    It begins with the variables of the export, the global step included.

    Args:
        saved_model_dir: the export, of graphs as estimators write them.
        model_dir: where this estimator writes its own checkpoints.
    """

    _brings_weights = True

    def __init__(self, saved_model_dir: str | bytes, model_dir: str | None = None) -> None:
        self._exported = _Exported(os.fsdecode(saved_model_dir))
        super().__init__(self._exported.model_fn, model_dir)

    def _create_global_step(self, graph: tf.Graph) -> tf.Variable:
        if _Keys.GLOBAL_STEP not in self._exported.values:
            return super()._create_global_step(graph)
        with graph.as_default(), tf.name_scope(""):
            return self._exported.variable(
                _Keys.GLOBAL_STEP, [_Keys.GLOBAL_VARIABLES, _Keys.GLOBAL_STEP], trainable=False
            )


class _Exported:
    """A SavedModel as a model function."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        path = os.path.join(directory, "saved_model.pb")
        if not tf.io.gfile.exists(path):
            raise NoModelError(f"There is no SavedModel at {directory!r}: no {path}.")
        message = saved_model_pb2.SavedModel()
        with tf.io.gfile.GFile(path, "rb") as file:
            message.ParseFromString(file.read())
        self._graphs = {tuple(graph.meta_info_def.tags): graph for graph in message.meta_graphs}
        self.values = _stored(os.path.join(directory, "variables", "variables"))

    def variable(self, name: str, collections: list[str], *, trainable: bool) -> tf.Variable:
        """The variable of that name, which begins with the value that the export has."""
        value = self.values[name]
        return tf.compat.v1.get_variable(
            name,
            value.shape,
            value.dtype,
            lambda *args, **kwargs: tf.constant(value),
            trainable=trainable,
            collections=collections,
            use_resource=True,
        )

    def model_fn(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """The graph of a mode, fed with a batch."""
        meta = self._graphs.get((TAGS[mode],))
        if meta is None:
            raise ModeMissingError(
                f"{mode} mode is not available: {self._directory} was exported with "
                f"{[', '.join(tags) for tags in self._graphs]}. Export it with a receiver for "
                "that mode: estimator.experimental_export_all_saved_models(...)."
            )
        signature = meta.signature_def[DEFAULT if mode == ModeKeys.PREDICT else TAGS[mode]]
        graph = _Imported(meta)
        graph.replace_inputs(signature, _given(features, labels))
        graph.replace_variables(self)
        graph.replace_assets(os.path.join(self._directory, "assets"))
        outputs = graph.run_in_here(info.name for info in signature.outputs.values())
        by_key = dict(zip(signature.outputs, outputs, strict=True))
        metrics = {
            key.removesuffix(_VALUE): (value, by_key[key.removesuffix(_VALUE) + _UPDATE])
            for key, value in by_key.items()
            if key.endswith(_VALUE) and key.removesuffix(_VALUE) + _UPDATE in by_key
        }
        return EstimatorSpec(
            mode,
            predictions=_predictions(by_key, mode),
            loss=by_key.get("loss") if mode != ModeKeys.PREDICT else None,
            train_op=graph.train_op() if mode == ModeKeys.TRAIN else None,
            eval_metric_ops=metrics if mode == ModeKeys.EVAL else None,
        )


class _Imported:
    """A graph of the export, on its way into the graph of a trace."""

    def __init__(self, meta: Any) -> None:
        self._meta = meta
        # By the name that a tensor has in the export: what takes its place.
        self._replaced: dict[str, tf.Tensor] = {}
        self._train_ops: list[tf.Operation] = []

    def replace_inputs(self, signature: Any, given: Mapping[str, Any]) -> None:
        """What the export was fed with is the batch."""
        for key, info in signature.inputs.items():
            if key not in given:
                raise InputError(
                    f"The SavedModel has the input {key!r}, which input_fn does not give; it "
                    f"gives: {sorted(given)}."
                )
            value = tf.convert_to_tensor(given[key])
            wanted = tf.TensorShape(info.tensor_shape)
            if not value.shape.is_compatible_with(wanted):
                raise InputError(
                    f"Expected shape {wanted} for the input {key!r} of the SavedModel, but "
                    f"input_fn gives {value.shape}."
                )
            if value.dtype != info.dtype:
                raise InputError(
                    f"Expected dtype {tf.as_dtype(info.dtype).name} for the input {key!r} of the "
                    f"SavedModel, but input_fn gives {value.dtype.name}."
                )
            self._replaced[info.name] = value

    def replace_variables(self, exported: _Exported) -> None:
        """Each variable is one of the estimator's."""
        trainable = {v.variable_name for v in self._variables(_Keys.TRAINABLE_VARIABLES)}
        for variable in self._variables(_Keys.GLOBAL_VARIABLES):
            name = variable.variable_name.partition(":")[0]
            if not variable.is_resource:
                raise NoModelError(
                    f"The SavedModel has the variable {name!r} of the kind that TensorFlow 1 made "
                    "(use_resource=False); only resource variables can be trained on."
                )
            if name == _Keys.GLOBAL_STEP:
                made = tf.compat.v1.train.get_global_step()
            else:
                made = exported.variable(
                    name,
                    [_Keys.GLOBAL_VARIABLES],
                    trainable=variable.variable_name in trainable,
                )
            self._replaced[f"{name}:0"] = made.handle
        local = [v for v in self._variables(_Keys.LOCAL_VARIABLES) if v.is_resource]
        for variable, value in zip(local, self._first_values(local), strict=True):
            name = variable.variable_name.partition(":")[0]
            made = tf.compat.v1.Variable(
                value, trainable=False, name=name, collections=[_Keys.LOCAL_VARIABLES]
            )
            self._replaced[f"{name}:0"] = made.handle

    def _variables(self, collection: str) -> list[Any]:
        there = self._meta.collection_def[collection].bytes_list.value
        return [variable_pb2.VariableDef.FromString(text) for text in there]

    def _first_values(self, variables: list[Any]) -> list[Any]:
        """What local variables, such as those of metrics, begin with."""
        if not variables:
            return []
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            names = [variable.initial_value_name for variable in variables]
            return list(session.run(tf.import_graph_def(self._meta.graph_def, {}, names, name="")))

    def replace_assets(self, folder: str) -> None:
        """Files of vocabularies are where the export is now."""
        for asset in self._meta.asset_file_def:
            path = os.path.join(folder, asset.filename)
            self._replaced[asset.tensor_info.name] = tf.constant(path)

    def run_in_here(self, outputs: Iterable[str]) -> list[Any]:
        """Put what computes the outputs into the graph that is being built."""
        tensors, train, tables = list(outputs), self._train_op_names(), self._table_names()
        ends = [*(name.partition(":")[0] for name in tensors), *train, *tables]
        graph_def = tf.compat.v1.graph_util.extract_sub_graph(
            self._meta.graph_def, list(dict.fromkeys(ends))
        )
        used = {name for node in graph_def.node for name in node.input}
        here: Any = tf.compat.v1.get_default_graph()
        sources: dict[str, Any] = {}
        for name, value in self._replaced.items():
            node = name.partition(":")[0]
            names = [n for n in (node, name, f"^{node}") if n in used]
            sources |= dict.fromkeys(names, here.capture(value)) if names else {}
        made = tf.import_graph_def(graph_def, sources, [*tensors, *train, *tables], name=_SCOPE)
        split = len(tensors) + len(train)
        self._train_ops = made[len(tensors) : split]
        for operation in made[split:]:
            tf.compat.v1.add_to_collection(_Keys.TABLE_INITIALIZERS, operation)
        return list(made[: len(tensors)])

    def train_op(self) -> Any:
        """What trains."""
        return tf.group(*self._train_ops)

    def _train_op_names(self) -> list[str]:
        signature = self._meta.signature_def.get("__saved_model_train_op")
        names = [info.name for info in signature.outputs.values()] if signature else []
        return _op_names([*names, *self._meta.collection_def[_TRAIN_OP].node_list.value])

    def _table_names(self) -> list[str]:
        return _op_names(self._meta.collection_def[_Keys.TABLE_INITIALIZERS].node_list.value)


def _op_names(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(n.removeprefix("^").partition(":")[0] for n in names))


def _given(features: Any, labels: Any) -> dict[str, Any]:
    """A batch by the names that receivers give to its parts."""
    given = dict(features) if isinstance(features, Mapping) else {"input": features}
    if isinstance(labels, Mapping):
        return {**given, **labels}
    return given if labels is None else {**given, _LABELS: labels}


def _predictions(outputs: Mapping[str, Any], mode: str) -> dict[str, Any] | None:
    if mode == ModeKeys.PREDICT:
        return dict(outputs)
    prefix = f"{_PREDICTIONS}/"
    made = {k.removeprefix(prefix): v for k, v in outputs.items() if k.startswith(prefix)}
    if _PREDICTIONS in outputs:
        made["output"] = outputs[_PREDICTIONS]
    return made or None


def _stored(prefix: str) -> dict[str, Any]:
    """The values of an export by name; one without variables has none."""
    if not tf.io.gfile.exists(f"{prefix}.index"):
        return {}
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
