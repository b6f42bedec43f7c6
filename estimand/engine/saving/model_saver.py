"""What of a traced model goes into a checkpoint, and back."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private, voice
from estimand.engine.checkpoints.api import CheckpointWriter, Entry, Wanted
from estimand.engine.checkpoints.keep_policy import KeepPolicy
from estimand.engine.feeding.feeder import InputPosition
from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.runner import HookSession
from estimand.engine.saving import local_values, on_servers
from estimand.engine.saving.snapshot import SnapshotMemory
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.variables.placement import on_server
from estimand.engine.variables.store import VariableStore

DRAWS = "draws"  # how many steps have drawn random numbers, as noted beside a checkpoint


@dataclass(frozen=True)
class SavedVariable:
    """One variable as a checkpoint holds it."""

    store_name: str
    name: str
    slice_spec: str
    variable: tf.Variable

    def origin(self, checkpoint: str) -> str:
        """Where in a checkpoint (see `identity`) the variable's value is."""
        return f"{checkpoint}#{self.name}"

    def entry(self, value: tf.Tensor) -> Entry:
        return Entry(self.name, value, self.slice_spec)

    def wanted(self, device: str = "") -> Wanted:
        shape = self.variable.shape
        fixed = tuple(shape.as_list()) if shape.rank is not None else None
        return Wanted(self.name, self.variable.dtype, fixed, self.slice_spec, device)


def identity(path: str) -> str:
    """Tells a checkpoint from another one that was later written under the same name."""
    try:
        state = os.stat(f"{path}.index")
    except OSError:
        return path
    return f"{path}@{state.st_ino}-{state.st_size}-{state.st_mtime_ns}"


def v1_saver(trace: BuiltModel) -> Any:
    """The Saver that a model function made: its Scaffold's, or the one of its collection."""
    scaffold = trace.spec.scaffold
    if scaffold is not None and scaffold.saver is not None:
        return scaffold.saver
    noted = trace.collection(tf.compat.v1.GraphKeys.SAVERS)
    return noted[0] if len(noted) == 1 else None


def saved_variables(trace: BuiltModel) -> list[SavedVariable]:
    """The variables of a trace that a checkpoint holds, as its own saver wants them."""
    chosen = tf_private.saver_variables(v1_saver(trace))
    by_id = {id(v): n for n, v in trace.variables.by_name.items()}
    pairs: Mapping[str, tf.Variable] = trace.variables.saved() if chosen is None else chosen
    result = []
    for name, variable in pairs.items():
        for part in map(trace.variables.twins.own, _parts(variable)):
            full_name, spec = tf_private.save_slice(part) or (name, "")
            result.append(SavedVariable(by_id.get(id(part), name), full_name, spec, part))
    return result


def _parts(variable: tf.Variable) -> list[tf.Variable]:
    """A partitioned variable's parts; a plain one is its own only part."""
    if isinstance(variable, (list, tuple)):
        return list(variable)
    return list(variable) if hasattr(variable, "_get_variable_list") else [variable]


def _value(variable: tf.Variable) -> tf.Tensor:
    """The value now. The op alone takes a fifth of the time of `read_value`, at every save."""
    if isinstance(variable, tf.distribute.DistributedValues):
        return variable.read_value()
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def saveable_objects(trace: BuiltModel) -> list[Any]:
    """Tables, iterators and the like that model code registered to be saved."""
    return trace.collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)


class ModelSaver:
    """Takes checkpoints of one training run.

    Args:
      session: has the model as its last step left it.
      store: counts the changes of its variables, which need not move the global step.
      model_dir: where they go.
      keep: which of them stay.
      position: the place in the input, saved beside them; None: it is not saved.
      restored_step: of the checkpoint that was restored: saving it again would write the same.
      graph_file: what a `.meta` file would hold, asked once; None: there is none.
    """

    def __init__(
        self,
        session: HookSession,
        store: VariableStore,
        model_dir: str,
        keep: KeepPolicy,
        position: InputPosition | None,
        *,
        restored_step: int | None = None,
        graph_file: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._session = session
        self._trace = session.trace
        self._store = store
        self._model_dir = model_dir
        self._keep = keep
        self.position = position
        self._changes_at_start = store.changes
        self._changes_at_save = -1
        self._restored_step = restored_step
        self._graph_file = graph_file
        self._writers: dict[tuple[str, str], CheckpointWriter] = {}
        self._shared: dict[str, bool] = {}  # by directory: whether the servers see it
        self.last_path: str | None = None

    # Looked up at the first save: hooks may add variables before that.

    @functools.cached_property
    def _variables(self) -> list[SavedVariable]:
        return saved_variables(self._trace)

    def _catch_up(self) -> None:
        """Eagerly, each step makes the model anew, and may have made more variables."""
        before, self._trace = self._trace, self._session.trace
        if self._trace is not before and _identities(self._trace) != _identities(before):
            self.__dict__.pop("_variables", None)
            self.__dict__.pop("_memory", None)

    @functools.cached_property
    def _graph(self) -> bytes | None:
        return self._graph_file()

    @functools.cached_property
    def _memory(self) -> SnapshotMemory:
        return SnapshotMemory([v.variable for v in self._variables if not on_server(v.variable)])

    def _write_on_servers(self, prefix: str) -> list[str]:
        """What is on parameter servers, into bundles of its own."""
        there = [(v.variable, v.entry) for v in self._variables if on_server(v.variable)]
        if not there:
            return []
        directory = os.path.dirname(prefix)
        if directory not in self._shared:
            devices = on_servers.devices_of([variable for variable, _ in there])
            self._shared[directory] = on_servers.shared_by(directory, devices)
        return on_servers.write(prefix, there, shared=self._shared[directory])

    def origins(self, path: str) -> dict[str, str]:
        """For each variable, where in the checkpoint at `path` its value is."""
        checkpoint = identity(path)
        return {v.store_name: v.origin(checkpoint) for v in self._variables}

    def save(
        self,
        step: int,
        *,
        directory: str | None = None,
        basename: str = "model.ckpt",
        synchronous: bool = False,
    ) -> str:
        """Snapshot the variables now; they are written in the background unless told otherwise."""
        self._catch_up()
        directory = self._directory(directory)
        self._let_end(directory, basename)  # then there is memory for another copy
        writer = self._writer(directory, basename)
        ours = directory == self._directory(None) and basename == "model.ckpt"
        unchanged = step == self._restored_step and self._store.changes == self._changes_at_start
        here = [v for v in self._variables if not on_server(v.variable)]
        values = self._memory.take([_value(v.variable) for v in here])
        entries = [v.entry(value) for v, value in zip(here, values, strict=True)]
        for saveable in saveable_objects(self._trace):
            parts = self._session.run([spec.tensor for spec in saveable.specs])
            entries += [
                Entry(spec.name, tf.convert_to_tensor(part), spec.slice_spec)
                for spec, part in zip(saveable.specs, parts, strict=True)
            ]

        if ours:
            self.last_path, self._changes_at_save = writer.prefix(step), self._store.changes

        def prepare(path: str) -> None:
            del path
            self._memory.prepare()

        def tell_and_prepare(path: str) -> None:
            voice.tell("saved %s", path, about=voice.SAVED)
            prepare(path)

        if ours and unchanged:
            return writer.save(
                step,
                entries,
                graph=self._graph,
                if_exists="keep",
                synchronous=synchronous,
                on_published=prepare,
                write_others=self._write_on_servers,
            )
        companion: list[Entry] = []
        meta: dict[str, Any] = {"complete": False}
        if self._trace.draws is not None:
            meta[DRAWS] = self._trace.draws.steps
        if self.position is not None:
            companion, meta["input"] = self.position.take()
        if kept := local_values.taken(self._trace):
            meta[local_values.NAMES] = local_values.names_of(kept)
        return writer.save(
            step,
            entries,
            companion=[*companion, *kept],
            meta=meta,
            graph=self._graph,
            synchronous=synchronous,
            on_published=tell_and_prepare,
            write_others=self._write_on_servers,
        )

    def is_current(self, path: str) -> bool:
        """Whether the variables still have the values that were saved, or are being, at `path`."""
        return path == self.last_path and self._store.changes == self._changes_at_save

    def provides(self, trace: BuiltModel) -> bool:
        """Whether another trace would read back from our checkpoint just what it has in place.

        Not so where it takes a variable's average for the variable, or wants one of its own.
        """
        ours = {(v.store_name, v.name, v.slice_spec) for v in self._variables}
        theirs = {(v.store_name, v.name, v.slice_spec) for v in saved_variables(trace)}
        return theirs <= ours and not saveable_objects(trace)

    def wait(self) -> None:
        for writer in self._writers.values():
            writer.wait()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _let_end(self, directory: str, basename: str) -> None:
        """Wait for what is being written there: all names share one file of the newest."""
        for (place, name), writer in self._writers.items():
            if place == directory:
                writer.wait(another_follows=name == basename)

    def _directory(self, given: str | None) -> str:
        """One name for each directory: two writers in the same one would not know of each other."""
        path = os.path.abspath(given or self._model_dir)
        model_dir = os.path.abspath(self._model_dir)
        return model_dir if os.path.realpath(path) == os.path.realpath(model_dir) else path

    def _writer(self, directory: str, basename: str) -> CheckpointWriter:
        key = (directory, basename)
        if key not in self._writers:
            self._writers[key] = CheckpointWriter(directory, self._keep, basename=basename)
        return self._writers[key]


def _identities(trace: BuiltModel) -> dict[str, int]:
    return {name: id(variable) for name, variable in trace.variables.saved().items()}


def restore_saveables(trace: Any, session: HookSession, path: str) -> None:
    """Give registered saveable objects what a checkpoint holds of them, where it does."""
    saveables = saveable_objects(trace)
    if not saveables:
        return
    reader = tf.train.load_checkpoint(path)
    for saveable in saveables:
        names = [spec.name for spec in saveable.specs]
        if not all(map(reader.has_tensor, names)):
            continue
        with trace.as_default():
            # As a Saver reads: of unknown shape, for what a table exports it need not import as
            # such, and not as constants, which the graph would hold for good.
            values = tf.raw_ops.RestoreV2(
                prefix=path,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                dtypes=[spec.dtype for spec in saveable.specs],
            )
            op = saveable.restore(values, None)
        session.run(fetching.plan(trace, op).graph_fetches)
