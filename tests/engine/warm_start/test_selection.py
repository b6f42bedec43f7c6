"""Which variables a warm start takes, and what it says if it cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import EstimandError, WarmStartError
from estimand.engine.variables.store import VariableStore
from estimand.engine.warm_start import apply as ws

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
STORED = {
    "dense/kernel": KERNEL,
    "dense/bias": np.array([7, 8, 9], np.float32),
    "dense/kernel/Adam": KERNEL * 10,
    "bn/moving_mean": np.array([0.5], np.float32),
    "global_step": np.array(120, np.int64),
}
TRAINABLE = ["dense/kernel", "dense/bias"]


def write_checkpoint(prefix: Path, tensors: dict[str, np.ndarray]) -> str:
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(t) for t in tensors.values()],
    )
    return str(prefix)


def zeros(like: dict[str, np.ndarray]) -> dict[str, tf.Variable]:
    return {n: tf.Variable(np.zeros_like(v), name=n) for n, v in like.items()}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return write_checkpoint(tmp_path / "model.ckpt-120", STORED)


@pytest.fixture
def model() -> dict[str, tf.Variable]:
    return zeros(STORED)


def filled(variables: dict[str, tf.Variable]) -> list[str]:
    return [n for n, v in variables.items() if np.any(v.numpy())]


def check_equal(variables: dict[str, tf.Variable], expected: dict[str, np.ndarray]) -> None:
    assert expected
    for name, value in expected.items():
        np.testing.assert_array_equal(variables[name].numpy(), value)


# ------------------------------------------------------------------ which variables


def test_path_alone_takes_trainable_variables_only(checkpoint, model):
    report = ws.warm_start(ws.normalize(checkpoint), model, TRAINABLE)
    assert filled(model) == TRAINABLE
    check_equal(model, {n: STORED[n] for n in TRAINABLE})
    assert report.taken == TRAINABLE
    assert report.untouched == ["dense/kernel/Adam", "bn/moving_mean", "global_step"]
    assert report.checkpoint == checkpoint


def test_list_takes_slots_moving_averages_and_global_step(checkpoint, model):
    report = ws.warm_start(ws.WarmStartSettings(checkpoint, [".*"]), model, TRAINABLE)
    check_equal(model, STORED)
    assert model["global_step"].dtype == tf.int64
    assert report.taken == list(STORED) and not report.untouched


# The patterns and what they took in tf.estimator 2.15; names there end in ":0".
@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("dense/k", ["dense/kernel"]),
        ("kernel", []),
        (".*kernel", ["dense/kernel"]),
        ("dense/kernel:0$", ["dense/kernel"]),
        ("(?!dense/kernel:0)", ["dense/bias"]),
        ("bn", []),
        ("", []),
        (["dense/kernel"], ["dense/kernel", "dense/kernel/Adam"]),
        (["dense/kernel[^/]"], ["dense/kernel"]),
        (["bn", "global_step", "bn"], ["bn/moving_mean", "global_step"]),
        ([], []),
    ],
)
def test_patterns_match_at_the_start_of_graph_names(checkpoint, model, pattern, taken):
    ws.warm_start(ws.WarmStartSettings(checkpoint, pattern), model, TRAINABLE)
    assert filled(model) == taken


def test_pattern_may_end_in_dollar_without_the_output_number(checkpoint, model):
    ws.warm_start(ws.WarmStartSettings(checkpoint, ["dense/kernel$"]), model, TRAINABLE)
    assert filled(model) == ["dense/kernel"]


def test_list_of_variables(checkpoint, model):
    wanted = [model["dense/bias"], model["bn/moving_mean"]]
    ws.warm_start(ws.WarmStartSettings(checkpoint, wanted), model, TRAINABLE)
    assert filled(model) == ["dense/bias", "bn/moving_mean"]


def test_list_of_keras_variables(tmp_path):
    import keras

    layer = keras.layers.Dense(3, name="d")
    layer.build((None, 2))
    path = write_checkpoint(tmp_path / "k", {"d/kernel": KERNEL, "d/bias": np.ones(3, np.float32)})
    live = {v.path: v.value for v in layer.weights}
    ws.warm_start(ws.WarmStartSettings(path, [layer.kernel]), live, [])
    np.testing.assert_array_equal(layer.get_weights()[0], KERNEL)
    np.testing.assert_array_equal(layer.get_weights()[1], np.zeros(3))


def test_none_without_vocabularies_takes_nothing(checkpoint, model, caplog):
    report = ws.warm_start(ws.WarmStartSettings(checkpoint, None), model, TRAINABLE)
    assert filled(model) == [] and report.untouched == list(STORED)


# ------------------------------------------------------------------ names


def test_renamed_variables(checkpoint):
    live = {"new/w": tf.Variable(tf.zeros([2, 3])), "dense/bias": tf.Variable(tf.zeros([3]))}
    names = {"new/w": "dense/kernel"}
    settings = ws.WarmStartSettings(checkpoint, var_name_to_prev_var_name=names)
    report = ws.warm_start(settings, live, live)
    check_equal(live, {"new/w": KERNEL, "dense/bias": STORED["dense/bias"]})
    assert report.taken == ["new/w", "dense/bias"]


def test_one_tensor_may_fill_two_variables(checkpoint):
    live = {"dense/kernel": tf.Variable(tf.zeros([2, 3])), "copy": tf.Variable(tf.zeros([2, 3]))}
    settings = ws.WarmStartSettings(checkpoint, var_name_to_prev_var_name={"copy": "dense/kernel"})
    ws.warm_start(settings, live, live)
    check_equal(live, {"dense/kernel": KERNEL, "copy": KERNEL})


# ------------------------------------------------------------------ parts, types, modes


def sliced(name: str, whole: list[int], offset: list[int], shape: list[int]) -> tf.Variable:
    part = tf.Variable(tf.zeros(shape), name=f"{name}/part")
    part._set_save_slice_info(tf.Variable.SaveSliceInfo(name, whole, offset, shape))
    return part


def test_parts_of_a_partitioned_variable_take_their_slices(tmp_path):
    whole = np.arange(10, dtype=np.float32).reshape(5, 2)
    path = write_checkpoint(tmp_path / "p", {"emb": whole})
    live = {
        "emb/part_0": sliced("emb", [5, 2], [0, 0], [3, 2]),
        "emb/part_1": sliced("emb", [5, 2], [3, 0], [2, 2]),
    }
    report = ws.warm_start(ws.normalize(path), live, live)
    check_equal(live, {"emb/part_0": whole[:3], "emb/part_1": whole[3:]})
    assert report.taken == ["emb"]


def test_variables_partitioned_in_a_model_function(tmp_path):
    whole = np.arange(10, dtype=np.float32).reshape(5, 2)
    path = write_checkpoint(tmp_path / "p", {"net/emb": whole})
    store, found = VariableStore(), {}

    def build() -> None:
        with store.tracing(tf.compat.v1.get_default_graph()) as traced:
            with tf.compat.v1.variable_scope("net"):
                tf.compat.v1.get_variable(
                    "emb", [5, 2], partitioner=tf.compat.v1.fixed_size_partitioner(2)
                )
            found.update(traced.saved())

    tf.compat.v1.wrap_function(build, [])
    report = ws.warm_start(ws.normalize(path), found, found)
    check_equal(found, {"net/emb/part_0": whole[:3], "net/emb/part_1": whole[3:]})
    assert report.taken == ["net/emb"]


def test_many_portions_are_read_like_one(checkpoint, model, monkeypatch):
    monkeypatch.setattr(ws, "_PORTION_BYTES", 1)
    ws.warm_start(ws.WarmStartSettings(checkpoint, [".*"]), model, TRAINABLE)
    check_equal(model, STORED)


def test_floats_of_another_width_are_converted(checkpoint):
    live = {"dense/kernel": tf.Variable(tf.zeros([2, 3], tf.float64))}
    ws.warm_start(ws.normalize(checkpoint), live, live)
    check_equal(live, {"dense/kernel": KERNEL.astype(np.float64)})


def test_inside_a_graph_the_live_variables_are_filled(checkpoint, model):
    with tf.Graph().as_default() as graph:
        ws.warm_start(ws.normalize(checkpoint), model, TRAINABLE)
        assert not graph.get_operations()
    assert filled(model) == TRAINABLE


# ------------------------------------------------------------------ what the checkpoint lacks


def test_missing_variable_raises_and_changes_nothing(checkpoint, model):
    model["extra"] = tf.Variable([0.0])
    with pytest.raises(
        WarmStartError, match=r"Tensor extra is not found in \S+ckpt-120 checkpoint \{.*dense/bias"
    ) as caught:
        ws.warm_start(ws.normalize(checkpoint), model, [*TRAINABLE, "extra"])
    assert "ignore_missing=True" in str(caught.value)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, EstimandError)
    assert filled(model) == []


def test_all_missing_variables_are_named_with_those_they_resemble(checkpoint):
    live = {"Dense/kernel": tf.Variable(KERNEL), "Dense/bias": tf.Variable(tf.zeros([3]))}
    with pytest.raises(WarmStartError) as caught:
        ws.warm_start(ws.normalize(checkpoint), live, live)
    message = str(caught.value)
    assert "2 variables are not found in it: ['Dense/bias', 'Dense/kernel']" in message
    assert (
        "var_name_to_prev_var_name="
        "{'Dense/kernel': 'dense/kernel', 'Dense/bias': 'dense/bias'}" in message
    )


def test_ignore_missing_keeps_initial_values_and_says_so(checkpoint, model, caplog):
    model["extra"] = tf.Variable([0.25])
    settings = ws.WarmStartSettings(checkpoint, ignore_missing=True)
    with caplog.at_level(logging.INFO, "tensorflow"):
        report = ws.warm_start(settings, model, [*TRAINABLE, "extra"])
    assert model["extra"].numpy() == [0.25]
    assert report.missing == ["extra"] and report.taken == TRAINABLE
    assert "lacks 1 variables, which keep their initial values: extra" in caplog.text


def test_shape_mismatch_names_all_and_tells_how_to_leave_them_out(checkpoint, model):
    model["dense/kernel"] = tf.Variable(tf.zeros([5, 2]))
    model["dense/bias"] = tf.Variable(tf.zeros([2]))
    with pytest.raises(WarmStartError) as caught:
        ws.warm_start(ws.normalize(checkpoint), model, TRAINABLE)
    message = str(caught.value)
    assert (
        "Shape of variable dense/kernel:0 ((5, 2)) doesn't match with shape of tensor "
        "dense/kernel ([2, 3]) from checkpoint reader." in message
    )
    assert "Shape of variable dense/bias:0 ((2,)) doesn't match" in message
    assert "vars_to_warm_start='(?!(?:dense/kernel|dense/bias)[:/])'" in message


def test_the_pattern_of_the_shape_message_takes_all_others(checkpoint, model):
    model["dense/kernel"] = tf.Variable(tf.zeros([5, 2]))
    settings = ws.WarmStartSettings(checkpoint, "(?!(?:dense/kernel)[:/])")
    ws.warm_start(settings, model, TRAINABLE)
    assert filled(model) == ["dense/bias"]


def test_partitioned_variable_of_another_size(tmp_path):
    path = write_checkpoint(tmp_path / "p", {"emb": np.zeros((4, 2), np.float32)})
    live = {"emb/part_0": sliced("emb", [5, 2], [0, 0], [3, 2])}
    with pytest.raises(WarmStartError, match=r"emb:0 \(\(5, 2\)\) doesn't match .* \(\[4, 2\]\)"):
        ws.warm_start(ws.normalize(path), live, live)


def test_type_of_another_kind(checkpoint):
    live = {"dense/bias": tf.Variable(tf.zeros([3], tf.int32))}
    with pytest.raises(WarmStartError, match=r"dense/bias holds int32, but tensor .* float32"):
        ws.warm_start(ws.normalize(checkpoint), live, live)


@pytest.mark.parametrize("where", ["var_name_to_prev_var_name", "var_name_to_vocab_info"])
def test_names_that_are_not_used(checkpoint, model, where):
    value = "dense/bias" if "prev" in where else ws.VocabInfo("new", 3, 0, "old")
    settings = ws.WarmStartSettings(checkpoint, "dense/k", **{where: {"dense/bios": value}})
    with pytest.raises(
        WarmStartError,
        match=rf"You provided the following variables in {where} that were not used: "
        r"\['dense/bios'\]\..*viable variable names: \['dense/kernel'\]",
    ):
        ws.warm_start(settings, model, TRAINABLE)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (3, "`vars_to_warm_start must be a `list` or `str`.  Given type is <class 'int'>: 3"),
        (["dense", 3], "it must be all `Variable` or all `str`.  Given types are"),
        (["dense["], "'dense[', which is not a regular expression"),
        (
            [tf.Variable(1.0, name="stranger")],
            "which is not a variable of the model. It has: dense",
        ),
    ],
)
def test_unusable_vars_to_warm_start(checkpoint, model, wanted, message):
    with pytest.raises(WarmStartError) as caught:
        ws.warm_start(ws.WarmStartSettings(checkpoint, wanted), model, TRAINABLE)
    assert message in str(caught.value)


# ------------------------------------------------------------------ what is logged


def log_of(caplog: pytest.LogCaptureFixture, call: Callable[[], object]) -> list[str]:
    with caplog.at_level(logging.INFO, "tensorflow"):
        call()
    return [r.getMessage() for r in caplog.records if r.name == "tensorflow"]


def test_one_line_says_from_where_and_how_many(checkpoint, model, caplog):
    lines = log_of(caplog, lambda: ws.warm_start(ws.normalize(checkpoint), model, TRAINABLE))
    assert lines == [
        f"Warm-starting from: {checkpoint}. Warm-started 2 variables; 3 keep their initial values."
    ]


def test_a_pattern_that_matches_nothing_is_warned_of(checkpoint, model, caplog):
    settings = ws.WarmStartSettings(checkpoint, "bn")
    lines = log_of(caplog, lambda: ws.warm_start(settings, model, TRAINABLE))
    assert "vars_to_warm_start='bn' matches no trainable variable of the model" in lines[-1]
    assert "dense/kernel" in lines[-1]
