"""Saving checkpoints off the training path."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from estimand.core.errors import CheckpointWriteError
from estimand.core.files.atomic_files import (
    remove_quietly,
    replace_bytes,
    replace_text,
    sync_directory,
    syncing_while,
    temporary_path,
    write_text,
)
from estimand.engine.checkpoints.files import (
    BASENAME,
    GRAPH_SUFFIX,
    INPUT_SUFFIX,
    META_SUFFIX,
    STATE_FILE,
    State,
    checkpoint_step,
    companion_place,
    companion_places,
    companion_prefix,
    meta_text,
    read_state,
    state_text,
    visible_problem,
)
from estimand.engine.checkpoints.keep_policy import KeepPolicy, Saved
from estimand.engine.checkpoints.publishing import (
    Entry,
    clean_leftovers,
    delete_checkpoint,
    discard_temporary,
    join_bundles,
    publish_bundle,
    remove_bundle,
    sync_bundle,
    write_bundle,
)
from estimand.engine.checkpoints.write_errors import clearing_up, write_error
from estimand.engine.model_dir import ensure_writable, holds_lock

_log = logging.getLogger("tensorflow")
_numbers = itertools.count()
_NICE = 10
# Writing so much takes long enough for training to feel it.
_BYTES_TO_YIELD_FOR = 50_000_000
# Where checkpoints follow each other faster than the disk takes them in, one every so often is
# waited for, down to the disk; the ones before it stay until then.
_SECONDS_BETWEEN_SYNCS = 2.0


@dataclass(frozen=True)
class _Job:
    prefix: str
    entries: Sequence[Entry]
    companion: str | None
    companion_entries: Sequence[Entry]
    meta: str | None
    graph: bytes | None
    keep: bool
    temporary: str
    others: Sequence[str]
    on_published: Callable[[str], None] | None

    @property
    def size(self) -> int:
        """Bytes, without strings."""
        return sum(
            int(e.tensor.shape.num_elements() or 0) * e.tensor.dtype.size for e in self.entries
        )


def clear_up(directory: str, basename: str = BASENAME) -> None:
    """Remove what processes that were killed left half done; whole checkpoints all stay."""
    clean_leftovers(directory, basename, exclusive=holds_lock(directory))


class CheckpointWriter:
    """Writes checkpoints into one directory, in order, on a thread of its own.

    A save costs its caller only the wait for the one before it, should that not be done yet: at
    most one is being written, so at most one snapshot of the values is held in memory. At
    whatever byte the process dies, the checkpoints before remain, the new one is there as a
    whole or not at all, and the next writer of the directory removes what was half done
    (see `clean_leftovers`; hold the `ModelDirLock` to let it remove everything).

    >>> import tempfile
    >>> import tensorflow as tf
    >>> with CheckpointWriter(tempfile.mkdtemp(), KeepPolicy(2)) as writer:
    ...     path = writer.save(3, [Entry("global_step", tf.constant(3, tf.int64))])
    >>> os.path.basename(path)
    'model.ckpt-3'
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: KeepPolicy = KeepPolicy(),  # noqa: B008  frozen
        *,
        basename: str = BASENAME,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = ensure_writable(directory)
        self._basename = basename
        self._policy = keep
        self._clock = clock
        self._protected: collections.Counter[str] = collections.Counter()
        self._protected_lock = threading.Lock()
        self._caller_lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._in_a_hurry = threading.Event()
        self._last_on_disk = -math.inf
        clear_up(self._directory, basename)
        self._saved, self._last_preserved = self._recall()

    def _recall(self) -> tuple[list[Saved], float]:
        """The list as an earlier run left it: this run goes on with it."""
        state = read_state(self._directory)
        now = self._clock()
        times: Sequence[float | None] = state.times or [None] * len(state.paths)
        saved = []
        for path, saved_at in zip(state.paths, times, strict=True):
            if os.path.exists(path + ".index"):
                if saved_at is None:  # upstream does not note it
                    saved_at = os.path.getmtime(path + ".index")
                saved.append(Saved(path, saved_at))
        return saved, min(state.last_preserved or now, now)

    # -------------------------------------------------------------- what callers use

    def prefix(self, step: int) -> str:
        """The final prefix of the checkpoint at `step`."""
        return os.path.join(self._directory, f"{self._basename}-{step}")

    def temporary_prefix(self, step: int) -> str:
        """A prefix to write a `companion` under: if never used, it is cleaned up one day."""
        return self._temporary(f"{self._basename}-{step}{INPUT_SUFFIX}")

    def save(
        self,
        step: int,
        entries: Sequence[Entry],
        *,
        companion: str | Sequence[Entry] | None = None,
        meta: dict[str, Any] | None = None,
        graph: bytes | None = None,
        synchronous: bool = False,
        on_published: Callable[[str], None] | None = None,
        if_exists: Literal["replace", "keep"] = "replace",
        write_others: Callable[[str], Sequence[str]] = lambda prefix: (),
    ) -> str:
        """Begin to save `entries`, and return the prefix the checkpoint will have.

        `companion` is a second set of entries, or the prefix of files written already (see
        `temporary_prefix`); its files become `input_position/model.ckpt-N.*`. `meta` becomes
        `model.ckpt-N.run.json`, and `graph` `model.ckpt-N.meta`. `on_published(prefix)` is called
        on the writing thread once the checkpoint is there and listed, before old ones are removed.

        If there is a checkpoint of that step, `if_exists="replace"` puts the new contents in its
        place, such that there is the old or the new one at any time (companion and meta change
        a moment before the values); equal contents are left alone. `if_exists="keep"` says that
        the values are the same anyway: they are not written, only listed as the newest; a
        companion and meta are added where there were none.

        `write_others(prefix)` is called before this returns, unless the values are kept: it has
        written more of the checkpoint, into the bundles whose prefixes it gives, which begin with
        the given one and are joined with the rest.

        Raises `CheckpointWriteError` if the save before this one failed.
        """
        prefix = self.prefix(step)
        temporary = self._temporary(os.path.basename(prefix))
        job = _Job(
            prefix=prefix,
            entries=tuple(entries),
            companion=companion if isinstance(companion, str) else None,
            companion_entries=() if isinstance(companion, str) else tuple(companion or ()),
            meta=None if meta is None else meta_text(meta),
            graph=graph,
            keep=False,
            temporary=temporary,
            others=(),
            on_published=on_published,
        )
        with self._caller_lock:
            self.wait(another_follows=True)
            with clearing_up(prefix, temporary, job.companion):
                self._require_directory(prefix)
                keep = if_exists == "keep" and visible_problem(prefix) is None
                others = () if keep else write_others(temporary)
            job = dataclasses.replace(job, keep=keep, others=others)
            # Not a daemon: a program that ends while a checkpoint is being written waits for it.
            self._thread = threading.Thread(
                target=self._run, args=(job, synchronous), name=f"estimand-save-{step}"
            )
            self._thread.start()
            if synchronous:
                self.wait()
        return job.prefix

    def wait(self, *, another_follows: bool = False) -> None:
        """Wait until nothing is being written; raise what went wrong with it, once.

        With `another_follows`, the next save begins right after: if the last one that was seen
        to be on the disk is but a moment old, this one need not be.
        """
        if threading.current_thread() is self._thread:
            return  # called by on_published: what it could wait for is itself
        with self._caller_lock:
            if self._thread is not None:
                recent = time.monotonic() - self._last_on_disk < _SECONDS_BETWEEN_SYNCS
                if another_follows and recent:
                    self._in_a_hurry.set()
                self._thread.join()
                self._thread = None
                self._in_a_hurry.clear()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def protect(self, path: str) -> None:
        """Let a checkpoint not be removed while it is evaluated or exported. Calls count."""
        with self._protected_lock:
            self._protected[os.path.abspath(path)] += 1

    def unprotect(self, path: str) -> None:
        """Undo one `protect`; if surplus, it is removed with the next save, or at the close."""
        with self._protected_lock:
            self._protected[os.path.abspath(path)] -= 1

    def close(self) -> None:
        """Wait for the last save, and remove what only protection had held back."""
        self.wait()
        self._remove_old()

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as failure:
            # The error on its way is the one to be told first; this one must not hide it.
            _log.error("%s", failure)

    # -------------------------------------------------------------- on the writing thread

    def _run(self, job: _Job, awaited: bool) -> None:
        if not awaited and job.size > _BYTES_TO_YIELD_FOR:
            _yield_to_training()
        try:
            with syncing_while(lambda: not self._in_a_hurry.is_set()):
                self._write(job)
            on_disk = not self._in_a_hurry.is_set()
            if job.on_published is not None:
                job.on_published(job.prefix)
            if on_disk:
                self._last_on_disk = time.monotonic()
                self._remove_old()
        except BaseException as error:
            self._failure = error

    def _require_directory(self, prefix: str) -> None:
        """TensorFlow would make it anew, and all that was in it would be missing."""
        if not os.path.isdir(self._directory):
            raise write_error(prefix, FileNotFoundError(self._directory))

    def _write(self, job: _Job) -> None:
        new_state = temporary_path(self._directory, STATE_FILE)
        saved = [checkpoint for checkpoint in self._saved if checkpoint.path != job.prefix]
        saved.append(Saved(job.prefix, self._clock()))
        if job.companion_entries:
            job = dataclasses.replace(
                job, companion=self.temporary_prefix(checkpoint_step(job.prefix))
            )
        with clearing_up(job.prefix, job.temporary, job.companion, new_state):
            self._require_directory(job.prefix)
            if job.companion_entries and job.companion is not None:
                write_bundle(job.companion, job.companion_entries)
            if job.others:
                join_bundles(job.temporary, job.entries, job.others)
            elif not job.keep:
                write_bundle(job.temporary, job.entries)
            # Before the checkpoint is: should we die right after, the next writer finishes this.
            write_text(new_state, self._state_text(saved))
            self._publish(job)
            os.replace(new_state, os.path.join(self._directory, STATE_FILE))
            sync_directory(self._directory)
        self._saved = saved

    def _publish(self, job: _Job) -> None:
        """What is part of the checkpoint first, and last the index that makes it one."""
        keep = job.keep
        companion = companion_place(job.prefix)
        if keep and (companion_prefix(job.prefix) or job.companion is None):
            if job.companion is not None:
                discard_temporary(job.companion)
        elif job.companion is not None:
            if not job.companion_entries:  # written by somebody else
                sync_bundle(job.companion)
            os.makedirs(os.path.dirname(companion), exist_ok=True)
            publish_bundle(job.companion, companion)
        else:
            for place in companion_places(job.prefix):  # of the checkpoint to be replaced
                remove_bundle(place)

        meta = job.prefix + META_SUFFIX
        if job.meta is not None:
            if not (keep and os.path.exists(meta)):
                replace_text(meta, job.meta)
        elif not keep and os.path.exists(meta):
            os.remove(meta)

        # After the notes, by which it is known for a part of a checkpoint should we die here.
        graph = job.prefix + GRAPH_SUFFIX
        if job.graph is not None:
            replace_bytes(graph, job.graph)
        elif not keep:
            remove_quietly(graph)

        if not keep:
            publish_bundle(job.temporary, job.prefix)

    def _remove_old(self) -> None:
        with self._protected_lock:
            protected = {path for path, count in self._protected.items() if count > 0}
        decision = self._policy.decide(
            self._saved,
            self._last_preserved,
            {
                checkpoint.path
                for checkpoint in self._saved
                if os.path.abspath(checkpoint.path) in protected
            },
        )
        if len(decision.listed) == len(self._saved):
            return
        for checkpoint in decision.remove:
            delete_checkpoint(checkpoint.path)
        # Only now off the list: what a kill keeps from being removed is removed next time.
        self._saved, self._last_preserved = list(decision.listed), decision.last_preserved
        try:
            state_file = os.path.join(self._directory, STATE_FILE)
            replace_text(state_file, self._state_text(self._saved))
        except OSError as error:
            raise CheckpointWriteError(
                f"Could not update {self._directory}/{STATE_FILE} after removing old checkpoints: "
                f"{error}; the newest checkpoint is intact."
            ) from error

    def _state_text(self, saved: Sequence[Saved]) -> str:
        state = State(
            latest=saved[-1].path,
            paths=[checkpoint.path for checkpoint in saved],
            times=[checkpoint.time for checkpoint in saved],
            last_preserved=self._last_preserved,
        )
        return state_text(self._directory, state)

    def _temporary(self, name: str) -> str:
        return temporary_path(self._directory, f"{next(_numbers)}-{name}")


def _yield_to_training() -> None:
    """Let this thread have only what the training threads leave of the processors."""
    with contextlib.suppress(AttributeError, OSError):  # per thread on Linux only
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
