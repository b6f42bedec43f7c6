"""Ways of writing that run no more, although every name in them is there."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from estimand.compat.detection import imported_packages
from estimand.compat.keras_choice import signs_in_tree
from estimand.migrate.names import Names, follow, is_missing
from estimand.migrate.uses import SourceUses, Target

_KERAS_OPTIMIZER = re.compile(r"(^|\.)keras\.optimizers\.(?!legacy\.|schedules\.)[A-Z]\w*$")
GENERATOR_METHODS = {
    "evaluate_generator": "evaluate",
    "fit_generator": "fit",
    "predict_generator": "predict",
}
_OLD_METHODS = {
    **GENERATOR_METHODS,
    "predict_classes": "predict(...).argmax(-1)",
    "predict_proba": "predict",
}


@dataclass(frozen=True)
class Idiom:
    """Something to be changed: where, what is written there, and what to do."""

    line: int
    text: str
    advice: str


def find_idioms(source_uses: SourceUses, names: Names) -> list[Idiom]:
    """All that is to be changed in a file beside names that are gone.

    >>> from estimand.migrate.uses import find_uses
    >>> source = "import tensorflow as tf\\ntf.keras.optimizers.Adam(lr=0.1)"
    >>> [(one.line, one.text) for one in find_idioms(find_uses(source), Names())]
    [(2, 'Adam(lr=...)')]
    """
    looks: list[Callable[[SourceUses, Names], Iterator[Idiom]]] = [
        _arguments_of_optimizers,
        _compiling,
        _learning_rates,
        _old_methods,
        _tpus,
        _of_keras_2,
        _ends_of_generators,
        _of_pandas,
    ]
    result = [idiom for look in looks for idiom in look(source_uses, names)]
    return sorted(result, key=lambda idiom: idiom.line)


def is_keras_optimizer(target: Target) -> bool:
    """Whether a path is that of an optimizer of `tf.keras.optimizers`, not of `legacy`."""
    return _KERAS_OPTIMIZER.search(target.path) is not None


def _arguments_of_optimizers(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    for call, target in source_uses.callee.items():
        if not _KERAS_OPTIMIZER.search(target.path):
            continue
        known = _parameters(names, target)
        for keyword in call.keywords:
            if keyword.arg is None or not known or keyword.arg in known:
                continue
            text = f"{target.path.rpartition('.')[2]}({keyword.arg}=...)"
            yield Idiom(call.lineno, text, _instead_of_argument(keyword.arg))


def _instead_of_argument(name: str) -> str:
    if name == "lr":
        return "write learning_rate=..."
    if name == "decay":
        return (
            "Keras 3 ignores it; pass a schedule: "
            "learning_rate=tf.keras.optimizers.schedules.InverseTimeDecay("
            "rate, decay_steps=1, decay_rate=decay)"
        )
    return "Keras 3 does not take it: leave it out"


def _parameters(names: Names, target: Target) -> frozenset[str]:
    path = target.path
    root, _, below = path.partition(".")
    value = follow(names.tf2, below) if root == "tensorflow" else _of_keras(below)
    return frozenset() if is_missing(value) else _signature(value)


def _of_keras(below: str) -> Any:
    import keras

    return follow(keras, below)


@functools.cache
def _signature(value: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(value.__init__).parameters)
    except (AttributeError, TypeError, ValueError):
        return frozenset()


def _compiling(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    """Keras 3 has no tensors to be the targets."""
    del names
    for call in _method_calls(source_uses, "compile"):
        if any(keyword.arg == "target_tensors" for keyword in call.keywords):
            yield Idiom(
                call.lineno,
                "compile(target_tensors=...)",
                "leave it out: give labels to fit, or return them from input_fn",
            )


def _learning_rates(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    del names
    for node in learning_rates(source_uses):
        lr = node.attr == "lr"
        advice = "write .learning_rate" if lr else "Keras 3 has schedules instead"
        yield Idiom(node.lineno, ast.unparse(node), advice)


def learning_rates(source_uses: SourceUses) -> Iterator[ast.Attribute]:
    """Where `lr` or `decay` of an optimizer of Keras is read or set."""
    for node in ast.walk(source_uses.tree):
        if not isinstance(node, ast.Attribute) or node.attr not in ("lr", "decay"):
            continue
        owner = node.value
        made = source_uses.made_by.get(owner.id) if isinstance(owner, ast.Name) else None
        of_a_model = isinstance(owner, ast.Attribute) and owner.attr == "optimizer"
        if of_a_model or (made is not None and is_keras_optimizer(made)):
            yield node


def _old_methods(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    del names
    if not any("keras" in path.split(".") for path in source_uses.paths):
        return
    for name, instead in _OLD_METHODS.items():
        for call in _method_calls(source_uses, name):
            yield Idiom(call.lineno, f".{name}(...)", f"write .{instead}")


def _of_keras_2(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    """What Keras 2 runs as it is; not again what has an advice of its own."""
    del names
    if not any("keras" in path.split(".") for path in source_uses.paths):
        return
    told = ("(lr=...)", "(target_tensors=...)", *(f".{name}" for name in _OLD_METHODS))
    for sign in signs_in_tree(source_uses.tree):
        if not sign.text.endswith(told):
            advice = "Keras 3 lacks it: run it with Keras 2 (estimand run --keras=2)"
            yield Idiom(sign.line, sign.text, advice)


def _tpus(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    del names
    for call in source_uses.callee:
        for keyword in call.keywords:
            is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            if keyword.arg == "use_tpu" and is_true:
                yield Idiom(
                    call.lineno,
                    "use_tpu=True",
                    "write use_tpu=False: TPUEstimator runs here on CPU and GPU",
                )


def _ends_of_generators(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    """A generator that raises StopIteration, or raises again what it has caught of that kind."""
    del names
    for function in ast.walk(source_uses.tree):
        inside = list(_of_this_function(function))
        if not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
            continue
        for line in {line for node in inside for line in _raised_stops(node)}:
            yield Idiom(
                line,
                "raise StopIteration",
                "in a generator Python makes a RuntimeError of it: write return",
            )


def _of_this_function(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside of it."""
    if not isinstance(function, ast.FunctionDef):
        return
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _raised_stops(node: ast.AST) -> Iterator[int]:
    stop = "StopIteration"
    if isinstance(node, ast.Raise) and node.exc is not None and stop in ast.unparse(node.exc):
        yield node.lineno
    if isinstance(node, ast.ExceptHandler) and node.type and stop in ast.unparse(node.type):
        again = (n for n in node.body if isinstance(n, ast.Raise) and n.exc is None)
        yield from (node.lineno for node in again)


def _of_pandas(source_uses: SourceUses, names: Names) -> Iterator[Idiom]:
    del names
    for call in matrices_of_pandas(source_uses):
        yield Idiom(call.lineno, ".as_matrix(...)", "pandas has dropped it: write .to_numpy()")


def matrices_of_pandas(source_uses: SourceUses) -> list[ast.Call]:
    """Calls of `as_matrix` in a file that imports pandas."""
    if "pandas" not in imported_packages(ast.unparse(source_uses.tree)):
        return []
    return list(_method_calls(source_uses, "as_matrix"))


def _method_calls(source_uses: SourceUses, name: str) -> Iterator[ast.Call]:
    """Calls of a method of something that is no module of TensorFlow."""
    for node in ast.walk(source_uses.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == name
            and node not in source_uses.callee
        ):
            yield node
