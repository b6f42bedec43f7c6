from __future__ import annotations

import copy
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import SpecError, SpecTypeError
from estimand.core.spec import EvalSpec, TrainSpec


def input_fn():
    return None


def exporter(name):
    return SimpleNamespace(name=name, export=lambda *args: None)


both = pytest.mark.parametrize("spec_type", [TrainSpec, EvalSpec])


def test_train_spec_defaults():
    assert TrainSpec(input_fn) == (input_fn, None, (), ())
    assert TrainSpec._fields == ("input_fn", "max_steps", "hooks", "saving_listeners")


def test_eval_spec_defaults():
    assert EvalSpec(input_fn)._asdict() == {
        "input_fn": input_fn,
        "steps": 100,
        "name": None,
        "hooks": (),
        "exporters": (),
        "start_delay_secs": 120,
        "throttle_secs": 600,
        "every_n_steps": None,
        "every_n_secs": None,
    }


def test_our_own_fields_of_eval_spec_go_by_name_only():
    with pytest.raises(TypeError):
        EvalSpec(input_fn, 1, None, None, None, 0, 0, 5)


@both
def test_input_fn_must_be_callable(spec_type):
    with pytest.raises(SpecTypeError, match="`input_fn` must be callable, given: 1"):
        spec_type(1)


@both
def test_hooks_must_be_session_run_hooks(spec_type):
    sentence = "All hooks must be `SessionRunHook` instances, given: a"
    with pytest.raises(SpecTypeError, match=sentence):
        spec_type(input_fn, hooks=["a"])


@both
def test_hooks_become_a_tuple(spec_type):
    hook = tf.compat.v1.train.SessionRunHook()
    assert spec_type(input_fn, hooks=[hook]).hooks == (hook,)


def test_listeners():
    listener = tf.compat.v1.train.CheckpointSaverListener()
    assert TrainSpec(input_fn, saving_listeners=[listener]).saving_listeners == (listener,)
    sentence = "All saving_listeners must be `CheckpointSaverListener` instances, given: a"
    with pytest.raises(SpecTypeError, match=sentence):
        TrainSpec(input_fn, saving_listeners=["a"])


@pytest.mark.parametrize(("given", "taken"), [(4.5, 5), (1e4, 10_000), (np.int64(3), 3)])
def test_a_fraction_of_steps_counts_as_one_more_step(given, taken):
    assert repr(TrainSpec(input_fn, max_steps=given).max_steps) == repr(taken)
    assert repr(EvalSpec(input_fn, steps=given).steps) == repr(taken)


@pytest.mark.parametrize("fields", [{"every_n_steps": "5"}, {"steps": [5]}, {"throttle_secs": "1"}])
def test_what_is_no_number_of_steps_or_seconds_is_named(fields):
    (name,) = fields
    with pytest.raises(SpecTypeError, match=f"Must specify {name} as a number, given: "):
        EvalSpec(input_fn, **fields)


@pytest.mark.parametrize("max_steps", [0, -1])
def test_max_steps_must_be_positive(max_steps):
    with pytest.raises(SpecError, match=f"Must specify max_steps > 0, given: {max_steps}"):
        TrainSpec(input_fn, max_steps=max_steps)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"steps": 0}, "Must specify steps > 0, given: 0"),
        ({"start_delay_secs": -1}, "Must specify start_delay_secs >= 0, given: -1"),
        ({"throttle_secs": -1}, "Must specify throttle_secs >= 0, given: -1"),
        ({"every_n_steps": 0}, "Must specify every_n_steps > 0, given: 0"),
        ({"every_n_secs": 0}, "Must specify every_n_secs > 0, given: 0"),
        ({"every_n_steps": 1.5}, "every_n_steps as a whole number of steps, given: 1.5"),
        ({"steps": float("inf")}, "Must specify steps as a finite number, given: inf"),
        ({"every_n_secs": float("nan")}, "every_n_secs as a finite number, given: nan"),
        (
            {"exporters": [exporter("a"), exporter("a")]},
            "`exporters` must have unique names. Such a name cannot be `None`. "
            "All exporter names: ['a', 'a']",
        ),
        (
            {"exporters": [exporter("")]},
            "An Exporter cannot have a name that is `None` or empty. All exporter names: ['']",
        ),
        (
            {"exporters": exporter(None)},
            "An Exporter cannot have a name that is `None` or empty. All exporter names: [None]",
        ),
        (
            {"exporters": [exporter(3)]},
            "An Exporter must have a string name. Given: <class 'int'>",
        ),
        (
            {"exporters": [exporter("../../outside")]},
            "The exporter name '../../outside' leads out of model_dir/export. Give a plain name.",
        ),
    ],
)
def test_eval_spec_with_wrong_values(fields, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        EvalSpec(input_fn, **fields)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": 3}, "`name` must be string, given: 3"),
        (
            {"exporters": 3},
            "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found 3.",
        ),
        ({"exporters": ["a"]}, "`exporters` must be an Exporter, an iterable of Exporter"),
    ],
)
def test_eval_spec_with_wrong_types(fields, sentence):
    with pytest.raises(SpecTypeError, match=re.escape(sentence)):
        EvalSpec(input_fn, **fields)


def test_a_single_exporter():
    one = exporter("a")
    assert EvalSpec(input_fn, exporters=one).exporters == (one,)


def test_several_exporters_keep_their_order():
    many = [exporter("b"), exporter("a")]
    assert EvalSpec(input_fn, exporters=iter(many)).exporters == tuple(many)


@pytest.mark.parametrize("spec_type", [TrainSpec, EvalSpec])
def test_replace_checks_again(spec_type):
    spec = spec_type(input_fn)
    assert spec._replace(hooks=None) == spec
    with pytest.raises(SpecTypeError, match="`input_fn` must be callable"):
        spec._replace(input_fn=1)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("spec", [TrainSpec(len, 5), EvalSpec(len, every_n_steps=5)])
def test_copies(copied, spec):
    assert copied(spec) == spec
    assert type(copied(spec)) is type(spec)
