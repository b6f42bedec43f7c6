"""`tf.contrib.learn` around its Experiment: texts as numbers, and exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib

v1 = tf.compat.v1
learn = contrib.learn


def test_texts_become_rows_of_numbers(tmp_path: Path) -> None:
    texts = ["the cat sat", "the dog sat on the mat", "don't!"]
    processor = learn.preprocessing.VocabularyProcessor(5)
    rows = np.array(list(processor.fit_transform(texts)))
    assert rows.tolist() == [[1, 2, 3, 0, 0], [1, 4, 3, 5, 1], [7, 0, 0, 0, 0]]
    assert len(processor.vocabulary_) == 8
    assert processor.vocabulary_._mapping["mat"] == 6
    assert list(processor.reverse(rows[:1])) == ["the cat sat <UNK> <UNK>"]
    processor.save(str(tmp_path / "vocab"))
    restored = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "vocab"))
    assert [row.tolist() for row in restored.transform(["the new cat"])] == [[1, 0, 2, 0, 0]]


def test_rare_words_are_unknown() -> None:
    texts = ["b a b", "a c b"]
    processor = learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    rows = [row.tolist() for row in processor.fit_transform(texts)]
    assert rows == [[1, 2, 1], [2, 0, 1]]


def test_an_experiment_exports(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        y = features["x"] * v1.get_variable("w", initializer=2.0)
        loss = tf.reduce_mean(y)
        train_op = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, predictions={"y": y}, loss=loss, train_op=train_op)

    def serving_input_fn() -> Any:
        x = v1.placeholder(tf.float32, [None])
        return learn.InputFnOps({"x": x}, None, {"x": x})

    utils = learn.python.learn.utils.saved_model_export_utils
    data = tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))
    learn.Experiment(
        est.Estimator(model_fn, config=est.RunConfig(str(tmp_path), progress=False)),
        train_input_fn=lambda: data.repeat(),
        eval_input_fn=lambda: data,
        train_steps=2,
        eval_steps=1,
        export_strategies=[utils.make_export_strategy(serving_input_fn)],
    ).train_and_evaluate()
    (export,) = (tmp_path / "export" / "Servo").iterdir()
    assert (export / "saved_model.pb").exists()
