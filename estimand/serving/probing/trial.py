"""What a probe does with a version: all that the server will do with it, and one request more."""

from __future__ import annotations

import asyncio
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from estimand.serving.flags import Flags
from estimand.serving.probing.verdicts import Verdict

_MOST_RECORDS = 8  # of its warm-up
_MOST_VALUES = 2**22  # of one input


def run(
    flags: Flags, platform: str, path: str, single_threaded: bool, limit: int
) -> Verdict | None:
    """How it went, with at most `limit` more bytes; None for an error that the load will tell."""
    import tensorflow as tf

    from estimand.core import lines_of_old, tf_private

    if not lines_of_old.is_verbose():
        tf_private.look_for_devices_quietly()
    logging.getLogger("estimand.serving").setLevel(logging.CRITICAL)  # the server will say it
    try:
        return Verdict(single_threaded=_try(flags, platform, path, single_threaded))
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        lines = str(getattr(error, "message", error)).splitlines()
        why = next((line for line in lines if "OOM" in line), "out of memory")
        text = f"ran out of the {limit / 2**20:,.0f} MB that it might have ({why})"
        return Verdict(code="RESOURCE_EXHAUSTED", text=text)
    except Exception:
        return None


def _try(flags: Flags, platform: str, path: str, single_threaded: bool) -> bool:
    from estimand.serving.models.loader import ServableLoader, own_batching_parameters

    servable = ServableLoader(flags).open(platform, path, single_threaded)
    servable.prepare()
    own_batching_parameters(flags, path)
    if flags.enable_model_warmup:
        asyncio.run(_warm_up(servable, path))
    for signature in servable.signatures.values():
        _ask(servable, signature)
    return getattr(servable, "single_threaded", True)


async def _warm_up(servable: Any, path: str) -> None:
    from estimand.serving.batching.batches import BatchSettings
    from estimand.serving.batching.lane import Waiting
    from estimand.serving.inference import warmup
    from estimand.serving.models.loaded_version import LoadedVersion, Running

    records = warmup.read(path)
    with ThreadPoolExecutor(1) as pool:
        running = Running(pool, pool, Waiting(len(records)), BatchSettings(max_rows=1))
        version = LoadedVersion("probe", 0, servable, running, running.batches)
        await warmup.replay(version, records[:_MOST_RECORDS], 1)


def _ask(servable: Any, signature: Any) -> None:
    """One request of ones. An error is an answer: only what the process does not survive counts."""
    import tensorflow as tf

    inputs, outputs = tuple(signature.inputs.values()), tuple(signature.outputs.values())
    arrays = [_sample(slot) for slot in inputs]
    known = [array for array in arrays if array is not None]
    if len(known) < len(inputs) or not outputs:
        return
    if len(inputs) == 1 and inputs[0].kind == np.dtype(object):
        known = [_examples(servable, known[0])]
    try:
        servable.program(inputs, outputs).run(known)
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise
    except Exception:
        return


def _sample(slot: Any) -> np.ndarray | None:
    if slot.shape is None or slot.kind is None:
        return None
    shape = tuple(1 if size < 0 else size for size in slot.shape)
    if math.prod(shape) > _MOST_VALUES:
        return None
    if slot.kind.hasobject:
        return np.full(shape, b"1", object)
    return np.ones(shape, slot.kind)


def _examples(servable: Any, texts: np.ndarray) -> np.ndarray:
    """In the place of texts, tf.Examples with what the graph looks for, if it does."""
    from estimand.serving.inference.sample_requests import sample_example

    graph = getattr(servable, "graph", None)
    example = None if graph is None else sample_example(graph)
    return texts if example is None else np.full(texts.shape, example, object)
