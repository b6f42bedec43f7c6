"""What may be said about a warm start, and how it is understood."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import tensorflow as tf

import estimand as est
from estimand.core.errors import EstimandError, WarmStartError
from estimand.engine.warm_start.apply import WarmStartSettings, normalize


def test_public_names():
    assert est.WarmStartSettings is WarmStartSettings
    assert est.VocabInfo is tf.compat.v1.train.VocabInfo


def test_unpacks_into_the_four_fields_of_upstream():
    path, variables, vocabularies, names = WarmStartSettings("/m", ignore_missing=True)
    assert (path, variables, vocabularies, names) == ("/m", ".*", {}, {})
    assert WarmStartSettings._fields == (
        "ckpt_to_initialize_from",
        "vars_to_warm_start",
        "var_name_to_vocab_info",
        "var_name_to_prev_var_name",
    )


def test_takes_its_fields_in_the_order_of_upstream():
    settings = WarmStartSettings("/m", ["w"], {"w": "info"}, {"w": "v"})
    assert settings.vars_to_warm_start == ["w"]
    assert settings.var_name_to_vocab_info == {"w": "info"}
    assert settings.var_name_to_prev_var_name == {"w": "v"}
    assert settings.ignore_missing is False


@pytest.mark.parametrize("nothing", ["", None, b""])
def test_a_checkpoint_must_be_given(nothing):
    text = "`ckpt_to_initialize_from` MUST be set in WarmStartSettings"
    with pytest.raises(ValueError, match=text) as caught:
        WarmStartSettings(nothing)
    assert isinstance(caught.value, EstimandError)


def test_axis_of_a_vocabulary_is_0_or_1():
    with pytest.raises(
        ValueError, match=r"The only supported values for the axis argument are 0 and 1\."
    ):
        est.VocabInfo("new", 3, 0, "old", axis=2)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_keep_everything(duplicate):
    settings = WarmStartSettings("/m", "dense", None, {"a": "b"}, ignore_missing=True)
    again = duplicate(settings)
    assert again == settings and again.ignore_missing


def test_replace_keeps_and_changes_ignore_missing():
    settings = WarmStartSettings("/m", ignore_missing=True)
    assert settings._replace(vars_to_warm_start="x") == WarmStartSettings(
        "/m", "x", ignore_missing=True
    )
    assert settings._replace(ignore_missing=False) == WarmStartSettings("/m")


def test_equality_minds_ignore_missing():
    assert WarmStartSettings("/m", ignore_missing=True) != WarmStartSettings("/m")
    assert WarmStartSettings("/m") == WarmStartSettings("/m")


def test_repr_is_the_call_without_defaults():
    assert repr(WarmStartSettings("/m")) == "WarmStartSettings('/m')"
    shown = repr(WarmStartSettings("/m", None, None, {"a": "b"}))
    expected = "var_name_to_prev_var_name={'a': 'b'}"
    assert shown == f"WarmStartSettings('/m', vars_to_warm_start=None, {expected})"


# ------------------------------------------------------------------ warm_start_from


def test_none_is_none():
    assert normalize(None) is None


def test_settings_are_kept_as_they_are():
    settings = WarmStartSettings("/m")
    assert normalize(settings) is settings


@pytest.mark.parametrize("path", ["/models/wide", b"/models/wide", Path("/models/wide")])
def test_a_path_of_any_kind(path):
    settings = normalize(path)
    assert settings == WarmStartSettings("/models/wide")
    assert isinstance(settings.ckpt_to_initialize_from, str)


def test_an_empty_path():
    with pytest.raises(WarmStartError, match="`ckpt_to_initialize_from` MUST be set"):
        normalize("")


@pytest.mark.parametrize("wrong", [3, ["/models/wide"], True])
def test_wrong_type(wrong):
    with pytest.raises(ValueError) as caught:
        normalize(wrong)
    assert isinstance(caught.value, EstimandError)
    assert (
        f"warm_start_from must be a string or a WarmStartSettings, instead got {type(wrong)}: "
        in str(caught.value)
    )


def test_a_saved_model_is_recognised_at_once(tmp_path):
    tf.saved_model.save(tf.train.Checkpoint(w=tf.Variable(1.0)), str(tmp_path / "export"))
    settings = normalize(tmp_path / "export")
    variables = tmp_path / "export" / "variables" / "variables"
    assert settings.ckpt_to_initialize_from == str(variables)
