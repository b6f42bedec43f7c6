"""Where the input of a training call begins: at its start, or where the last call was stopped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.engine import checkpoints
from estimand.engine.distributed.lookahead import LookaheadFeeder
from estimand.engine.feeding import Feeder, InputPosition
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("tensorflow")


def feeder_at(
    where: Mapping[str, Any] | None, given: ModelInput, latest: str | None, replicas: int, stop: Any
) -> Feeder:
    """A feeder that goes on at the noted place; None is the start of the input."""
    if where is None or where.get("kind") == "start":
        return _from_the_start(given, replicas, stop)
    batches = int(where.get("batches", 0))
    companion = checkpoints.companion_prefix(latest) if latest else None
    if where.get("kind") == "iterator" and companion is not None:
        feeder = _from_the_start(given, replicas, stop)
        try:
            InputPosition.restore(feeder, companion)
            feeder.batches = batches // replicas
            return feeder
        except InputError as error:
            _log.warning("%s Skipping %d batches by counting instead.", error, batches)
    feeder = _from_the_start(given, replicas, stop, skip=batches)
    if feeder.size is not None:
        feeder.size += batches // replicas
    feeder.batches = batches // replicas
    return feeder


def _from_the_start(given: ModelInput, replicas: int, stop: Any, skip: int = 0) -> Feeder:
    dataset = given.dataset.skip(skip) if skip else given.dataset
    options: dict[str, Any] = {"keep_alive": given, "replicas": replicas}
    if stop is not None and dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY:
        return LookaheadFeeder(dataset, given.unpack, stop=stop, **options)
    return Feeder(dataset, given.unpack, **options)
