"""What to write in the place of a name that is gone."""

from __future__ import annotations

import difflib

from estimand.compat.removed import replacement
from estimand.migrate.names import Names, follow, is_missing

# Where a name of contrib may have gone, best first.
_PLACES = [
    "layers",
    "nn",
    "train",
    "metrics",
    "losses",
    "data",
    "image",
    "signal",
    "feature_column",
    "estimator",
    "initializers",
    "data.experimental",
    "keras.layers",
]
_FEW = 5


def hint(path: str, names: Names) -> str:
    """What to write instead of a path that is not there; how sure that is, is in the words."""
    below = _plain(path)
    known = replacement(below)
    if known is not None:
        return known
    if below.startswith("contrib."):
        elsewhere = _elsewhere(below.rpartition(".")[2], names)
        if elsewhere is not None:
            return f"perhaps `tf.{elsewhere}`; mind its arguments"
    path = names.first_missing(path)
    last = path.rpartition(".")[2]
    close = difflib.get_close_matches(last, names.siblings(path), _FEW, cutoff=0.75)
    if close:
        return "perhaps " + " or ".join(f"`{name}`" for name in close)
    return "nothing that we know of"


def _elsewhere(name: str, names: Names) -> str | None:
    """A name of contrib, where TensorFlow 1 has it outside of contrib."""
    candidates = [f"{place}.{name}" if place else name for place in ("", *_PLACES)]
    return next(
        (candidate for candidate in candidates if not is_missing(follow(names.tf1, candidate))),
        None,
    )


def _plain(path: str) -> str:
    """Without the root and the name of the face: `tensorflow.compat.v1.a.b` is `a.b`."""
    if path.startswith("keras."):
        return path
    below = path.partition(".")[2]
    for face in ("compat.v1.", "compat.v2.", "python."):
        below = below.removeprefix(face)
    return below
