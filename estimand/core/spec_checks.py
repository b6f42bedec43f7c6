"""The rules an `EstimatorSpec` obeys, one function per field: given value in, checked value out.

Checked values belong to the graph being built. Executing eagerly there is no graph to belong to,
so only the kinds of values are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimand.core import metric_objects
from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.modes import ModeKeys

_ONE_LOSS = (
    "values, one for each row; it must be a single one. Reduce it before it is minimized: "
    "loss = tf.reduce_mean(loss)."
)
_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def checked_mode(mode: Any) -> Any:
    """One of the three; None, where a model function is for one of them only."""
    if mode is None or mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
        return mode
    raise SpecError(
        f"mode must be one of ModeKeys, given: {mode!r}. Hand on the mode that model_fn was called "
        f"with: {ModeKeys.TRAIN!r}, {ModeKeys.EVAL!r} or {ModeKeys.PREDICT!r}."
    )


def neither_loss_nor_train_op() -> SpecError:
    return SpecError(
        "Missing train_op. Missing loss. In TRAIN mode EstimatorSpec needs both: compute a "
        "scalar loss from labels and predictions, then return est.EstimatorSpec(mode, loss=loss, "
        "train_op=est.minimize(optimizer, loss))."
    )


def checked_train_op(train_op: Any, mode: str) -> Any:
    """An operation or tensor of the current graph; a variable becomes what last changed it."""
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise SpecError(
                "Missing train_op. In TRAIN mode EstimatorSpec needs train_op=..., e.g. "
                "estimand.minimize(optimizer, loss) or optimizer.minimize(loss, global_step)."
            )
        return None
    if tf.executing_eagerly():
        return train_op  # The step has already been taken: any token of it will do.
    if _is_variable(train_op):
        train_op = _last_change(train_op)
    elif isinstance(train_op, tf.distribute.DistributedValues):
        return train_op
    elif not isinstance(train_op, tf.Operation | tf.Tensor):
        hint = " Join several with tf.group(...)." if isinstance(train_op, list | tuple) else ""
        if hasattr(train_op, "apply_gradients"):
            hint = " Write train_op=est.minimize(optimizer, loss)."
        raise SpecTypeError(f"train_op must be Operation or Tensor, given: {train_op}.{hint}")
    _require_current_graph(train_op, "train_op")
    return train_op


def checked_loss(loss: Any, mode: str) -> tf.Tensor | None:
    """A tensor with one element, as a scalar."""
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise SpecError(
                f"Missing loss. In mode {mode!r} EstimatorSpec needs loss=..., a scalar Tensor."
            )
        return None
    loss = _checked_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise SpecError(
            f"Loss must be scalar, given: {loss}. Reduce it with tf.reduce_mean or tf.reduce_sum."
        )
    _require_current_graph(loss, "loss")
    # Unknown rank passes as it is, since it may well be a scalar.
    if loss.shape.is_compatible_with([]):
        return loss
    if loss.shape.num_elements() == 1:
        return tf.reshape(loss, [])
    # Of one value for each row, and who knows how many rows: told when the step runs.
    told = ["The loss that model_fn gives to EstimatorSpec has", tf.size(loss), _ONE_LOSS]
    with tf.control_dependencies([tf.raw_ops.Assert(condition=tf.size(loss) <= 1, data=told)]):
        return tf.reshape(loss, [])


def checked_predictions(predictions: Any, mode: str) -> Any:
    """A tensor, or a dict of tensors; `{}` where none were given and none are needed."""
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise SpecError(
                "Missing predictions. In PREDICT mode EstimatorSpec needs predictions=..., "
                "a Tensor or a dict of Tensors."
            )
        return {}
    if not isinstance(predictions, dict):
        tensor = _checked_tensor(predictions, "predictions")
        _require_current_graph(tensor, "prediction values")
        return tensor
    checked = {}
    for key, value in predictions.items():
        checked[key] = _checked_tensor(value, f"predictions[{key}]")
        _require_current_graph(checked[key], "prediction values", key)
    return checked


def checked_eval_metric_ops(eval_metric_ops: Any) -> dict[str, Any]:
    """Names to (value, update_op) pairs, or to metric objects that have been updated."""
    if eval_metric_ops is None:
        return {}
    if not isinstance(eval_metric_ops, dict):
        raise SpecTypeError(f"eval_metric_ops must be a dict, given: {eval_metric_ops}")
    checked = {key: _checked_metric(key, value) for key, value in eval_metric_ops.items()}
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        return checked
    return {key: metric_objects.for_sessions(value) for key, value in checked.items()}


def checked_export_outputs(export_outputs: Any, predictions: Any, mode: str) -> Any:
    """In PREDICT mode, signatures by name with one of them the default; else as given."""
    if mode != ModeKeys.PREDICT:
        return export_outputs
    if export_outputs is None:
        return {_DEFAULT_SIGNATURE: PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise SpecTypeError(f"`export_outputs` must be dict, received: {export_outputs}.")
    for output in export_outputs.values():
        if not (
            isinstance(output, ExportOutput) or callable(getattr(output, "as_signature_def", None))
        ):
            raise SpecTypeError(
                "Values in `export_outputs` must be ExportOutput objects, "
                f"received: {export_outputs}."
            )
    if len(export_outputs) == 1:
        (only,) = export_outputs.values()
        return {**export_outputs, _DEFAULT_SIGNATURE: only}
    if export_outputs and _DEFAULT_SIGNATURE not in export_outputs:
        raise SpecError(
            "Multiple `export_outputs` were provided, but none of them are specified as the "
            "default. Use`tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY` to specify a default. "
            f"Given: {list(export_outputs)}; name one of them {_DEFAULT_SIGNATURE!r}."
        )
    return dict(export_outputs)


def checked_hooks(hooks: Any, sentence: str) -> tuple[tf.compat.v1.train.SessionRunHook, ...]:
    """Hooks as a tuple; `sentence` opens the complaint about anything else."""
    return _checked_instances(hooks, tf.compat.v1.train.SessionRunHook, sentence)


def checked_listeners(listeners: Any) -> tuple[tf.compat.v1.train.CheckpointSaverListener, ...]:
    """Checkpoint listeners as a tuple."""
    return _checked_instances(
        listeners,
        tf.compat.v1.train.CheckpointSaverListener,
        "All saving_listeners must be `CheckpointSaverListener` instances",
    )


def checked_scaffold(scaffold: Any) -> tf.compat.v1.train.Scaffold:
    """The scaffold given, or an empty one."""
    scaffold = scaffold or tf.compat.v1.train.Scaffold()
    if not isinstance(scaffold, tf.compat.v1.train.Scaffold):
        raise SpecTypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
    return scaffold


def _checked_instances(values: Any, kind: type, sentence: str) -> tuple[Any, ...]:
    if not values:
        return ()
    if not isinstance(values, Iterable):
        raise SpecTypeError(f"{sentence}, given: {values}. Pass a list of them.")
    values = tuple(values)
    for value in values:
        if not isinstance(value, kind):
            hint = ""
            if isinstance(value, type) and issubclass(value, kind):
                hint = f" That is the class; pass an instance: {value.__name__}(...)."
            raise SpecTypeError(f"{sentence}, given: {value}{hint}")
    return values


def _checked_metric(key: Any, metric: Any) -> Any:
    if metric_objects.is_metric(metric):
        if not metric_objects.was_updated(metric):
            raise SpecError(
                f'Please call update_state(...) on the "{metric.name}" metric in the model '
                f"function before returning it as eval_metric_ops[{key!r}]."
            )
        for operation in metric_objects.update_operations(metric) or ():
            _require_current_graph(operation, "eval_metric_ops", key)
        return metric
    if not isinstance(metric, tuple) or len(metric) != 2:
        raise SpecTypeError(
            "Values of eval_metric_ops must be (metric_value, update_op) tuples, "
            f"given: {metric} for key: {key}. Or pass a Keras metric after update_state(...)."
        )
    if tf.executing_eagerly():
        return metric
    return tuple(tf.nest.map_structure(lambda leaf: _checked_metric_part(key, leaf), metric))


def _checked_metric_part(key: Any, part: Any) -> Any:
    if _is_variable(part):
        part = _last_change(part)
    if isinstance(part, tf.Tensor | tf.Operation):
        _require_current_graph(part, "eval_metric_ops", key)
    elif not isinstance(part, tf.distribute.DistributedValues) and not tf.is_tensor(part):
        raise SpecTypeError(
            "Values of eval_metric_ops must be (metric_value, update_op) tuples, and their parts "
            f"Tensors or Operations, given: {part!r} for key: {key}."
        )
    return part


def _checked_tensor(value: Any, name: str) -> tf.Tensor:
    if _is_variable(value):
        return tf.convert_to_tensor(value)
    if isinstance(value, tf.Tensor):
        return value
    raise SpecTypeError(f"{name} must be Tensor, given: {value}{_how_to_make_a_tensor(value)}")


def _how_to_make_a_tensor(value: Any) -> str:
    if isinstance(value, tf.SparseTensor):
        return ". Make it dense with tf.sparse.to_dense(...)."
    if isinstance(value, tf.RaggedTensor):
        return ". Make it dense with .to_tensor()."
    if isinstance(value, list | tuple):
        return ". Give them names: {'name': tensor, ...}."
    if type(value).__name__ == "KerasTensor":
        return ". Call the Keras model on the features; this is its symbolic output."
    return ""


def _is_variable(value: Any) -> bool:
    """Variables of TensorFlow, and of Keras 3, which are of another class."""
    return isinstance(value, tf.Variable) or (
        hasattr(value, "assign") and tf.is_tensor(value) and not isinstance(value, tf.Tensor)
    )


def _last_change(variable: Any) -> tf.Operation | tf.Tensor:
    """What `v.assign_add(1)` returns is a variable that knows its assignment; else read it."""
    # A variable that lives outside the graph being built has no operation in it.
    operation = getattr(variable, "op", None)
    if isinstance(operation, tf.Operation) and operation.type != "VarHandleOp":
        return operation
    return tf.convert_to_tensor(variable)


def _require_current_graph(value: tf.Operation | tf.Tensor, what: str, key: Any = None) -> None:
    if tf.executing_eagerly():
        return
    # Tensors computed eagerly have no graph, which is not the current one either.
    if getattr(value, "graph", None) is tf.compat.v1.get_default_graph():
        return
    name = getattr(value, "name", None) if hasattr(value, "graph") else repr(value)
    shown = name if key is None else f"{key}: {name}"
    raise SpecError(
        f'{what} with "{shown}" must be from the default graph. '
        "Possible causes of this error include: \n\n"
        f"1) {what} was created outside the context of the default graph.\n\n"
        "2) The object passed through to EstimatorSpec was not created in the most recent call "
        'to "model_fn".'
    )
