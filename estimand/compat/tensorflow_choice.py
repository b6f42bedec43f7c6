"""Which TensorFlow a file was written for: all of a program, or of a package, for the same one.

A file that uses no name of TensorFlow 1 alone may still mean it: `tf.nn.dropout(x, 0.9)` keeps
nine of ten there, and drops them in TensorFlow 2. So the files around it decide.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from pathlib import Path

from estimand.compat import detection
from estimand.compat.program_files import package_folder, package_of, program_files

_log = logging.getLogger("estimand")
# How files come by a TensorFlow whose version they do not name.
_PLAIN_IMPORT = re.compile(r"^\s*(import tensorflow\b(?!\.)|from tensorflow import)", re.MULTILINE)
_ASKS_FOR_VERSION = re.compile(r"__version__|\bVERSION\b")
_MOST_FILES = 500


class TensorFlowChoice:
    """TensorFlow 1 or 2 for each file.

    Args:
        path: the program.
        directory: its files are those below it.
        v1: TensorFlow 1 for all files of the program, or for none; None decides by their names.
    """

    def __init__(self, path: str, directory: str, v1: bool | None) -> None:
        self._directory = directory + os.sep
        self._v1 = v1
        self._decided: dict[str, bool] = {}
        self._names_of_program: list[str] = []
        self._package = package_of(Path(path).resolve())
        sources = list(program_files(path, directory).values())
        first, names = _first_that_wants_v1(sources)
        if not names and not any(map(_only_in_v2, sources)):
            names = _names_of_packages(sources)  # a program that leaves TensorFlow to a package
        self._has_keras = any("keras" in source for source in sources)
        self._note_program_of_v1(first, names if v1 is None else ["--v1"] if v1 else [])

    def is_v1(self, path: str) -> bool:
        """Whether `import tensorflow` gives TensorFlow 1 to this file."""
        path = os.path.abspath(path)
        if path not in self._decided:
            names = self._names_that_decide(path)
            if names:
                _log.info("TensorFlow 1 for %s, because of %s.", path, ", ".join(names[:3]))
            self._decided[path] = bool(names)
        return self._decided[path]

    def is_of_program(self, path: str) -> bool:
        """Whether a file lies below the program's directory, and not among installed packages."""
        path = os.path.abspath(path)
        return path.startswith(self._directory) and "site-packages" not in path

    def is_for_either(self, path: str) -> bool:
        """Whether a file asks for the version, and nothing of its package shows TensorFlow 1.

        Libraries that lie beside the program get the TensorFlow of the program, too; told that it
        is version 1, they would refuse it.
        """
        package = package_of(Path(path))
        asks = _ASKS_FOR_VERSION.search(_read(Path(path)))
        return package is not None and bool(asks) and not _has_names_of_v1(package)

    def _names_that_decide(self, path: str) -> list[str]:
        own = path.startswith(self._directory)
        if own and self._v1 is not None:
            return self._names_of_program
        source = _read(Path(path))
        names = _only_in_v1(source)
        part = own or (self._package is not None and self._package in Path(path).parents)
        if part and self._names_of_program and "keras" in source:
            _give_keras_plain_shapes()  # in a module that is imported by its name, as a string
        if own:
            self._note_program_of_v1(source, names)  # one that it finds in a way not seen before
        if names or _only_in_v2(source):
            return names
        return self._names_of_program if own else _names_of_package(package_of(Path(path)))

    def _note_program_of_v1(self, source: str, names: list[str]) -> None:
        """If these names show that it is one."""
        if names and not self._names_of_program:
            self._names_of_program = names
            _behave_like_v1(source, self._has_keras or "keras" in source)


def _first_that_wants_v1(sources: list[str]) -> tuple[str, list[str]]:
    """The source, and what shows it; else the program itself, and nothing."""
    for source in sources:
        if names := _only_in_v1(source):
            return source, names
    return (sources[0] if sources else ""), []


def _names_of_packages(sources: list[str]) -> list[str]:
    """What shows that one of the packages which a program imports is written for TensorFlow 1."""
    imported = {name for source in sources for name in detection.imported_packages(source)}
    for name in sorted(imported - sys.stdlib_module_names):
        if names := _names_of_package(package_folder(name)):
            return names
    return []


@functools.cache
def _names_of_package(folder: Path | None) -> list[str]:
    """What shows that a package is written for TensorFlow 1: names in most of its files."""
    if folder is None:
        return []
    sources = [_read(file) for file in sorted(folder.rglob("*.py"))[:_MOST_FILES]]
    names_of_each = [_only_in_v1(source) for source in sources if _PLAIN_IMPORT.search(source)]
    wanting = [names for names in names_of_each if names]
    return wanting[0] if 2 * len(wanting) > len(names_of_each) else []


@functools.cache
def _has_names_of_v1(folder: Path) -> bool:
    files = sorted(folder.rglob("*.py"))[:_MOST_FILES]
    return any(_only_in_v1(_read(file)) for file in files)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _only_in_v1(source: str) -> list[str]:
    import tensorflow as tf2

    from estimand.compat.v1.view import tf as tf1

    return detection.only_names_of(tf1, tf2, source)


def _only_in_v2(source: str) -> list[str]:
    import tensorflow as tf2

    from estimand.compat.v1.view import tf as tf1

    return detection.only_names_of(tf2, tf1, source)


def _behave_like_v1(source: str, has_keras: bool) -> None:
    """Graphs and sessions are the default, sizes have a `.value`."""
    import tensorflow as tf

    from estimand.core import tf_private

    if detection.trains_with_keras(source):
        return  # which Keras 3 does eagerly only; model functions have their graphs in any case
    with tf_private.without_deprecations():
        tf.compat.v1.disable_v2_behavior()
    if has_keras:
        _give_keras_plain_shapes()


def _give_keras_plain_shapes() -> None:
    """Keras 3 computes with shapes as plain numbers."""
    import tensorflow as tf

    tf.compat.v1.enable_v2_tensorshape()
