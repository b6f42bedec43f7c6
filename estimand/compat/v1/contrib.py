"""The names of `tf.contrib` that Estimator code used, on what TensorFlow and Estimand have today.

>>> from estimand.compat.v1 import contrib
>>> import estimand
>>> contrib.training.HParams is estimand.HParams
True
"""

from __future__ import annotations

from types import ModuleType

from estimand.compat.mapped_module import MappedModule
from estimand.compat.v1.contrib_parts.table import MODULES


def modules(root: str = "tensorflow.contrib") -> dict[str, ModuleType]:
    """All of contrib by full name, to be put into `sys.modules`; the first is contrib itself."""
    made: dict[str, ModuleType] = {root: MappedModule(root, {})}
    for path in sorted(MODULES):
        parent = root
        for part in path.split("."):
            child = f"{parent}.{part}"
            if child not in made:
                below = child.removeprefix(f"{root}.")
                made[child] = MappedModule(child, MODULES.get(below, {}))
                setattr(made[parent], part, made[child])
            parent = child
    return made


def __getattr__(name: str) -> object:
    if name not in {path.partition(".")[0] for path in MODULES}:
        raise AttributeError(
            f"tf.contrib.{name} is not offered. Offered are: "
            f"{', '.join(sorted(path for path in MODULES if '.' not in path))}."
        )
    found = getattr(modules()["tensorflow.contrib"], name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({path.partition(".")[0] for path in MODULES} | {"modules"})
