"""Running a program as it is: `tf.estimator` in place, and TensorFlow 1 for files that want it."""

from __future__ import annotations

import builtins
import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.compat import contrib_visibility, old_numpy, python2
from estimand.compat.install import installed
from estimand.compat.program_files import module_file, searched
from estimand.compat.tensorflow_choice import TensorFlowChoice
from estimand.compat.v1 import contrib_absent

# These know which TensorFlow they run on.
_NEVER = ("estimand", "keras", "tensorboard", "tensorflow", "tf_keras")


def run_script(path: str, arguments: Sequence[str] = (), v1: bool | None = None) -> dict[str, Any]:
    """Run a program as `python path arguments...` does, with Estimand for `tf.estimator`.

    Args:
        path: the program.
        arguments: what it finds in `sys.argv[1:]`.
        v1: whether `import tensorflow as tf` gives TensorFlow 1 to the files in the program's
            directory; None decides by the names they use.

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
        _imports(TensorFlowChoice(path, directory, v1)),
    ):
        yield


class _Imports:
    """Stands in for `__import__`: gives each file the TensorFlow that it was written for."""

    def __init__(self, choice: TensorFlowChoice) -> None:
        self._choice = choice
        self._import = builtins.__import__
        self._seen: set[str] = set()
        self._of_python2: set[str] = set()

    def __call__(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        self._give_names_of_python2(globals or {})
        old = None if level else self._module_of_python2(name, globals or {})
        if old is not None:
            return old
        imported = self._import(name, globals, locals, fromlist, level)
        if level or name.partition(".")[0] != "tensorflow" or (fromlist and name != "tensorflow"):
            return imported
        if not self._wants_v1(globals or {}):
            return imported
        path = str((globals or {}).get("__file__"))
        return contrib_visibility.tensorflow_1_for(path, self._choice.is_for_either(path))

    def _give_names_of_python2(self, importer: dict[str, Any]) -> None:
        """With the first import of a file: what follows may use them at once."""
        path = importer.get("__file__")
        if path and path not in self._seen:
            self._seen.add(path)
            if self._choice.is_of_program(path) and self._choice.is_v1(path):
                python2.give_to(importer)
                self._of_python2.add(path)

    def _module_of_python2(self, name: str, importer: dict[str, Any]) -> Any:
        """Whoever tries to import it has a way to do without, which is that of Python 3."""
        path = importer.get("__file__")
        if path not in self._of_python2 or not contrib_absent.is_untried(sys._getframe(2)):
            return None
        return python2.module(name)

    def _wants_v1(self, importer: dict[str, Any]) -> bool:
        path = importer.get("__file__")
        if not path or str(importer.get("__name__")).partition(".")[0] in _NEVER:
            return False
        return self._choice.is_v1(path)


@contextlib.contextmanager
def _imports(choice: TensorFlowChoice) -> Iterator[None]:
    before = builtins.__import__
    builtins.__import__ = _Imports(choice)
    try:
        yield
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
