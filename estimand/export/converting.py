"""An export in one file for other programs: a frozen graph, TensorFlow Lite, ONNX."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError, ConversionError, InputError, MissingExtraError
from estimand.core.files.atomic_files import replace_bytes
from estimand.export.loaded import reading
from estimand.export.loaded.arrays import TensorInfo

_v1 = tf.compat.v1
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_INIT_OP = "__saved_model_init_op"
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")
_TABLES = ("HashTable", "HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2")


@dataclass(frozen=True)
class Converted:
    """A file that was written, and by which names it is fed and fetched."""

    path: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    # The op to run once before anything else, where there are lookup tables.
    init_op: str | None = None


def to_frozen_graph(
    directory: str | os.PathLike[str] | bytes,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
) -> Converted:
    """Write an export as one `GraphDef`, with its variables as constants and all names kept.

    Args:
      directory: an export, or a directory of versions, of which the newest is taken.
      path: the file to write; ending in `.pbtxt`, it becomes text.
      signature: keep what this one needs; by default what any signature needs.

    Returns:
      A `Converted`: the path, and the names of the tensors to feed and to fetch.

    >>> import estimand as est, tempfile
    >>> def model_fn(features, labels, mode):
    ...     y = tf.multiply(features["x"], _v1.get_variable("w", initializer=2.0), name="y")
    ...     if mode == est.ModeKeys.PREDICT:
    ...         return est.EstimatorSpec(mode, predictions={"y": y})
    ...     loss, step = tf.reduce_sum(y), _v1.train.get_global_step()
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))
    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))
    >>> estimator = est.Estimator(model_fn).train(input_fn)
    >>> receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None])})
    >>> export = estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn)
    >>> file = est.export.to_frozen_graph(export, tempfile.mkdtemp() + "/frozen.pb")
    >>> file.inputs, file.outputs
    ({'x': 'x:0'}, {'y': 'y:0'})
    """
    export = reading.find_version(directory)
    chosen = _signatures(export, signature)
    graph_def, init_op = _frozen(export, chosen.values())
    path = os.fspath(path)
    if path.endswith(".pbtxt"):
        from google.protobuf import text_format

        _write(path, text_format.MessageToString(graph_def).encode())
    else:
        _write(path, graph_def.SerializeToString(deterministic=True))
    return Converted(path, _names(chosen, "inputs"), _names(chosen, "outputs"), init_op)


def to_tflite(
    directory: str | os.PathLike[str] | bytes,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    select_tf_ops: bool = False,
    quantize: bool = False,
) -> Converted:
    """Write one signature of an export as a model of TensorFlow Lite.

    Args:
      directory: an export, or a directory of versions, of which the newest is taken.
      path: the file to write.
      signature: which one; by default the default one.
      select_tf_ops: allow ops that TensorFlow Lite lacks; the interpreter then needs its "Flex"
        delegate, which the one inside the `tensorflow` package has.
      quantize: store weights in 8 bits.
    """
    export = reading.find_version(directory)
    (name, described), *_ = _one_signature(export, signature).items()
    converter = tf.lite.TFLiteConverter.from_saved_model(
        export, signature_keys=[name], tags={tf.saved_model.SERVING}
    )
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if select_tf_ops:
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS,
            tf.lite.OpsSet.SELECT_TF_OPS,
        ]
    try:
        with _without_notices():
            content = converter.convert()
    except Exception as error:  # its own error class is private
        raise _not_for_tflite(export, name, error, select_tf_ops) from error
    _write(os.fspath(path), content)
    # Its signatures are called with the names of the inputs.
    inputs, outputs = ({key: key for key in described[part]} for part in ("inputs", "outputs"))
    return Converted(os.fspath(path), inputs, outputs)


def to_onnx(
    directory: str | os.PathLike[str] | bytes,
    path: str | os.PathLike[str],
    *,
    signature: str | None = None,
    opset: int | None = None,
) -> Converted:
    """Write one signature of an export as an ONNX model; its inputs and outputs keep their names.

    Args:
      directory: an export, or a directory of versions, of which the newest is taken.
      path: the file to write.
      signature: which one; by default the default one.
      opset: the version of ONNX's operators; by default that of tf2onnx.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise MissingExtraError("converting to ONNX", "onnx", "tf2onnx") from error
    export = reading.find_version(directory)
    chosen = _one_signature(export, signature)
    [(name, described)] = chosen.items()
    graph_def, init_op = _frozen(export, chosen.values())
    if init_op is not None:
        raise ConversionError(
            f"Signature {name!r} of {export} looks up words in a table, which ONNX cannot be given "
            "filled. Export the model with inputs that come after the lookup (a receiver "
            "alternative), or convert to a frozen graph: --to frozen."
        )
    inputs = {key: TensorInfo.of(key, info).tensors for key, info in described["inputs"].items()}
    if any(len(tensors) > 1 for tensors in inputs.values()):
        raise ConversionError(
            f"Signature {name!r} of {export} has sparse or ragged inputs, which ONNX has not."
        )
    fed = {key: tensors[0] for key, tensors in inputs.items()}
    fetched = _add_output_names(graph_def, _names(chosen, "outputs"))
    renamed = {tensor: key for key, tensor in (*fed.items(), *fetched.items())}
    try:
        with _without_notices("tf2onnx"):
            model, _ = tf2onnx.convert.from_graph_def(
                graph_def,
                input_names=list(fed.values()),
                output_names=list(fetched.values()),
                opset=opset,
                tensors_to_rename=renamed,
            )
        content = model.SerializeToString()
    except Exception as error:  # whatever its rewriting stumbles over
        raise ConversionError(
            f"tf2onnx cannot convert signature {name!r} of {export}: {_first_line(error)}. "
            "A frozen graph can always be made: --to frozen."
        ) from error
    _write(os.fspath(path), content)
    return Converted(os.fspath(path), {key: key for key in fed}, {key: key for key in fetched})


# ------------------------------------------------------------------ signatures


def _signatures(export: str, name: str | None) -> dict[str, dict[str, Any]]:
    """Those of the serving graph, or the one of that name."""
    graphs = reading.read_meta_graphs(export)
    signatures = next((g.signatures for g in graphs if tf.saved_model.SERVING in g.tags), None)
    if not signatures:
        raise ConversionError(
            f"{export} has no signatures for serving: there is nothing to convert. Its graphs have "
            f"the tags {[list(graph.tags) for graph in graphs]}."
        )
    if name is None:
        return signatures
    if name not in signatures:
        raise InputError(
            f"There is no signature {name!r} in {export}. There are: "
            f"{', '.join(sorted(signatures))}."
        )
    return {name: signatures[name]}


def _one_signature(export: str, name: str | None) -> dict[str, dict[str, Any]]:
    signatures = _signatures(export, name)
    if len(signatures) == 1:
        return signatures
    if _DEFAULT not in signatures:
        raise InputError(
            f"{export} has no default signature. Say which to convert: "
            f"{', '.join(sorted(signatures))}."
        )
    return {_DEFAULT: signatures[_DEFAULT]}


def _names(signatures: Mapping[str, Mapping[str, Any]], part: str) -> dict[str, str]:
    """Names of inputs or outputs -> tensors; one that differs between signatures is qualified."""
    result: dict[str, str] = {}
    # The default one first: its names are the plain ones.
    for signature in sorted(signatures, key=lambda name: (name != _DEFAULT, name)):
        for key, info in signatures[signature][part].items():
            tensors = ", ".join(TensorInfo.of(key, info).tensors)
            if result.setdefault(key, tensors) != tensors:
                result[f"{signature}/{key}"] = tensors
    return result


# ------------------------------------------------------------------ freezing


def _frozen(export: str, signatures: Iterable[Mapping[str, Any]]) -> tuple[Any, str | None]:
    """The part of the graph that the outputs need, and the op that fills its tables, if any."""
    outputs = {
        tensor.partition(":")[0]
        for signature in signatures
        for key, info in signature["outputs"].items()
        for tensor in TensorInfo.of(key, info).tensors
    }
    with _without_notices(), _v1.Session(graph=tf.Graph()) as session:
        meta = _v1.saved_model.loader.load(session, [tf.saved_model.SERVING], export)
        whole = session.graph.as_graph_def(add_shapes=True)
        frozen = _v1.graph_util.convert_variables_to_constants(session, whole, sorted(outputs))
        if not any(node.op in _TABLES for node in frozen.node):
            return frozen, None
        init_op = _init_op(meta)
        if init_op is None:
            return frozen, None
        frozen = _v1.graph_util.convert_variables_to_constants(
            session, whole, sorted({*outputs, init_op})
        )
    _refuse_files(export, meta, frozen)
    return frozen, init_op


def _init_op(meta: tf.compat.v1.MetaGraphDef) -> str | None:
    """The op that a loader runs. The v1 builder notes it in a collection, newer ones as well."""
    if _INIT_OP in meta.signature_def:
        (info,) = meta.signature_def[_INIT_OP].outputs.values()
        return info.name.partition(":")[0]
    for collection in _INIT_COLLECTIONS:
        names = meta.collection_def[collection].node_list.value
        if names:
            return names[0].partition(":")[0]
    return None


def _refuse_files(
    export: str, meta: tf.compat.v1.MetaGraphDef, frozen: tf.compat.v1.GraphDef
) -> None:
    nodes = {node.name for node in frozen.node}
    for asset in _assets(meta):
        if asset.tensor_info.name.partition(":")[0] in nodes:
            raise ConversionError(
                f"The model in {export} fills a lookup table from the file {asset.filename!r}, "
                "which cannot travel inside of one file. Give the words in the program "
                "(vocabulary_list=...) and export again, or serve the export as it is."
            )


def _assets(meta: tf.compat.v1.MetaGraphDef) -> Iterator[Any]:
    yield from meta.asset_file_def
    for packed in meta.collection_def["saved_model_assets"].any_list.value:  # the v1 builder's
        asset = type(meta)().asset_file_def.add()
        if packed.Unpack(asset):
            yield asset


def _add_output_names(
    graph_def: tf.compat.v1.GraphDef, outputs: Mapping[str, str]
) -> dict[str, str]:
    """Give each output a tensor of its own: two of them may be the same tensor."""
    taken = {node.name for node in graph_def.node}
    graph = tf.Graph()
    added: dict[str, str] = {}
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
        for key, tensor in outputs.items():
            name = f"estimand_output_{len(added)}"
            while name in taken:
                name += "_"
            added[key] = tf.identity(graph.get_tensor_by_name(tensor), name=name).name
    graph_def.CopyFrom(graph.as_graph_def(add_shapes=True))
    return added


# ------------------------------------------------------------------ files and messages


def _write(path: str, content: bytes) -> None:
    if os.path.isdir(path):
        raise ConfigError(f"{path!r} is a directory; give the name of the file to write.")
    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_bytes(path, content)


def _not_for_tflite(
    export: str, name: str, error: Exception, select_tf_ops: bool
) -> ConversionError:
    text = str(error)
    hint = ""
    if "select" in text.lower() or "custom" in text.lower():
        lacking = next((line for line in text.splitlines() if "ops:" in line.lower()), "")
        hint = f" {lacking.strip()}" if lacking else ""
        if not select_tf_ops:
            hint += (
                " To take TensorFlow's own ops along, pass select_tf_ops=True (--tf-ops on the "
                "command line)."
            )
    return ConversionError(
        f"TensorFlow Lite cannot run signature {name!r} of {export}: {_first_line(error)}.{hint}"
    )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextlib.contextmanager
def _without_notices(*more_loggers: str) -> Iterator[None]:
    """These functions are public, without a successor, and log that they are deprecated."""

    def keep(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING or "deprecated" not in record.getMessage()

    loggers = [logging.getLogger(name) for name in ("tensorflow", *more_loggers)]
    for logger in loggers:
        logger.addFilter(keep)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(keep)
