"""Input functions of the v1 era: iterators, get_next() and operations on what it gives."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.engine.running import faults
from tests import forked
from tests.inputs.reading import batches, call, save_and_continue

v1 = tf.compat.v1
X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.arange(6)
MAKERS = {
    "one-shot function": v1.data.make_one_shot_iterator,
    "one-shot method": lambda dataset: dataset.make_one_shot_iterator(),
    "initializable function": v1.data.make_initializable_iterator,
    "initializable method": lambda dataset: dataset.make_initializable_iterator(),
}


def sliced(*arrays: Any) -> tf.data.Dataset:
    return v1.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_get_next_gives_batch_after_batch(maker: Any) -> None:
    given = call(lambda: maker(sliced(X, Y).batch(4)).get_next())
    assert given.has_labels and given.resumable and not given.endless_constant
    assert batches(given) == [(X[:4].tolist(), [0, 1, 2, 3]), (X[4:].tolist(), [4, 5])]


def test_an_input_function_may_make_a_variable() -> None:
    """As dual encoders did, so that a checkpoint had what an evaluation looked for."""

    def input_fn() -> Any:
        x, y = v1.data.make_one_shot_iterator(sliced(X, Y).batch(6)).get_next()
        made = v1.get_variable("epochs", initializer=tf.constant(3, tf.int64))
        return x, y + made

    assert batches(call(input_fn)) == [(X.tolist(), (Y + 3).tolist())]


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
def test_operations_after_get_next_are_applied_to_every_batch(maker: Any) -> None:
    def input_fn() -> Any:
        x, y = maker(sliced(X, Y).repeat(2).batch(5)).get_next()
        return {"total": tf.reduce_sum(x, axis=1), "double": x * 2}, tf.one_hot(y, 6)

    expected_x, expected_y = np.tile(X, (2, 1)), np.tile(np.eye(6), (2, 1))
    for start, (features, labels) in zip((0, 5, 10), batches(call(input_fn)), strict=True):
        rows = slice(start, start + 5)
        np.testing.assert_allclose(features["total"], expected_x[rows].sum(axis=1))
        np.testing.assert_allclose(features["double"], expected_x[rows] * 2)
        np.testing.assert_allclose(labels, expected_y[rows])


def test_the_initializer_may_go_to_the_table_initializers() -> None:
    def input_fn() -> Any:
        iterator = v1.data.make_initializable_iterator(sliced(Y).batch(6))
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next()

    assert batches(call(input_fn)) == [([0, 1, 2, 3, 4, 5], None)]


def test_v2_datasets_may_be_given_to_the_v1_functions() -> None:
    def input_fn() -> Any:
        return v1.data.make_one_shot_iterator(tf.data.Dataset.range(2)).get_next()

    assert batches(call(input_fn)) == [(0, None), (1, None)]


def test_the_position_is_saved_and_restored_exactly(tmp_path: Path) -> None:
    def input_fn() -> Any:
        dataset = sliced(X, Y).shuffle(6, seed=1).repeat().batch(4).prefetch(2)
        x, y = v1.data.make_one_shot_iterator(dataset).get_next()
        return {"x": x + 1}, y

    straight_on, restored = save_and_continue(lambda: call(input_fn), 5, 7, tmp_path)
    assert straight_on == restored
    assert straight_on[0] != batches(call(input_fn), 1)[0]


def test_an_unseeded_shuffle_resumes_exactly_under_a_global_seed(tmp_path: Path) -> None:
    def make() -> Any:
        tf.random.set_seed(7)
        return call(
            lambda: v1.data.make_one_shot_iterator(sliced(Y).shuffle(6).repeat()).get_next()
        )

    straight_on, restored = save_and_continue(make, 5, 12, tmp_path)
    assert straight_on == restored


def test_table_lookups_keep_the_position_saveable(tmp_path: Path) -> None:
    def input_fn() -> Any:
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [10, 20]), -1
        )
        words = v1.data.make_one_shot_iterator(sliced(["a", "b", "c"]).repeat().batch(2)).get_next()
        return table.lookup(words)

    given = call(input_fn)
    assert given.resumable
    assert batches(given, 3) == [([10, 20], None), ([-1, 10], None), ([20, -1], None)]
    straight_on, restored = save_and_continue(lambda: call(input_fn), 1, 3, tmp_path)
    assert straight_on == restored == [([-1, 10], None), ([20, -1], None), ([10, 20], None)]


def test_tables_read_from_files_are_initialised(tmp_path: Path) -> None:
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("red\ngreen\nblue\n")

    def input_fn() -> Any:
        rows = v1.lookup.TextFileInitializer if hasattr(v1.lookup, "TextFileInitializer") else None
        rows = rows or tf.lookup.TextFileInitializer
        initializer = rows(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = v1.lookup.StaticHashTable(initializer, -1)
        before = sliced(["blue", "red"]).map(table.lookup).batch(2)
        after = sliced(["green", "pink"]).batch(2)
        iterators = [v1.data.make_initializable_iterator(d) for d in (before, after)]
        return iterators[0].get_next(), table.lookup(iterators[1].get_next())

    assert batches(call(input_fn)) == [([2, 0], [1, -1])]


def test_several_iterators_advance_together() -> None:
    def input_fn() -> Any:
        x = v1.data.make_one_shot_iterator(sliced(X).batch(2)).get_next()
        y = v1.data.make_one_shot_iterator(sliced(Y).batch(2)).get_next()
        return x, y

    assert batches(call(input_fn)) == [
        (X[i : i + 2].tolist(), Y[i : i + 2].tolist()) for i in (0, 2, 4)
    ]


def test_an_iterator_that_is_not_used_is_ignored() -> None:
    def input_fn() -> Any:
        v1.data.make_one_shot_iterator(sliced(Y[:1]))
        return v1.data.make_one_shot_iterator(sliced(Y)).get_next()

    assert len(batches(call(input_fn))) == 6


def test_a_second_get_next_is_refused() -> None:
    def input_fn() -> Any:
        iterator = v1.data.make_one_shot_iterator(sliced(X, Y).batch(2))
        return iterator.get_next()[0], iterator.get_next()[1]

    with pytest.raises(InputError, match="get_next\\(\\) was called twice on one iterator"):
        call(input_fn)


def test_sparse_and_ragged_elements_reach_the_operations() -> None:
    def input_fn() -> Any:
        ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []])).batch(3)
        sparse = tf.data.Dataset.from_tensors(tf.sparse.from_dense([[0, 5], [6, 0]]))
        dataset = tf.data.Dataset.zip((ragged, sparse))
        rows, cells = v1.data.make_one_shot_iterator(dataset).get_next()
        return {"rows": rows * 10, "cells": cells}, tf.reduce_sum(rows, axis=1)

    assert batches(call(input_fn)) == [
        ({"rows": [[10], [20, 30], []], "cells": [[0, 5], [6, 0]]}, [1, 5, 0])
    ]


def test_one_tensor_may_be_returned_twice_and_beside_constants() -> None:
    constant = tf.constant([7.0] * 9)

    def input_fn() -> Any:
        x, y = v1.data.make_one_shot_iterator(sliced(X, Y).batch(6)).get_next()
        return {"x": x, "again": x, "constant": constant, "array": np.arange(3)}, y

    assert batches(call(input_fn)) == [
        (
            {"x": X.tolist(), "again": X.tolist(), "constant": [7.0] * 9, "array": [0, 1, 2]},
            Y.tolist(),
        )
    ]


def test_elements_returned_in_another_order_are_not_mixed_up() -> None:
    def input_fn() -> Any:
        x, y = v1.data.make_one_shot_iterator(sliced(Y, Y * 10).batch(6)).get_next()
        return {"y": y, "a": x}

    assert batches(call(input_fn)) == [({"y": (Y * 10).tolist(), "a": Y.tolist()}, None)]


def test_lists_in_features_stay_lists() -> None:
    def input_fn() -> Any:
        x, y = v1.data.make_one_shot_iterator(sliced(X, Y).batch(6)).get_next()
        return {"columns": [x[:, 0], x[:, 1]]}, y

    (features, _), *_ = batches(call(input_fn))
    assert features == {"columns": [X[:, 0].tolist(), X[:, 1].tolist()]}


def test_shapes_told_by_set_shape_survive() -> None:
    def input_fn() -> Any:
        x = v1.data.make_one_shot_iterator(sliced(X).batch(2)).get_next()
        x = tf.numpy_function(lambda value: value, [x], tf.float32)
        x.set_shape([None, 2])
        return x

    given = call(input_fn)
    assert given.element_spec[0] == tf.TensorSpec([None, 2], tf.float32)
    assert not given.resumable
    assert batches(given, 1) == [(X[:2].tolist(), None)]


def test_elements_without_labels_in_the_dataset_pass() -> None:
    def input_fn() -> Any:
        features, labels = v1.data.make_one_shot_iterator(
            tf.data.Dataset.from_tensors(({"x": [1]}, None))
        ).get_next()
        assert labels is None
        return {"x": features["x"] + 1}, labels

    assert batches(call(input_fn)) == [({"x": [2]}, None)]


def test_the_iterator_tells_its_types_and_may_be_made_saveable() -> None:
    def input_fn() -> Any:
        iterator = v1.data.make_one_shot_iterator(sliced(X, Y).batch(2))
        assert iterator.output_types == (tf.float32, tf.int64)
        assert iterator.output_shapes[0].as_list() == [None, 2]
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        v1.add_to_collection(v1.GraphKeys.SAVEABLE_OBJECTS, saveable)
        return iterator.get_next()

    assert len(batches(call(input_fn))) == 3


def test_the_datasets_options_are_kept() -> None:
    def input_fn() -> Any:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        dataset = tf.data.Dataset.range(4).with_options(options)
        return v1.data.make_one_shot_iterator(dataset).get_next()

    policy = call(input_fn).dataset.options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_arrays_are_not_copied_into_the_graph() -> None:
    data = {"x": np.zeros((1000, 100)), "y": (np.arange(1000), np.array(["a"] * 1000))}

    def input_fn() -> Any:
        dataset = v1.data.Dataset.from_tensor_slices(data).batch(1000)
        return v1.data.make_one_shot_iterator(dataset).get_next()

    given = call(input_fn)
    assert given.keep_alive[0].graph.as_graph_def().ByteSize() < 20_000
    (features, _), *_ = batches(given)
    assert features["y"][0] == list(range(1000))


def test_a_placeholder_that_nobody_feeds_is_named() -> None:
    def input_fn() -> Any:
        rows = v1.placeholder(tf.float32, [None, 2], name="rows")
        return v1.data.make_initializable_iterator(sliced(rows)).get_next()

    given = call(input_fn)  # a hook may feed it until the first batch is read
    expected = r"placeholder .{0,2}'rows.{0,2}', and nobody feeds it.*from_tensor_slices"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        batches(given)


def test_a_placeholder_that_matters_to_nothing_is_allowed() -> None:
    def input_fn() -> Any:
        v1.placeholder(tf.float32)
        return tf.data.Dataset.range(2)

    given = call(input_fn)
    assert not given.endless_constant
    assert batches(given) == [(0, None), (1, None)]


def test_a_file_that_a_queue_names_and_nobody_has_is_told_in_one_sentence(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.txt")

    def input_fn():
        names = v1.train.string_input_producer([missing], num_epochs=1)
        _, line = v1.TextLineReader().read(names)
        return {"x": v1.train.batch([line], 2)}

    given = call(input_fn)
    with (
        pytest.raises(InputError, match=f"raised NotFoundError after 0 batches: {missing}"),
        faults.told_plainly(lambda: given),
    ):
        list(given.dataset)


def test_queues_are_filled_and_read_until_they_are_empty() -> None:
    def input_fn() -> Any:
        number = v1.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
        return v1.train.batch([number], batch_size=2, allow_smaller_final_batch=True)

    given = call(input_fn)
    assert not given.endless_constant
    assert batches(given) == [([0, 1], None), ([2, 3], None), ([4], None)]


def test_a_limit_of_epochs_counts_what_is_read() -> None:
    def input_fn() -> Any:
        return v1.train.limit_epochs(tf.constant([[1.0], [2.0]]), num_epochs=3)

    assert batches(call(input_fn)) == [([[1.0], [2.0]], None)] * 3


def test_iterators_without_a_dataset_of_their_own_are_refused() -> None:
    def input_fn() -> Any:
        iterator = v1.data.Iterator.from_structure(tf.int64, [])
        iterator.make_initializer(tf.data.Dataset.range(3))
        return iterator.get_next()

    with pytest.raises(InputError, match=r"from_structure .*return the Dataset"):
        call(input_fn)


def test_three_tensors_are_refused() -> None:
    with pytest.raises(InputError, match=r"as a len 2 tuple.*a tuple of 3"):
        call(lambda: v1.data.make_one_shot_iterator(sliced(X, Y, Y).batch(2)).get_next())


def test_graph_only_calls_lead_to_graph_mode() -> None:
    def input_fn() -> Any:
        x = tf.constant([1.0, 2.0], name="mine")
        return {x.op.name: x}

    assert batches(call(input_fn), 1) == [({"mine": [1.0, 2.0]}, None)]


def test_the_users_exception_in_graph_mode_passes_unchanged() -> None:
    def input_fn() -> Any:
        v1.data.make_one_shot_iterator(sliced(X)).get_next()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call(input_fn)


def test_user_code_cannot_swallow_the_switch_to_graph_mode() -> None:
    def input_fn() -> Any:
        try:
            return v1.data.make_one_shot_iterator(sliced(Y)).get_next()
        except Exception:
            return {"swallowed": [1]}

    assert batches(call(input_fn), 1) == [(0, None)]


def test_tensorflow_is_as_before_after_the_call() -> None:
    before = [dict(vars(cls)) for cls in (tf.data.Dataset, v1.data.Dataset)]
    with pytest.raises(KeyError):
        call(lambda: {}["missing"])
    call(lambda: v1.data.make_one_shot_iterator(sliced(Y)).get_next())
    assert [dict(vars(cls)) for cls in (tf.data.Dataset, v1.data.Dataset)] == before


def test_other_threads_keep_their_v1_iterators() -> None:
    seen = []

    def read_elsewhere() -> None:
        seen.append(int(v1.data.make_one_shot_iterator(tf.data.Dataset.range(5, 9)).get_next()))

    def input_fn() -> Any:
        thread = threading.Thread(target=read_elsewhere)
        thread.start()
        thread.join()
        return tf.data.Dataset.range(1)

    call(input_fn)
    assert seen == [5]


def test_the_python_functions_of_the_graph_live_as_long_as_the_input() -> None:
    def input_fn() -> Any:
        y = v1.data.make_one_shot_iterator(sliced(Y).batch(3)).get_next()
        return tf.py_function(lambda value: value * 3, [y], tf.int64)

    given = call(input_fn)
    gc.collect()
    assert batches(given) == [([0, 3, 6], None), ([9, 12, 15], None)]


V2_BEHAVIOUR_OFF = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from estimand.core import tf_private
from estimand.inputs.contract import call_input_fn

def input_fn():
    data = {"words": np.array(["a", "b", "c"]), "y": np.arange(3)}
    batch = tf.data.Dataset.from_tensor_slices(data).batch(2).make_one_shot_iterator().get_next()
    initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], [7, 8], tf.string, tf.int32)
    table = tf.lookup.StaticHashTable(initializer, -1)
    return table.lookup(batch["words"]), tf.cond(batch["y"][0] > 0, lambda: 1, lambda: 0)

with tf_private.eager_mode():
    given = call_input_fn(input_fn, mode="train", params=None, config=None)
    print([[np.asarray(t).tolist() for t in given.unpack(e)] for e in given.dataset])
"""


@pytest.mark.slow
def test_programs_that_switch_v2_behaviour_off() -> None:
    process = forked.run(["-c", V2_BEHAVIOUR_OFF])
    assert process.stdout.strip() == "[[[7, 8], 0], [[-1], 1]]", process.stderr
