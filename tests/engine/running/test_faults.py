"""Errors of a step in the user's words: what is taken out of a message, and who may speak."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.errors import EstimandError, InputError
from estimand.engine.rewriting.inlining import GraphCopy
from estimand.engine.running import faults

v1 = tf.compat.v1


class Source:
    """Files that know what is wrong with themselves."""

    def __init__(self, told: Exception | None = None, skipped: str | None = None) -> None:
        self.told, self.skipped = told, skipped

    def explain_error(self, error: BaseException) -> Exception | None:
        return self.told

    def report_skipped(self) -> str | None:
        return self.skipped


class Given:
    """As much of an input as is asked here."""

    def __init__(self, *sources: Source) -> None:
        self.sources = sources


def invalid(message: str) -> tf.errors.InvalidArgumentError:
    return tf.errors.InvalidArgumentError(None, None, message)


def raised(error: Exception, *sources: Source, eager: bool = False) -> BaseException:
    """What comes out when `error` happens inside."""
    given: Any = Given(*sources)
    try:
        with faults.told_plainly(lambda: given, eager=eager):
            raise error
    except Exception as told:
        return told


NOISY = invalid("{{function_node f}} Too large [[{{node step/assert}}]] [Op:While]")
UNDECODABLE = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
PLAIN = InputError("row 7 of a.csv has no price")


def test_error_is_of_the_same_kind_and_says_the_sentence_only() -> None:
    told = raised(NOISY)
    assert isinstance(told, tf.errors.InvalidArgumentError) and told.message == "Too large"
    assert told.__cause__ is NOISY


def test_error_with_nothing_to_take_out_stays_the_same() -> None:
    error = invalid("Too large")
    assert raised(error) is error


def test_error_that_eager_code_raised_already_points_at_its_line() -> None:
    assert raised(NOISY, eager=True) is NOISY


@pytest.mark.parametrize(
    "error",
    [tf.errors.OutOfRangeError(None, None, "[[{{node a}}]]"), EstimandError("[[{{node a}}]]")],
)
def test_end_of_the_input_and_what_is_ours_pass(error: Exception) -> None:
    assert raised(error, Source(PLAIN)) is error


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("error", [NOISY, UNDECODABLE])
def test_source_that_knows_what_is_wrong_says_so(error: Exception, eager: bool) -> None:
    assert raised(error, Source(None), Source(PLAIN), eager=eager) is PLAIN


def test_cause_that_a_source_names_stays() -> None:
    told, cause = InputError("a.csv is no text"), ValueError("row 3")
    told.__cause__ = cause
    assert raised(NOISY, Source(told)).__cause__ is cause


def test_where_no_source_knows_the_rest_is_said_plainly() -> None:
    assert str(getattr(raised(NOISY, Source()), "message", "")) == "Too large"
    assert raised(UNDECODABLE, Source()) is UNDECODABLE


def test_errors_of_other_kinds_are_none_of_ours() -> None:
    error = KeyError("[[{{node a}}]]")
    assert raised(error, Source(PLAIN)) is error


def test_input_may_not_be_there_yet() -> None:
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match=r"^Too large$"),
        faults.told_plainly(lambda: None),
    ):
        raise NOISY


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_left_out_is_told_however_it_ends(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given: Any = Given(Source(skipped="2 rows of a.csv were left out"), Source())
    with caplog.at_level(logging.WARNING, "tensorflow"):
        try:
            with faults.told_plainly(lambda: given):
                if fails:
                    raise NOISY
        except tf.errors.InvalidArgumentError:
            assert fails
    assert caplog.messages == ["2 rows of a.csv were left out"]


# The sentence inside a message


def as_a_step(function: Any) -> None:
    tf.raw_ops.StatefulPartitionedCall(
        args=[], Tout=[tf.float32], f=tf.function(function, autograph=False).get_concrete_function()
    )


def as_a_hook_does(function: Any) -> None:
    v1.wrap_function(lambda: [function()], [])()


def as_a_part_of_another(function: Any) -> None:
    graph = tf.function(function, autograph=False).get_concrete_function().graph
    tf.function(lambda: GraphCopy(graph).place(graph.outputs, [], []), autograph=False)()


def not_a_number() -> tf.Tensor:
    return tf.debugging.check_numerics(tf.math.log(-1.0), "broken")


def not_a_number_in_a_branch() -> tf.Tensor:
    return tf.cond(tf.random.uniform([]) < 2.0, not_a_number, lambda: 0.0)


@pytest.mark.parametrize("function", [not_a_number, not_a_number_in_a_branch])
@pytest.mark.parametrize("run", [as_a_step, as_a_hook_does, as_a_part_of_another])
def test_sentence_is_told_however_it_was_run(run: Any, function: Any) -> None:
    """TensorFlow puts other things around it in each case."""
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(function)
    assert faults.plain_text(caught.value.message) == "broken : Tensor had NaN values"


def test_label_that_is_out_of_range_of_a_sparse_loss() -> None:
    def loss() -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant([4]), tf.zeros([1, 3]))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        as_a_step(loss)
    assert faults.plain_text(caught.value.message) == faults.label_out_of_range("4", "3")


@pytest.mark.parametrize("value", ["Nan", "Infinity"])
@pytest.mark.parametrize("place", ["", "step/", "step_3/", "StatefulPartitionedCall/step/"])
def test_histogram_is_told_by_the_name_that_the_user_gave(value: str, place: str) -> None:
    given = f"{value} in summary histogram for: {place}net/weights [[{{{{node h}}}}]]"
    message = faults.plain_text(given)
    assert message == faults.unfit_for_histogram("net/weights", value)
    assert ("has NaN among" in message) == (value == "Nan")


RANGE = "Labels must be >= 0. Labels must be <= n_classes - 1, which is 2"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (
            f"[{RANGE}. This batch has the label] [5] [in row 3]",
            "Labels must be <= n_classes - 1, which is 2: this batch has the label 5 in row 3.",
        ),
        (
            f"[{RANGE}. This batch has the label] [-1]",
            "Labels must be >= 0: this batch has the label -1.",
        ),
        (
            f"[{RANGE}. The labels of this batch go from] [-3] [to] [2]",
            "Labels must be >= 0: the labels of this batch go from -3 to 2.",
        ),
    ],
)
def test_of_two_rules_on_labels_the_broken_one_is_told(given: str, plain: str) -> None:
    told = faults.plain_text(f"assertion failed: {given}")
    assert told == f"{plain} This model takes labels from 0 to 2; n_classes says so."


def test_word_that_is_not_in_the_vocabulary_is_quoted_as_it_was_written() -> None:
    rule = "label_vocabulary (a) does not contain the label"
    given = rf"assertion failed: [{rule}] [z\303\274rich] [in row 4]"
    assert faults.plain_text(given) == f"{rule} 'zürich' in row 4"


def test_of_several_errors_the_first_is_told() -> None:
    several = "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  first\n  (1) INTERNAL:  second"
    assert faults.plain_text(several) == "first"


def test_error_of_a_function_that_was_given_to_a_dataset() -> None:
    def broken(x: tf.Tensor) -> tf.Tensor:
        return tf.debugging.check_numerics(tf.math.log(x), "broken row")

    dataset = tf.data.Dataset.from_tensors(-1.0).map(broken)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        next(iter(dataset))
    assert faults.plain_text(caught.value.message) == (
        "In a function given to the Dataset's Map: broken row : Tensor had NaN values"
    )


def test_own_brackets_of_a_message_stay() -> None:
    assert (
        faults.plain_text("Expected [2] columns [[7]], got 3")
        == "Expected [2] columns [[7]], got 3"
    )
