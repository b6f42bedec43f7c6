"""Variables whose vocabulary has changed.

The numbers named `UPSTREAM_*` were obtained by running tf.compat.v1.train.warm_start of
TensorFlow 2.15 on the same files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import WarmStartError
from estimand.engine.warm_start import apply as ws

OLD_WORDS = ["apple", "banana", "guava", "orange"]
NEW_WORDS = ["orange", "guava", "banana", "apple", "raspberry", "blueberry"]
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
ROWS_AND_BUCKETS = np.arange(12, dtype=np.float32).reshape(6, 2) + 1
COLUMNS = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
BIAS = np.arange(4, dtype=np.float32) + 1
CUBE = np.arange(16, dtype=np.float32).reshape(4, 2, 2)

UPSTREAM_ROWS = [[7, 8], [5, 6], [3, 4], [1, 2], [0, 0], [0, 0]]
UPSTREAM_ROWS_OF_2_OLD_WORDS = [[0, 0], [0, 0], [3, 4], [1, 2], [0, 0], [0, 0]]
UPSTREAM_COLUMNS = [[4, 3, 2, 1, 0, 0], [8, 7, 6, 5, 0, 0], [12, 11, 10, 9, 0, 0]]
UPSTREAM_ROWS_AND_2_BUCKETS_COUNTED = [
    *([7, 8], [5, 6], [3, 4], [1, 2]),
    *([100, 101], [102, 103], [104, 105], [106, 107]),
]
UPSTREAM_SHAPES_ASKED_OF_THE_INITIALIZER = [[4, 1], [2, 2]]
UPSTREAM_THREE_PARTS_AND_2_BUCKETS_OF_ONES = [
    [[7, 8], [5, 6], [3, 4]],
    [[1, 2], [1, 1], [1, 1]],
    [[1, 1], [1, 1]],
]
UPSTREAM_TWO_PARTS_OF_COLUMNS_AND_A_BUCKET_OF_ONES = [
    [[4, 3, 2, 1, 1, 1, 1], [8, 7, 6, 5, 1, 1, 1]],
    [[12, 11, 10, 9, 1, 1, 1]],
]


def vocabulary(path: Path, words: list[str]) -> str:
    path.write_text("".join(f"{word}\n" for word in words))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    tensors = {
        "rows": ROWS,
        "rows_and_buckets": ROWS_AND_BUCKETS,
        "columns": COLUMNS,
        "bias": BIAS,
        "cube": CUBE,
    }
    prefix = str(tmp_path / "model.ckpt-1")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(t) for t in tensors.values()],
    )
    return {
        "checkpoint": prefix,
        "old": vocabulary(tmp_path / "old.txt", OLD_WORDS),
        "new": vocabulary(tmp_path / "new.txt", NEW_WORDS),
    }


def info(files: dict[str, str], buckets: int = 0, *, size: int = 6, **more: Any) -> Any:
    return ws.VocabInfo(files["new"], size, buckets, files["old"], **more)


def start(
    files: dict[str, str], name: str, variables: Any, vocab: Any, **settings: Any
) -> np.ndarray | list[np.ndarray]:
    """The values after a warm start of one variable, given itself, its shape, or its parts."""
    if isinstance(variables, list) and isinstance(variables[0], int):
        variables = tf.Variable(tf.fill(variables, np.float32(-1)))
    parts = variables if isinstance(variables, list) else [variables]
    live = {name if len(parts) == 1 else f"{name}/part_{i}": v for i, v in enumerate(parts)}
    asked = {"var_name_to_vocab_info": {name: vocab}, **settings}
    report = ws.warm_start(ws.WarmStartSettings(files["checkpoint"], **asked), live, live)
    assert report.remapped == [name] and not report.taken
    values = [v.numpy() for v in parts]
    return values if len(values) > 1 else values[0]


def partitioned(name: str, whole: list[int], sizes: list[int]) -> list[tf.Variable]:
    parts, offset = [], 0
    for size in sizes:
        shape = [size, *whole[1:]]
        part = tf.Variable(tf.zeros(shape))
        place = [offset] + [0] * (len(whole) - 1)
        part._set_save_slice_info(tf.Variable.SaveSliceInfo(name, whole, place, shape))
        parts.append(part)
        offset += size
    assert offset == whole[0]
    return parts


class Counting:
    """An initializer that gives 100, 101, … and remembers what it was asked for."""

    def __init__(self) -> None:
        self.next = 100
        self.asked: list[list[int]] = []

    def __call__(self, shape: list[int]) -> tf.Tensor:
        self.asked.append(list(shape))
        count = int(np.prod(shape))
        self.next += count
        return tf.reshape(tf.range(self.next - count, self.next, dtype=tf.float32), shape)


# ------------------------------------------------------------------ rows


def test_rows_follow_their_words(files):
    np.testing.assert_array_equal(start(files, "rows", [6, 2], info(files)), UPSTREAM_ROWS)


def test_none_takes_the_variables_with_a_vocabulary_only(files):
    live = {"rows": tf.Variable(tf.zeros([6, 2])), "bias": tf.Variable(tf.zeros([4]))}
    settings = ws.WarmStartSettings(files["checkpoint"], None, {"rows": info(files)})
    report = ws.warm_start(settings, live, live)
    np.testing.assert_array_equal(live["rows"].numpy(), UPSTREAM_ROWS)
    assert not live["bias"].numpy().any()
    assert report.remapped == ["rows"] and report.untouched == ["bias"]


def test_only_the_first_old_words_count(files):
    vocab = info(files, old_vocab_size=2)
    np.testing.assert_array_equal(start(files, "rows", [6, 2], vocab), UPSTREAM_ROWS_OF_2_OLD_WORDS)


def test_only_the_first_new_words_count(files):
    vocab = info(files, size=3)
    np.testing.assert_array_equal(start(files, "rows", [3, 2], vocab), UPSTREAM_ROWS[:3])


def test_variable_with_fewer_rows_than_words(files):
    np.testing.assert_array_equal(start(files, "rows", [3, 2], info(files)), UPSTREAM_ROWS[:3])


def test_new_words_then_buckets_get_the_backup_initializer(files):
    backup = Counting()
    value = start(files, "rows", [8, 2], info(files, 2, backup_initializer=backup))
    np.testing.assert_array_equal(value, UPSTREAM_ROWS_AND_2_BUCKETS_COUNTED)
    assert backup.asked == UPSTREAM_SHAPES_ASKED_OF_THE_INITIALIZER


def test_old_buckets_are_not_taken_over(files):
    backup = tf.compat.v1.ones_initializer()
    value = start(files, "rows_and_buckets", [7, 2], info(files, 1, backup_initializer=backup))
    np.testing.assert_array_equal(value, [*UPSTREAM_ROWS[:4], [1, 1], [1, 1], [1, 1]])


@pytest.mark.parametrize(
    "backup",
    [
        tf.compat.v1.constant_initializer(0.5),
        tf.constant_initializer(0.5),
        lambda shape: np.full(shape, 0.5),
    ],
)
def test_backup_initializers_of_every_kind(files, backup):
    value = start(files, "rows", [7, 2], info(files, 1, backup_initializer=backup))
    np.testing.assert_array_equal(value, [*UPSTREAM_ROWS[:4], *[[0.5, 0.5]] * 3])


def test_keras_initializer_given_as_a_class(files):
    import keras

    vocab = info(files, 1, backup_initializer=keras.initializers.Ones)
    value = start(files, "rows", [7, 2], vocab)
    np.testing.assert_array_equal(value, [*UPSTREAM_ROWS[:4], *[[1, 1]] * 3])


def test_random_backup_initializer_varies_from_cell_to_cell(files):
    backup = tf.compat.v1.truncated_normal_initializer(stddev=0.1)
    value = start(files, "rows", [8, 2], info(files, 2, backup_initializer=backup))
    np.testing.assert_array_equal(value[:4], UPSTREAM_ROWS[:4])
    assert len(np.unique(value[4:])) == 8 and np.abs(value[4:]).max() <= 0.2


def test_renamed_variable_with_a_vocabulary(files):
    value = start(files, "emb", [6, 2], info(files), var_name_to_prev_var_name={"emb": "rows"})
    np.testing.assert_array_equal(value, UPSTREAM_ROWS)


# ------------------------------------------------------------------ columns and other ranks


def test_columns_follow_their_words(files):
    value = start(files, "columns", [3, 6], info(files, axis=1))
    np.testing.assert_array_equal(value, UPSTREAM_COLUMNS)


def test_new_columns_are_filled_row_by_row_then_buckets(files):
    backup = Counting()
    value = start(files, "columns", [3, 7], info(files, 1, axis=1, backup_initializer=backup))
    assert backup.asked == [[6, 1], [3, 1]]
    expected = np.hstack(
        [
            np.array(UPSTREAM_COLUMNS)[:, :4],
            np.arange(100, 106).reshape(3, 2),
            np.arange(106, 109).reshape(3, 1),
        ]
    )
    np.testing.assert_array_equal(value, expected)


def test_old_vocab_size_counts_for_columns_too(files):
    value = start(files, "columns", [3, 6], info(files, axis=1, old_vocab_size=2))
    np.testing.assert_array_equal(value[:, :4], np.array(UPSTREAM_COLUMNS)[:, :4] * [0, 0, 1, 1])


def test_bias_of_classes(files):
    backup = tf.compat.v1.ones_initializer()
    value = start(files, "bias", [7], info(files, 1, backup_initializer=backup))
    np.testing.assert_array_equal(value, [4, 3, 2, 1, 1, 1, 1])


def test_three_axes(files):
    value = start(files, "cube", [6, 2, 2], info(files))
    np.testing.assert_array_equal(value, np.concatenate([CUBE[::-1], np.zeros((2, 2, 2))]))


def test_half_precision(files):
    variable = tf.Variable(tf.zeros([6, 2], tf.bfloat16))
    value = start(files, "rows", variable, info(files))
    np.testing.assert_array_equal(value.astype(np.float32), UPSTREAM_ROWS)


# ------------------------------------------------------------------ partitioned variables


def test_parts_take_the_rows_of_their_words(files):
    vocab = info(files, 2, backup_initializer=tf.compat.v1.ones_initializer())
    values = start(files, "rows", partitioned("rows", [8, 2], [3, 3, 2]), vocab)
    for value, expected in zip(values, UPSTREAM_THREE_PARTS_AND_2_BUCKETS_OF_ONES, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_parts_take_their_rows_of_remapped_columns(files):
    vocab = info(files, 1, axis=1, backup_initializer=tf.compat.v1.ones_initializer())
    values = start(files, "columns", partitioned("columns", [3, 7], [2, 1]), vocab)
    for value, expected in zip(
        values, UPSTREAM_TWO_PARTS_OF_COLUMNS_AND_A_BUCKET_OF_ONES, strict=True
    ):
        np.testing.assert_array_equal(value, expected)


# ------------------------------------------------------------------ against NumPy, at some size


def test_a_large_shuffled_vocabulary(tmp_path):
    generator = np.random.default_rng(3)
    old = generator.permutation(30_000)[:20_000]
    new = generator.permutation(30_000)[:25_000]
    table = generator.normal(size=(20_000, 3)).astype(np.float32)
    prefix = str(tmp_path / "m")
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["t"], shape_and_slices=[""], tensors=[tf.constant(table)]
    )
    files = {
        "checkpoint": prefix,
        "old": vocabulary(tmp_path / "old", [f"w{i}" for i in old]),
        "new": vocabulary(tmp_path / "new", [f"w{i}" for i in new]),
    }
    value = start(files, "t", [25_000, 3], info(files, size=25_000))
    row_of_word = np.full(30_000, -1)
    row_of_word[old] = np.arange(20_000)
    rows = row_of_word[new]
    np.testing.assert_array_equal(value, np.where(rows[:, None] >= 0, table[rows], 0))


# ------------------------------------------------------------------ what cannot be done


def fails(files: dict[str, str], name: str, shape: list[int], vocab: Any) -> str:
    variable = tf.Variable(tf.fill(shape, np.float32(-1)))
    with pytest.raises(WarmStartError) as caught:
        start(files, name, variable, vocab)
    assert (variable.numpy() == -1).all()
    return str(caught.value)


def test_more_rows_than_words_and_buckets(files):
    message = fails(files, "rows", [9, 2], info(files, 2))
    assert "rows has 9 entries along axis 0" in message
    assert "new_vocab_size (6) + num_oov_buckets (2) = 8" in message


def test_fewer_columns_than_words(files):
    assert "has 5 entries along axis 1" in fails(files, "columns", [3, 5], info(files, axis=1))


@pytest.mark.parametrize(("name", "shape", "axis"), [("rows", [6, 3], 0), ("columns", [2, 6], 1)])
def test_the_other_axis_must_fit(files, name, shape, axis):
    message = fails(files, name, shape, info(files, axis=axis))
    assert f"Shape of variable {name}:0" in message and f"Only axis {axis}" in message


def test_axis_that_the_variable_does_not_have(files):
    assert "at least 2" in fails(files, "bias", [6], info(files, axis=1))


def test_new_vocabulary_shorter_than_said(files):
    message = fails(files, "rows", [8, 2], info(files, size=8))
    assert f"new_vocab_size is 8, but {files['new']} has only 6 lines" in message


def test_old_vocabulary_shorter_than_said(files):
    message = fails(files, "rows", [6, 2], info(files, old_vocab_size=9))
    assert f"old_vocab_size is 9, but {files['old']} has only 4 lines" in message


def test_vocabulary_file_that_is_not_there(files):
    missing = {**files, "old": files["old"] + ".gone"}
    message = fails(missing, "rows", [6, 2], info(missing))
    assert "the old vocabulary cannot be read" in message and ".gone" in message


def test_repeated_word_in_the_old_vocabulary(files, tmp_path):
    twice = {**files, "old": vocabulary(tmp_path / "twice", ["apple", "guava", "apple"])}
    message = fails(twice, "rows", [6, 2], info(twice))
    assert "Key apple has 0 and trying to add value 2" in message
    assert "without empty or repeated lines" in message


def test_old_vocabulary_longer_than_the_tensor(files, tmp_path):
    words = ["x", "y", "z", "t", "apple"]
    longer = {**files, "old": vocabulary(tmp_path / "longer", words)}
    message = fails(longer, "rows", [6, 2], info(longer))
    assert "the checkpoint holds only 4 entries along axis 0" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"old_vocab": None}, "Must provide all of [current_vocab_path, current_vocab_size"),
        ({"new_vocab_size": 0}, "Must provide all of [current_vocab_path, current_vocab_size"),
        ({"num_oov_buckets": -1}, "num_oov_buckets must be >= 0, but received -1"),
        ({"backup_initializer": 0.5}, "initializer must be callable, instead of being 0.5"),
    ],
)
def test_unusable_vocab_info(files, changes, message):
    assert message in fails(files, "rows", [6, 2], info(files)._replace(**changes))


def test_something_else_than_a_vocab_info(files):
    assert "expected an est.VocabInfo, got 'fruit.txt'" in fails(files, "rows", [6, 2], "fruit.txt")


def test_backup_initializer_of_one_shape_only(files):
    vocab = info(files, backup_initializer=lambda shape: tf.zeros([2, 2]))
    message = fails(files, "rows", [6, 2], vocab)
    assert "returned the shape (2, 2) when asked for (4, 1)" in message
