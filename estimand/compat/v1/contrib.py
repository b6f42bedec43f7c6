"""The names of `tf.contrib` that Estimator code used, on what TensorFlow and Estimand have today.

>>> from estimand.compat.v1 import contrib
>>> import estimand
>>> contrib.training.HParams is estimand.HParams
True
>>> contrib.training.python.training.hparam.HParams is estimand.HParams
True
"""

from __future__ import annotations

import importlib.util
from types import ModuleType

from estimand.compat.v1.contrib_importing import ROOT, Contrib, Finder, Part, not_offered
from estimand.compat.v1.contrib_modules.table import MODULES, OF_TF_SLIM

finder = Finder()


def modules(root: str = ROOT) -> dict[str, ModuleType]:
    """All of contrib by full name, to be put into `sys.modules`; the first is contrib itself."""
    made: dict[str, ModuleType] = {root: Contrib(root, {})}
    for path in sorted(MODULES):
        parent = root
        for part in path.split("."):
            child = f"{parent}.{part}"
            if child not in made:
                made[child] = _module(child, child.removeprefix(f"{root}."))
                setattr(made[parent], part, made[child])
            parent = child
    return made


def _module(name: str, path: str) -> Part:
    homes, library = MODULES.get(path, {}), OF_TF_SLIM.get(path)
    if library is None:
        return Part(name, homes)
    if importlib.util.find_spec("tf_slim") is None:
        return Part(name, homes, advice=" The package tf-slim has more: pip install tf-slim.")
    # Slim is what tf_slim is; of the others only what there is not here.
    return Part(name, {} if path.startswith("slim") else homes, library)


def __getattr__(name: str) -> object:
    parts = sorted({path.partition(".")[0] for path in MODULES})
    if name not in parts:
        raise AttributeError(not_offered(name, parts))
    member = getattr(modules()[ROOT], name)
    globals()[name] = member
    return member


def __dir__() -> list[str]:
    return sorted({path.partition(".")[0] for path in MODULES} | {"modules"})
