"""Modules that TensorFlow's import brings along and few programs use, loaded when they are used.

`import tensorflow` imports all of Keras, and its wrappers import scikit-learn and most of SciPy
where these are installed: a fifth of the time. In a process that is ours (the command line, the
server, workers) they wait until somebody asks for something in them, as `importlib.util.LazyLoader`
has it: the modules are there, under their names, and load themselves. (pandas does not wait: it
would save 0.3 s at best, for the private name of a module of Keras.)

`python -m estimand.core.interpreter.postponed MODULE ARGUMENTS...` is `python -m MODULE ...` so.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType

# Not scikit-learn itself: the wrappers look at its version as soon as they are loaded.
_POSTPONED = frozenset({"keras.wrappers", "keras._tf_keras.keras.wrappers"})


class _Postponing:
    """Finds modules as others do, and has them loaded later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _POSTPONED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = importlib.util.LazyLoader(spec.loader)  # type: ignore[arg-type]
        return spec


def postpone() -> None:
    """From now on, until they are used; nothing where TensorFlow has been imported already."""
    if "tensorflow" in sys.modules or any(isinstance(f, _Postponing) for f in sys.meta_path):
        return
    sys.meta_path.insert(0, _Postponing())  # type: ignore[arg-type]


if __name__ == "__main__":
    postpone()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
