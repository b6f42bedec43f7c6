"""Loading an exported model and calling it: NumPy in, NumPy out."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import lines_of_old
from estimand.core.errors import InputError, NoModelError
from estimand.core.interpreter.closing import Closing
from estimand.core.names import KnownNames, did_you_mean
from estimand.export.loaded import reading
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.composites import fed_arrays, joined_values, row_count
from estimand.export.loaded.example_features import example_features
from estimand.export.loaded.holding import Hold
from estimand.export.loaded.rows import inputs_of_rows

_ATTEMPTS = 5
_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def load_model(
    directory: str | os.PathLike[str] | bytes, tags: Sequence[str] = (tf.saved_model.SERVING,)
) -> LoadedModel:
    """Load an export, or the newest version below a directory, to call it many times.

    As long as it is loaded, exporters do not delete that version.

    Args:
      directory: an export, or a directory of versions, of which the newest is taken.
      tags: of the graph, where a SavedModel has several.

    >>> import estimand as est, numpy as np, tempfile
    >>> def model_fn(features, labels, mode):
    ...     y = features["x"] * tf.compat.v1.get_variable("w", initializer=2.0)
    ...     if mode == est.ModeKeys.PREDICT:
    ...         return est.EstimatorSpec(mode, predictions={"y": y})
    ...     loss, step = tf.reduce_sum(y), tf.compat.v1.train.get_global_step()
    ...     return est.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))
    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))
    >>> estimator = est.Estimator(model_fn).train(input_fn)
    >>> receiver_fn = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None])})
    >>> with est.load_model(estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn)) as model:
    ...     model(x=[1.0, 2.0])
    {'y': array([2., 4.], dtype=float32)}
    """
    for _ in range(_ATTEMPTS):
        export = reading.find_version(directory)
        try:
            with lines_of_old.in_order():
                return LoadedModel(export, tuple(tags), Hold(export))
        except FileNotFoundError as error:
            if isinstance(error, NoModelError):
                raise
            # Deleted while it was being loaded: there is a newer one.
    raise NoModelError(f"The versions in {os.fsdecode(directory)!r} vanish while being loaded.")


class LoadedModel(Closing):
    """An exported model in memory. Calling it calls its default signature.

    Several threads may call it at the same time. `close()`, or leaving a `with` block, frees it.
    """

    def __init__(self, directory: str, tags: tuple[str, ...], hold: Hold) -> None:
        self.directory = directory
        self.card = reading.read_card(directory)
        self._hold = hold
        try:
            described = _signatures(directory, tags)
            # A session takes about three quarters of the time per call of the functions that
            # tf.saved_model.load makes, and two thirds of the time to load.
            self._session = tf.compat.v1.Session(graph=tf.Graph())
            _load_into(self._session, directory, tags)
        except BaseException:
            hold.release()
            raise
        signatures = {
            name: Signature(name, signature, self._session, lambda: self.features)
            for name, signature in described.items()
        }
        self._signatures = KnownNames("signature", signatures)

    @functools.cached_property
    def features(self) -> dict[str, Any]:
        """What its tf.Examples hold, where a signature takes them: type, shape and default."""
        return example_features(self._session.graph.as_graph_def())

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by name; each is a function of keyword arrays."""
        return MappingProxyType(self._signatures)

    @property
    def default(self) -> Signature:
        """The default signature, or the only one."""
        if _DEFAULT in self._signatures:
            return self._signatures[_DEFAULT]
        if len(self._signatures) == 1:
            return next(iter(self._signatures.values()))
        raise InputError(
            f"{self.directory} has no default signature. Call one of its signatures: "
            f"model.signatures[name](...), with name from {sorted(self._signatures)}."
        )

    def __call__(self, inputs: Any = None, /, **more: Any) -> dict[str, np.ndarray]:
        return self.default(inputs, **more)

    def run(self, fetches: Any, feed_dict: Mapping[str, Any] | None = None) -> Any:
        """Values of tensors by their names in the graph, such as `output_score:0`."""
        return self._session.run(fetches, feed_dict)

    def close(self) -> None:
        self._session.close()
        self._hold.release()

    def __repr__(self) -> str:
        return f"LoadedModel({self.directory!r}, signatures={sorted(self._signatures)})"


class Signature:
    """One way to call a loaded model."""

    def __init__(
        self,
        name: str,
        described: Mapping[str, Any],
        session: tf.compat.v1.Session,
        features: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.name = name
        self._features = features
        self.method: str = described["method"]
        self.inputs = {k: TensorInfo.of(k, i) for k, i in described["inputs"].items()}
        self.outputs = {k: TensorInfo.of(k, i) for k, i in described["outputs"].items()}
        self._call = session.make_callable(
            [tensor for info in self.outputs.values() for tensor in info.tensors],
            [tensor for info in self.inputs.values() for tensor in info.tensors],
        )
        # Most signatures are dense all through: these need no look at each value.
        self._joins = any(info.kind for info in self.outputs.values())

    def __call__(self, inputs: Any = None, /, **more: Any) -> dict[str, np.ndarray]:
        """Arrays by name; or rows: a list of dicts, or a DataFrame of pandas."""
        if (rows := rows_in(inputs)) is not None and not more:
            inputs = inputs_of_rows(self, rows, self._features())
        if not isinstance(inputs, Mapping | None):
            raise InputError(
                f"Signature {self.name!r} was called with a {type(inputs).__name__}; give its "
                f"inputs by name: model({next(iter(self.inputs), 'x')}=...), or as a dict; or give "
                "rows, a list of dicts or a DataFrame."
            )
        given = {**(inputs or {}), **more}
        if given.keys() != self.inputs.keys():
            raise self._wrong_names(given)
        fed = {name: fed_arrays(info, given[name]) for name, info in self.inputs.items()}
        self._check_batch(fed)
        values = self._call(*(array for arrays in fed.values() for array in arrays))
        if self._joins:
            values = joined_values(self.outputs.values(), values)
        return dict(zip(self.outputs, values, strict=True))

    def _wrong_names(self, given: Mapping[str, Any]) -> InputError:
        missing = sorted(self.inputs.keys() - given.keys())
        unknown = sorted(given.keys() - self.inputs.keys())
        parts = [f"lacks {missing}"] * bool(missing) + [f"does not take {unknown}"] * bool(unknown)
        takes = ", ".join(str(info) for info in self.inputs.values())
        question = did_you_mean(unknown[0], missing) if unknown else ""
        return InputError(
            f"Signature {self.name!r} was called with {sorted(given)}: it {' and '.join(parts)}. "
            f"It takes: {takes}.{question}"
        )

    def _check_batch(self, fed: Mapping[str, Sequence[np.ndarray]]) -> None:
        batched = [
            (name, row_count(info, fed[name]))
            for name, info in self.inputs.items()
            if info.kind or (info.shape and info.shape[0] is None)
        ]
        if len({rows for _, rows in batched}) > 1:
            rows = ", ".join(f"{name}: {count}" for name, count in batched)
            raise InputError(
                f"The inputs of signature {self.name!r} have different numbers of rows ({rows}); "
                "all inputs of one call must have as many."
            )

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs.values()))
        outputs = ", ".join(map(str, self.outputs.values()))
        return f"Signature({self.name!r}: {inputs} -> {outputs})"


def rows_in(given: Any) -> list[dict[str, Any]] | None:
    """The rows of a list of dicts, or of a DataFrame, None in its missing cells; else None."""
    if hasattr(given, "columns") and hasattr(given, "to_dict") and hasattr(given, "index"):
        given = given.to_dict("records")
    elif not isinstance(given, list | tuple) or not given or not isinstance(given[0], Mapping):
        return None
    return [
        {str(name): None if _is_missing(value) else _plain(value) for name, value in row.items()}
        for row in given
    ]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _signatures(directory: str, tags: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    graphs = reading.read_meta_graphs(directory)
    for graph in graphs:
        if set(graph.tags) == set(tags):
            return graph.signatures
    there = [list(graph.tags) for graph in graphs]
    raise NoModelError(
        f"{directory} has no graph with the tags {list(tags)}; it has those of {there}. Give "
        "one of these: est.load_model(directory, tags=[...])."
    )


def _load_into(session: tf.compat.v1.Session, directory: str, tags: tuple[str, ...]) -> None:
    try:
        with _without_deprecation_notice():
            tf.compat.v1.saved_model.loader.load(session, list(tags), directory)
    except (tf.errors.OpError, OSError) as error:
        session.close()
        if isinstance(error, tf.errors.NotFoundError | FileNotFoundError):
            raise FileNotFoundError(str(error)) from error
        raise NoModelError(f"{directory} is damaged: {error}") from error


@contextlib.contextmanager
def _without_deprecation_notice() -> Iterator[None]:
    """It is public, and the only one that loads into a session, but logs that it is deprecated."""

    def keep(record: logging.LogRecord) -> bool:
        return "tf.saved_model.load" not in record.getMessage()

    log = logging.getLogger("tensorflow")
    log.addFilter(keep)
    try:
        yield
    finally:
        log.removeFilter(keep)
