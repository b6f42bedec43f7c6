"""Answers that would come from random weights: told, and in `predict` refused."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterator

import tensorflow as tf

from estimand.core import old_code, tf_private
from estimand.core.errors import NoCheckpointError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.tracing.built_model import BuiltModel
from estimand.estimator.workspace import Workspace

# Not that of TensorFlow, whose chatter programs switch off.
_log = logging.getLogger("estimand")
_MOST_NAMES = 4
_MOST_NEIGHBOURS = 1000


def has_random_weights(workspace: Workspace, trace: BuiltModel) -> bool:
    """Whether nothing has ever set the variables of a model for which there is no checkpoint."""
    live = workspace.live
    if live.store.only_in_memory or live.saver is not None or starts_elsewhere(workspace):
        return False
    scaffold = trace.spec.scaffold
    if scaffold is not None and scaffold.init_fn is not None:
        return False
    variables = trace.variables.by_name.values()
    if any(tf_private.initializer_set_from_checkpoint(v) is not None for v in variables):
        return False
    foreign = live.store.made_outside()
    return any(v.trainable and id(v) not in foreign for v in trace.variables.saved().values())


def starts_elsewhere(workspace: Workspace) -> bool:
    """Whether the first values are somebody's: a warm start's, or those of a Keras model."""
    return workspace.warm_start is not None or workspace.brings_weights


def nothing_to_evaluate(workspace: Workspace) -> bool:
    """Whether a process that has not trained would evaluate values that nobody has set."""
    return workspace.latest_checkpoint() is None and not starts_elsewhere(workspace)


def refuse_or_warn(workspace: Workspace, trace: BuiltModel, purpose: str, allowed: bool) -> None:
    """Before `purpose`, evaluate or predict, goes on with initial values."""
    if allowed or not has_random_weights(workspace, trace):
        return
    if purpose == "evaluate":
        _log.warning(
            "evaluate: THE MODEL IS NOT TRAINED. %s. The metrics are those of random weights.",
            what_is_there(workspace.model_dir),
        )
        return
    if old_code.expected or workspace.predicts_untrained:
        _log.warning(
            "predict: THE MODEL IS NOT TRAINED. %s. The predictions come from random weights.",
            what_is_there(workspace.model_dir),
        )
        return
    raise NoCheckpointError(
        f"predict: the model is not trained. {what_is_there(workspace.model_dir)}. Call train "
        "first, or give the model_dir of a trained model. To predict with random weights, write "
        "predict(..., untrained=True)."
    )


def what_is_there(model_dir: str) -> str:
    """What a model_dir holds that has no checkpoint, and where one may be meant to be.

    >>> what_is_there("/no/such/place")
    '/no/such/place does not exist'
    """
    return "; ".join([_contents(model_dir), *_near(model_dir)])


def _contents(model_dir: str) -> str:
    names = _listed(model_dir)
    if names is None:
        return f"{_shown(model_dir)} does not exist"
    if not names:
        return f"{_shown(model_dir)} is empty"
    more = ", …" if len(names) > _MOST_NAMES else ""
    return f"{_shown(model_dir)} has no checkpoint, only {', '.join(names[:_MOST_NAMES])}{more}"


def _near(model_dir: str) -> Iterator[str]:
    """Directories inside, and beside it under a similar name, that do have a checkpoint."""
    inside = [os.path.join(model_dir, name) for name in _listed(model_dir) or ()]
    above, own = os.path.split(model_dir.rstrip("/"))
    beside = (_listed(above) or [])[:_MOST_NEIGHBOURS]
    similar = difflib.get_close_matches(own, [n for n in beside if n != own], _MOST_NAMES, 0.7)
    for path in [*inside[:_MOST_NEIGHBOURS], *(os.path.join(above, name) for name in similar)]:
        if tf.io.gfile.exists(os.path.join(path, "checkpoint")):
            newest = checkpoints.latest_checkpoint(path)
            if newest is not None:
                yield f"{_shown(path)} has {os.path.basename(newest)}"


def _listed(folder: str) -> list[str] | None:
    try:
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    except (tf.errors.OpError, OSError):
        return None


def _shown(path: str) -> str:
    """As the user would type it: from here, where it is below."""
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here) or path
