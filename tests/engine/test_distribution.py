"""The distribution of a process that trains alone: what it says goes, at once."""

from __future__ import annotations

import signal

import pytest
import tensorflow as tf

from estimand.engine.distributed.distribution import Replicated, distribution_of
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.interrupts import Interrupts
from estimand.engine.variables.engine_variable import EngineVariable


def test_alone_everything_is_here() -> None:
    alone = distribution_of(None)
    assert type(alone) is Distribution
    assert (
        alone.leads
        and alone.replicas == 1
        and not alone.is_strategy
        and not alone.variable_maker().are_remote
    )
    assert alone.team.from_chief([3, 4]) == [3, 4] and alone.team.least(None) is None
    variable = alone.variable_maker().make(
        is_local=False, asynchronous=False, initial_value=1.0, name="v"
    )
    assert isinstance(variable, EngineVariable)


def test_wish_to_stop_is_granted_at_once_and_forgotten_by_the_next_run() -> None:
    stop = Stop()
    stop.cast(interrupted=True)
    assert stop.agreed and stop.interrupted
    stop.reset()
    assert not stop.agreed and not stop.interrupted
    go_on = tf.constant(True)
    assert stop.unless_agreed(go_on) is go_on


def test_process_that_others_were_told_to_end_with_ends_as_if_it_had_been_told() -> None:
    stop, interrupts = Stop(), Interrupts()
    stop.interrupted = True
    Distribution().ended(stop, interrupts)
    assert interrupts.received == signal.SIGTERM


def test_error_of_one_process_stays_what_it_is() -> None:
    error = tf.errors.AbortedError(None, None, "no more")
    with pytest.raises(tf.errors.AbortedError), Distribution().lost_processes_named():
        raise error


def test_strategy_on_one_device_makes_variables_its_own_way() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    mirrored = distribution_of(strategy)
    assert isinstance(mirrored, Replicated) and mirrored.is_strategy and mirrored.replicas == 1
    maker = mirrored.variable_maker()
    variable = maker.make(is_local=False, asynchronous=False, initial_value=1.0, name="v")
    assert getattr(variable, "distribute_strategy", None) is strategy
    local = maker.make(is_local=True, asynchronous=False, initial_value=1.0, name="v")
    assert isinstance(local, EngineVariable)
