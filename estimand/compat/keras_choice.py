"""Which Keras a program is to get as `tf.keras`: 3, or 2 (`tf_keras`) if it is written for that.

TensorFlow decides when `tf.keras` is first used, by the variable TF_USE_LEGACY_KERAS.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from estimand.compat import detection
from estimand.compat.program_files import program_files
from estimand.core.errors import ConfigError

_log = logging.getLogger("estimand")
VARIABLE = "TF_USE_LEGACY_KERAS"
_PIP = "pip install 'estimand[keras2]'"
# What only Keras 2 has: methods and attributes of models, layers and optimizers, ...
_MEMBERS = {"get_updates_for", "get_updates", "fit_generator", "predict_classes"}
# ... names below `keras`, ...
_NAMES = {
    "backend.get_session", "backend.learning_phase", "backend.set_learning_phase",
    "backend.set_session", "experimental.export_saved_model", "layers.CuDNNGRU",
    "layers.CuDNNLSTM", "layers.LocallyConnected1D", "layers.LocallyConnected2D",
    "layers.ThresholdedReLU", "utils.multi_gpu_model", "wrappers.scikit_learn",
}  # fmt: skip
# ... and arguments, with what they are arguments of.
_ARGUMENTS = {
    "lr": "optimizer",
    "decay": "optimizer",
    "target_tensors": "compile",
    "save_format": "save",
}
_OPTIMIZERS = {"Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop", "SGD"}


class Sign(NamedTuple):
    """What tells that a program is written for Keras 2."""

    line: int
    text: str


def signs_of_keras_2(source: str) -> list[Sign]:
    """What of a program only Keras 2 can run, by line.

    >>> signs_of_keras_2("from tensorflow import keras\\nkeras.optimizers.SGD(lr=0.1)")
    [Sign(line=2, text='SGD(lr=...)')]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    if "keras" not in source:
        return []
    return [*signs_in_tree(tree), *_signs_of_its_tensorflow(source)]


def _signs_of_its_tensorflow(source: str) -> Iterator[Sign]:
    """Where there was `tf.contrib`, `tf.keras` was Keras 2."""
    names = detection.names_of_tensorflow(source)
    if any(name.startswith("keras") for name in names) and detection.asks_for_contrib(source):
        line = next(n for n, text in enumerate(source.splitlines(), 1) if "contrib" in text)
        yield Sign(line, "tf.contrib beside tf.keras")


def signs_in_tree(tree: ast.AST) -> list[Sign]:
    """The same of a program that is parsed already, and uses Keras."""
    return sorted(set(_signs(tree)))


def _signs(tree: ast.AST) -> Iterator[Sign]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            for name in (module, *names):
                if name.split(".")[0] == "tf_keras" or name.startswith("tensorflow.python.keras"):
                    yield Sign(node.lineno, f"import {name}")
        elif isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            if node.attr in _MEMBERS:
                yield Sign(node.lineno, f".{node.attr}")
            yield from (
                Sign(node.lineno, f"keras.{name}")
                for name in _NAMES
                if path.endswith((f"keras.{name}", f"K.{name.removeprefix('backend.')}"))
            )
        elif isinstance(node, ast.Call):
            yield from _signs_in_call(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "iterations":
                    yield Sign(node.lineno, f"{ast.unparse(target)} = ...")


def _signs_in_call(call: ast.Call) -> Iterator[Sign]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    first = call.args[0] if call.args else None
    if name == "add_weight" and isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield Sign(call.lineno, "add_weight('name', ...)")
    kind = "optimizer" if name in _OPTIMIZERS else name
    for keyword in call.keywords:
        if keyword.arg is not None and _ARGUMENTS.get(keyword.arg) == kind:
            yield Sign(call.lineno, f"{name}({keyword.arg}=...)")


def signs_in_program(
    path: str | os.PathLike[str], directory: str | None = None
) -> list[tuple[str, Sign]]:
    """The same of a script and of the modules beside it, or in `directory`, that it imports."""
    return [
        (file, sign)
        for file, source in program_files(path, directory).items()
        for sign in signs_of_keras_2(source)
    ]


def choose(asked: int | None, script: str | None, directory: str | None = None) -> None:
    """Set `tf.keras` to the Keras that was asked for, or that a script is found to need.

    Says in one line what it has chosen, and why; nothing if it is Keras 3 as always.
    """
    if asked not in (None, 2, 3):
        raise ConfigError(f"keras={asked!r}: there are Keras 2 and Keras 3. Give 2, 3 or None.")
    if asked is None and VARIABLE in os.environ:
        return  # the user has chosen
    signs = signs_in_program(script, directory) if asked is None and script else []
    if asked != 2 and not signs:
        if asked == 3 and os.environ.pop(VARIABLE, None) is not None:
            _refuse_if_late("keras")
        return
    where = "" if asked else "{0}, line {1.line}: {1.text}".format(*signs[0])
    if importlib.util.find_spec("tf_keras") is None:
        if asked:
            raise ConfigError(f"Keras 2 was asked for, and is not installed: {_PIP}")
        _log.warning("Written for Keras 2 (%s), which is not installed: %s", where, _PIP)
        return
    _refuse_if_late("tf_keras")
    os.environ[VARIABLE] = "1"
    if not asked:
        _log.warning("Keras 2 (tf_keras) for this program, because of %s.", where)


def _refuse_if_late(wanted: str) -> None:
    """`tf.keras` stays what it was when it was first used."""
    tensorflow = sys.modules.get("tensorflow")
    loader = None if tensorflow is None else vars(tensorflow).get("keras")
    if loader is None:
        return
    name = vars(loader).get("__name__", "")
    if getattr(loader, "_tfll_initialized", True) and not str(name).startswith(wanted):
        raise ConfigError(
            f"tf.keras is in use already as {name}, and cannot become {wanted} any more. Choose "
            f"first: estimand.install(keras=...) before anything else, or the variable {VARIABLE}."
        )
