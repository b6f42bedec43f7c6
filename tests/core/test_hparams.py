from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimand.core.errors import ConfigError
from estimand.core.hparams import HParams


@pytest.fixture
def hparams():
    return HParams(a=1, rate=0.5, name="net", on=True, units=[4, 2])


def test_values_are_attributes(hparams):
    assert hparams.units == [4, 2]
    assert hparams.values() == {"a": 1, "rate": 0.5, "name": "net", "on": True, "units": [4, 2]}


def test_in_and_get(hparams):
    assert "a" in hparams and "b" not in hparams
    assert hparams.get("a") == 1 and hparams.get("b") is None and hparams.get("b", 7) == 7


def test_parse_converts_to_each_type(hparams):
    result = hparams.parse("a=3, rate=1e-3,name=wide,on=false,units=[8,7,6]")
    assert result is hparams
    assert hparams.values() == {
        "a": 3,
        "rate": 1e-3,
        "name": "wide",
        "on": False,
        "units": [8, 7, 6],
    }


def test_parse_of_nothing_changes_nothing(hparams):
    assert hparams.parse("").a == 1


def test_parse_of_a_list_index(hparams):
    assert hparams.parse("units[1]=9").units == [4, 9]


def test_parse_of_a_negative_number(hparams):
    assert hparams.parse("a=-3").a == -3


@pytest.mark.parametrize("word", ["true", "True", "1"])
def test_parse_of_true(hparams, word):
    assert hparams.parse(f"on={word}").on is True


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("b=1", "Unknown hyperparameter type for b"),
        ("a=1,a=2", "Multiple assignments to variable 'a'"),
        ("a=x", "Could not parse hparam 'a' of type 'int' with value 'x'"),
        ("on=maybe", "Could not parse hparam 'on' of type 'bool'"),
        ("a=[1,2]", "Must not pass a list for single-valued parameter: a"),
        ("units=1", "Must pass a list for multi-valued parameter: units"),
        ("a[0]=1", "Cannot index single-valued parameter a"),
        ("units[5]=1", r"units\[5\] does not exist: units has 2 values"),
        ("just text", "Malformed hyperparameter value: 'just text'"),
    ],
)
def test_parse_of_wrong_text_says_what_is_wrong(hparams, text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        hparams.parse(text)


def test_parse_with_a_mistake_changes_nothing(hparams):
    with pytest.raises(ConfigError):
        hparams.parse("a=5,nothing=1")
    assert hparams.a == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", 1.5), ("a", True), ("a", "3"), ("a", None), ("on", 1), ("name", 3), ("rate", "0.1")],
)
def test_setting_another_type_is_refused(hparams, name, value):
    with pytest.raises(ValueError, match=f"Could not cast hparam '{name}'"):
        hparams.set_hparam(name, value)


def test_setting_converts_what_keeps_its_meaning(hparams):
    hparams.set_hparam("rate", 2)
    hparams.set_hparam("a", np.int64(5))
    assert (hparams.rate, type(hparams.rate)) == (2.0, float)
    assert (hparams.a, type(hparams.a)) == (5, int)


def test_setting_an_unknown_name_is_a_key_error_and_a_value_error(hparams):
    with pytest.raises(KeyError) as caught:
        hparams.set_hparam("b", 1)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith("Unknown hyperparameter type for b. Known")


def test_a_first_value_of_none_takes_anything():
    hparams = HParams(x=None)
    hparams.set_hparam("x", 3)
    hparams.set_hparam("x", "text")
    assert hparams.x == "text"


@pytest.mark.parametrize("name", ["a", "values", "parse"])
def test_adding_a_taken_name_is_refused(hparams, name):
    with pytest.raises(ConfigError, match=f"Hyperparameter name is reserved: {name}"):
        hparams.add_hparam(name, 1)


def test_adding_an_empty_list_is_refused():
    with pytest.raises(ConfigError, match="Multi-valued hyperparameters cannot be empty: x"):
        HParams(x=[])


def test_deleting(hparams):
    hparams.del_hparam("a")
    assert "a" not in hparams and not hasattr(hparams, "a")


def test_json_round_trip(hparams):
    text = hparams.to_json(sort_keys=True)
    assert json.loads(text) == hparams.values()
    assert HParams(a=0, rate=0.0, name="", on=False, units=[0]).parse_json(text).values() == (
        hparams.values()
    )


def test_assigned_attributes_show_in_values(hparams):
    hparams.a = 10
    assert hparams.values()["a"] == 10


def test_repr_is_the_call_that_makes_it(hparams):
    assert eval(repr(hparams)).values() == hparams.values()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_independent(hparams, copied):
    other = copied(hparams)
    other.set_hparam("a", 2)
    other.units[0] = 100
    assert (hparams.a, hparams.units) == (1, [4, 2])


@given(st.lists(st.integers(), min_size=1), st.floats(allow_nan=False), st.booleans())
def test_what_is_written_is_parsed_back(units, rate, on):
    hparams = HParams(units=[0], rate=0.0, on=not on)
    hparams.parse(f"units={units},rate={rate!r},on={on}")
    assert hparams.values() == {"units": units, "rate": rate, "on": on}
