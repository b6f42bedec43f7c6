"""What a served model is fed: receivers, and functions that build them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core.errors import SpecError, SpecTypeError

_BARE_NAMES = {"feature": "feature", "label": "label", "receiver_tensor": "input"}
_GRAPH_TYPES = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)


class _ServingFields(NamedTuple):
    features: Any
    receiver_tensors: dict[str, Any]
    receiver_tensors_alternatives: dict[str, dict[str, Any]] | None


class ServingInputReceiver(_ServingFields):
    """What a request is fed into, and the features that come of it.

    Args:
      features: what `model_fn` gets: a dict of tensors; a bare tensor becomes `{"feature": it}`.
      receiver_tensors: the placeholders by name; a bare one is named `input`.
      receiver_tensors_alternatives: further places to feed, as name -> receiver tensors. Each
        makes signatures of its own, named `<alternative>:<signature>`.

    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
    ...     sorted(ServingInputReceiver({"x": x}, x).receiver_tensors)
    ['input']
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> ServingInputReceiver:
        return super().__new__(
            cls,
            features=_named_tensors(features, "feature", integer_keys=True),
            receiver_tensors=_named_tensors(receiver_tensors, "receiver_tensor"),
            receiver_tensors_alternatives=_alternatives(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_ServingFields):
    """A `ServingInputReceiver` for model functions that take one tensor, not a dict.

    Args:
      features: what the model gets.
      receiver_tensors: what a server is sent, by name.
      receiver_tensors_alternatives: other tensors that may be sent in their place, by name of the
        signature.

    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
    ...     TensorServingInputReceiver(x, {"x": x}).features is x
    True
    """

    __slots__ = ()

    def __new__(
        cls,
        features: Any,
        receiver_tensors: Any,
        receiver_tensors_alternatives: Mapping[str, Any] | None = None,
    ) -> TensorServingInputReceiver:
        if features is None:
            raise SpecError("features must be defined. Give the tensor that model_fn takes.")
        _check_tensor(features, "feature")
        return super().__new__(
            cls,
            features=features,
            receiver_tensors=_named_tensors(receiver_tensors, "receiver_tensor"),
            receiver_tensors_alternatives=_alternatives(receiver_tensors_alternatives),
        )


class UnsupervisedInputReceiver(ServingInputReceiver):
    """A `ServingInputReceiver` for exporting training or evaluation of a model without labels.

    >>> import estimand as est, tensorflow as tf
    >>> x = tf.constant([1.0])
    >>> est.export.UnsupervisedInputReceiver({"x": x}, {"x": x}).features["x"].shape
    TensorShape([1])
    """

    __slots__ = ()


class _SupervisedFields(NamedTuple):
    features: Any
    labels: Any
    receiver_tensors: dict[str, Any]


class SupervisedInputReceiver(_SupervisedFields):
    """What the exported training or evaluation graph is fed: features and labels.

    >>> with tf.Graph().as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
    ...     y = tf.compat.v1.placeholder(tf.float32, [None], name="y")
    ...     sorted(SupervisedInputReceiver({"x": x}, y, {"x": x, "label": y}).receiver_tensors)
    ['label', 'x']
    """

    __slots__ = ()

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> SupervisedInputReceiver:
        for values, what in ((features, "feature"), (labels, "label")):
            if values is None:
                raise SpecError(f"{what}s must be defined.")
            if isinstance(values, Mapping):
                _named_tensors(values, what, integer_keys=True)
            else:
                _check_tensor(values, what)
        return super().__new__(
            cls, features, labels, _named_tensors(receiver_tensors, "receiver_tensor")
        )


ReceiverFn = Callable[[], Any]


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> ReceiverFn:
    """A receiver function for serialized `tf.Example`s, fed as `examples`.

    Args:
      feature_spec: features as `tf.io.parse_example` takes them, e.g. of `make_parse_example_spec`.
      default_batch_size: the size of batches; None: any.

    >>> receiver_fn = build_parsing_serving_input_receiver_fn(
    ...     {"age": tf.io.FixedLenFeature([1], tf.float32)})
    >>> with tf.Graph().as_default():
    ...     receiver_fn().receiver_tensors["examples"].name
    'input_example_tensor:0'
    """
    if not isinstance(feature_spec, Mapping):
        raise SpecTypeError(
            f"feature_spec must be a dict of parsers by name, given: {feature_spec!r}. For feature "
            "columns, write est.feature_column.make_parse_example_spec(columns)."
        )

    def serving_input_receiver_fn() -> ServingInputReceiver:
        _check_not_called_by_hand()
        examples = tf.compat.v1.placeholder(
            tf.string, [default_batch_size], name="input_example_tensor"
        )
        features = tf.io.parse_example(examples, dict(feature_spec))
        return ServingInputReceiver(features, {"examples": examples})

    return serving_input_receiver_fn


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> ReceiverFn:
    """A receiver function for the features themselves, each fed under its own name.

    `features` are tensors, arrays or `tf.TensorSpec`s: examples of what will come, of which
    type and shape are taken. The first dimension is that of the batch.

    Args:
      features: what the model gets.
      default_batch_size: the size of batches; None: any.

    >>> receiver_fn = build_raw_serving_input_receiver_fn({"age": tf.TensorSpec([8, 1])})
    >>> with tf.Graph().as_default():
    ...     receiver_fn().receiver_tensors["age"].shape.as_list()
    [None, 1]
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        _check_not_called_by_hand()
        placeholders = _placeholders(features, "feature", default_batch_size)
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> ReceiverFn:
    """A receiver function for features and labels, to export training or evaluation.

    Args:
      features: what the model gets.
      labels: the same for labels.
      default_batch_size: the size of batches; None: any.

    >>> receiver_fn = build_raw_supervised_input_receiver_fn(
    ...     {"age": tf.zeros([8, 1])}, tf.zeros([8]))
    >>> with tf.Graph().as_default():
    ...     sorted(receiver_fn().receiver_tensors)
    ['age', 'label']
    """
    # What is not a dict goes by these names, with which other names must not clash either.
    feature_names = set(features) if isinstance(features, Mapping) else {"input"}
    label_names = set(labels) if isinstance(labels, Mapping) else {"label"}
    both = feature_names & label_names
    if both:
        raise SpecError(
            "Features and labels must have distinct keys. "
            f"Found overlapping keys: {sorted(both, key=str)}. Rename one side."
        )

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        fed_features = _placeholders(features, "input", default_batch_size)
        fed_labels = _placeholders(labels, "label", default_batch_size)
        receivers = {**_by_name(fed_features, "input"), **_by_name(fed_labels, "label")}
        return SupervisedInputReceiver(fed_features, fed_labels, receivers)

    return supervised_input_receiver_fn


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> ReceiverFn:
    """A receiver function with the structure of what `input_fn(**input_fn_args)` gives.

    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"age": [[1.0]]}, [0]))
    >>> receiver_fn = build_supervised_input_receiver_fn_from_input_fn(input_fn)
    >>> with tf.Graph().as_default():
    ...     receiver_fn().receiver_tensors["age"].shape.as_list()
    [None, 1]
    """
    with tf.Graph().as_default():  # what input_fn builds is needed for its shapes only
        result = input_fn(**input_fn_args)
        if isinstance(result, tf.data.Dataset):
            result = result.element_spec
        if not isinstance(result, tuple) or len(result) != 2:
            raise SpecError(
                "input_fn must give a tuple (features, labels) or a tf.data.Dataset of such; "
                f"it gave {result!r}."
            )
        features, labels = tf.nest.map_structure(_spec_of, result)
    return build_raw_supervised_input_receiver_fn(features, labels)


# ------------------------------------------------------------------ checks


def _check_not_called_by_hand() -> None:
    if tf.executing_eagerly():
        raise SpecError(
            "A receiver function was called outside of an export. Pass the function itself, "
            "without (): export_saved_model(folder, receiver_fn)."
        )


def _named_tensors(values: Any, what: str, integer_keys: bool = False) -> dict[Any, Any]:
    if values is None:
        raise SpecError(f"{what}s must be defined.")
    if not isinstance(values, Mapping):
        values = {_BARE_NAMES[what]: values}
    for key, value in values.items():
        if not isinstance(key, str) and not (integer_keys and isinstance(key, int)):
            accepted = "strings or ints" if integer_keys else "strings"
            raise SpecError(f"{what} keys must be {accepted}: {key}.")
        _check_tensor(value, what, key)
    return dict(values)


def _wraps_a_tensor(value: Any) -> bool:
    """Whether it is an object such as a LabeledTensor, which TensorFlow was taught to convert."""
    if not hasattr(value, "tensor"):
        return False
    try:
        tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_tensor(value: Any, what: str, key: Any = None) -> None:
    if not isinstance(value, _GRAPH_TYPES) and not _wraps_a_tensor(value):
        name = "" if key is None else f" {key}"
        raise SpecError(
            f"{what}{name} must be a Tensor, SparseTensor, or RaggedTensor. Given: {value!r}."
        )


def _alternatives(given: Mapping[str, Any] | None) -> dict[str, dict[str, Any]] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise SpecError(f"receiver_tensors_alternatives must be a dict: {given}.")
    return {name: _named_tensors(tensors, "receiver_tensor") for name, tensors in given.items()}


# ------------------------------------------------------------------ placeholders


def _spec_of(value: Any) -> tf.TensorSpec:
    if isinstance(value, tf.SparseTensor | tf.RaggedTensor | tf.SparseTensorSpec):
        raise SpecError(
            f"Raw receivers are made of dense tensors; given: {value!r}. Feed sparse features as "
            "serialized examples: est.export.build_parsing_serving_input_receiver_fn(spec)."
        )
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        value = tf.convert_to_tensor(value)
        shape, dtype = value.shape, value.dtype
    name = value.name if isinstance(value, tf.TensorSpec) else None
    if isinstance(value, tf.Tensor) and not hasattr(value, "numpy"):
        name = value.op.name  # of a graph; an eager tensor has none
    return tf.TensorSpec(shape, dtype, name=name)


def _placeholders(values: Any, bare_name: str, batch_size: int | None) -> Any:
    if isinstance(values, Mapping):
        return {key: _placeholder(value, str(key), batch_size) for key, value in values.items()}
    return _placeholder(values, bare_name, batch_size)


def _placeholder(value: Any, name: str, batch_size: int | None) -> tf.Tensor:
    spec = value if isinstance(value, tf.TensorSpec) else _spec_of(value)
    shape = spec.shape.as_list() if spec.shape.rank is not None else None
    if shape:
        shape[0] = batch_size
    return tf.compat.v1.placeholder(spec.dtype, shape, name=spec.name or _node_name(name))


def _node_name(key: str) -> str:
    """A key as a name that ops may have: letters, digits and `_.-/`, beginning with one."""
    cleaned = "".join(c if (c.isascii() and c.isalnum()) or c in "_.-/" else "_" for c in key)
    return cleaned if cleaned[:1].isalnum() else f"input{cleaned}"


def _by_name(values: Any, bare_name: str) -> dict[str, Any]:
    return dict(values) if isinstance(values, Mapping) else {bare_name: values}
