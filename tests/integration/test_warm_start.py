"""warm_start_from, through whole runs of an Estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.line import (
    batches,
    checkpoint_steps,
    config,
    endless,
    estimator,
    loss_of,
    model_fn,
    v1,
    weight_after,
)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A directory with a model of the line, trained for 20 steps with momentum."""
    estimator(tmp_path / "trained", with_momentum).train(endless, steps=20)
    return tmp_path / "trained"


def with_momentum(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = v1.get_variable("w", [], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
    optimizer = v1.train.MomentumOptimizer(0.001, 0.5)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def values(model_dir: Path, step: int) -> dict[str, Any]:
    reader = tf.train.load_checkpoint(str(model_dir / f"model.ckpt-{step}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def started_from(tmp_path: Path, source: Any, function: Any = with_momentum) -> est.Estimator:
    made = est.Estimator(function, str(tmp_path / "new"), config(), warm_start_from=source)
    return made.train(endless, steps=1)


def test_string_takes_over_trained_variables_only(tmp_path: Path, trained: Path) -> None:
    started_from(tmp_path, str(trained))
    start, source = values(tmp_path / "new", 0), values(trained, 20)
    assert start["w"] == source["w"] != 1
    assert start["w/Momentum"] == 0 != source["w/Momentum"]
    assert start["global_step"] == 0


def test_checkpoint_may_be_named_itself(tmp_path: Path, trained: Path) -> None:
    started_from(tmp_path, str(trained / "model.ckpt-0"))
    assert values(tmp_path / "new", 0)["w"] == 1


def test_list_of_everything_goes_on_from_the_old_step(tmp_path: Path, trained: Path) -> None:
    settings = est.WarmStartSettings(str(trained), vars_to_warm_start=[".*"])
    started_from(tmp_path, settings)
    assert checkpoint_steps(tmp_path / "new") == [20, 21]
    assert values(tmp_path / "new", 20) == values(trained, 20)


def test_variables_may_have_had_other_names(tmp_path: Path, trained: Path) -> None:
    def renamed(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        with v1.variable_scope("line"):
            return with_momentum(features, labels, mode)

    settings = est.WarmStartSettings(str(trained), var_name_to_prev_var_name={"line/w": "w"})
    started_from(tmp_path, settings, renamed)
    assert values(tmp_path / "new", 0)["line/w"] == values(trained, 20)["w"]


def test_rows_of_an_embedding_follow_their_words(tmp_path: Path) -> None:
    def vocabulary(name: str, *words: str) -> str:
        (tmp_path / name).write_text("\n".join(words) + "\n")
        return str(tmp_path / name)

    def embedding(rows: Any) -> Any:
        def function(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            v1.get_variable("table", initializer=np.float32(rows))
            return model_fn(features, labels, mode)

        return function

    old = est.Estimator(embedding([[1, 1], [2, 2], [3, 3]]), str(tmp_path / "old"), config())
    old.train(endless, steps=1)
    words = est.VocabInfo(
        new_vocab=vocabulary("new.txt", "c", "d", "a"), new_vocab_size=3, num_oov_buckets=0,
        old_vocab=vocabulary("old.txt", "a", "b", "c"),
        backup_initializer=tf.compat.v1.constant_initializer(7),
    )  # fmt: skip
    settings = est.WarmStartSettings(
        str(tmp_path / "old"), vars_to_warm_start=None, var_name_to_vocab_info={"table": words}
    )
    started_from(tmp_path, settings, embedding([[0, 0], [0, 0], [0, 0]]))
    assert values(tmp_path / "new", 0)["table"].tolist() == [[3, 3], [7, 7], [1, 1]]


def test_checkpoint_in_model_dir_comes_first(tmp_path: Path, trained: Path) -> None:
    estimator(tmp_path / "new").train(endless, steps=2)
    made = est.Estimator(
        model_fn, str(tmp_path / "new"), config(), warm_start_from=str(trained)
    ).train(endless, steps=1)
    assert made.get_variable_value("w") == pytest.approx(weight_after(3))


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_untrained_model_has_the_values_it_will_start_from(
    tmp_path: Path, trained: Path, verb: str
) -> None:
    made = est.Estimator(model_fn, str(tmp_path / "new"), config(), warm_start_from=str(trained))
    w = float(values(trained, 20)["w"])
    if verb == "evaluate":
        expected = (loss_of(w, 0) + loss_of(w, 1)) / 2
        assert made.evaluate(batches)["loss"] == pytest.approx(expected, rel=1e-5)
    else:
        assert next(made.predict(batches))["y"] == pytest.approx(w)


def test_failed_before_its_first_checkpoint_it_starts_from_there_again(
    tmp_path: Path, trained: Path
) -> None:
    made = est.Estimator(model_fn, str(tmp_path / "new"), config(), warm_start_from=str(trained))
    with pytest.raises(ZeroDivisionError):
        made.train(lambda: 1 / 0)
    made.train(endless, steps=1)
    assert values(tmp_path / "new", 0)["w"] == values(trained, 20)["w"]


def test_source_of_a_wrong_type_is_refused(tmp_path: Path) -> None:
    message = "warm_start_from must be a string or a WarmStartSettings, instead got <class 'int'>"
    with pytest.raises(ValueError, match=message):
        est.Estimator(model_fn, str(tmp_path), warm_start_from=3)
