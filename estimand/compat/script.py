"""Running a program as it is: `tf.estimator` in place, and TensorFlow 1 for files that want it."""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.compat import contrib_visibility, detection, old_numpy
from estimand.compat.install import installed
from estimand.compat.program_files import module_file, searched

_log = logging.getLogger("estimand")
# These know which TensorFlow they run on.
_NEVER = ("estimand", "keras", "tensorboard", "tensorflow", "tf_keras")


def run_script(path: str, arguments: Sequence[str] = (), v1: bool | None = None) -> dict[str, Any]:
    """Run a program as `python path arguments...` does, with Estimand for `tf.estimator`.

    Args:
        path: the program.
        arguments: what it finds in `sys.argv[1:]`.
        v1: whether `import tensorflow as tf` gives TensorFlow 1 to the files in the program's
            directory; None decides for each file by the names it uses.

    Returns:
        The global names of the program when it has ended.
    """
    path = os.path.abspath(path)
    with _world_of(path, os.path.dirname(path), arguments, v1):
        return runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str] = (), v1: bool | None = None) -> dict[str, Any]:
    """Run a module as `python -m name arguments...` does, with Estimand for `tf.estimator`.

    The files of the program are those below the working directory: so `trainer.task` finds
    `trainer.model`, and `pytest` runs tests of code that was written for tf.estimator.

    Args:
        name: the module, or a package with a `__main__`.
        arguments: as for `run_script`.
        v1: as for `run_script`.

    Returns:
        The global names of the module when it has ended.
    """
    with _world_of(module_file(name), os.getcwd(), arguments, v1):
        return runpy.run_module(name, run_name="__main__", alter_sys=True)


@contextlib.contextmanager
def _world_of(
    path: str, directory: str, arguments: Sequence[str], v1: bool | None
) -> Iterator[None]:
    """What a program whose files are below `directory` expects to find around itself."""
    with (
        installed(),
        old_numpy.put_back(path, directory),
        _as_main(path, directory, arguments),
        _imports(directory, v1) as imports,
    ):
        imports.settle_main(path)
        yield


class _Imports:
    """Stands in for `__import__` and decides which TensorFlow a file gets."""

    def __init__(self, directory: str, v1: bool | None) -> None:
        self._directory = directory + os.sep
        self._v1 = v1
        self._import = builtins.__import__
        self._decided: dict[str, bool] = {}
        self._switched = False

    def __call__(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        imported = self._import(name, globals, locals, fromlist, level)
        if level or name.partition(".")[0] != "tensorflow" or (fromlist and name != "tensorflow"):
            return imported
        if not self._wants_v1(globals or {}):
            return imported
        from estimand.compat.v1.view import tf, tf_without_contrib

        asks = contrib_visibility.file_asks(str((globals or {}).get("__file__")))
        return tf if asks else tf_without_contrib

    def settle_main(self, path: str) -> None:
        """The program itself: its modules may come to need what it decides."""
        self._wants_v1({"__file__": path, "__name__": "__main__"})

    def _wants_v1(self, importer: dict[str, Any]) -> bool:
        path = importer.get("__file__")
        if not path or str(importer.get("__name__")).partition(".")[0] in _NEVER:
            return False
        path = os.path.abspath(path)
        if path not in self._decided:
            self._decided[path] = self._decide(path)
        return self._decided[path]

    def _decide(self, path: str) -> bool:
        own = path.startswith(self._directory)
        if own and self._v1 is not None:
            wanted = ["--v1"] if self._v1 else []
        else:
            wanted = self._v1_names(path)
        if wanted and own and not self._switched:
            self._switched = True
            _behave_like_v1(path)
        if wanted:
            _log.info("TensorFlow 1 for %s, because of %s.", path, ", ".join(wanted[:3]))
        return bool(wanted)

    def _v1_names(self, path: str) -> list[str]:
        import tensorflow as tf

        try:
            with open(path, encoding="utf-8") as file:
                source = file.read()
        except (OSError, UnicodeDecodeError):
            return []
        from estimand.compat.v1 import view

        return detection.v1_names(source, tf, view.tf)


def _behave_like_v1(path: str) -> None:
    """Graphs and sessions are the default, sizes have a `.value`."""
    import tensorflow as tf

    from estimand.core import tf_private

    with open(path, encoding="utf-8") as file:
        source = file.read()
    if detection.trains_with_keras(source):
        return  # which Keras 3 does eagerly only; model functions have their graphs in any case
    with tf_private.without_deprecations():
        tf.compat.v1.disable_v2_behavior()
    if any(name.startswith("keras") for name in detection.names_of_tensorflow(source)):
        # Keras 3 computes with shapes as plain numbers.
        tf.compat.v1.enable_v2_tensorshape()


@contextlib.contextmanager
def _imports(directory: str, v1: bool | None) -> Iterator[_Imports]:
    before = builtins.__import__
    ours = _Imports(directory, v1)
    builtins.__import__ = ours
    try:
        yield ours
    finally:
        builtins.__import__ = before


@contextlib.contextmanager
def _as_main(path: str, directory: str, arguments: Sequence[str]) -> Iterator[None]:
    argv = sys.argv
    sys.argv = [path, *arguments]
    try:
        with searched(directory):
            yield
    finally:
        sys.argv = argv
