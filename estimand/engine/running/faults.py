"""Errors of a running step, told in the user's words: which file and row, not which node.

TensorFlow wraps what went wrong in the names of functions, nodes and devices that the engine
made up. Here the sentence is taken out again; where the input knows its source, the source
says what was wrong with it.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from estimand.core.errors import EstimandError
from estimand.inputs.contract import ModelInput

_log = logging.getLogger("tensorflow")

# What it says before a message, where a function is called from Python.
_WHERE_IT_WAS_BUILT = re.compile(
    r"^Graph execution error:\s*"
    r"(?:Detected at node [^\n]*\n(?:<stack traces unavailable>\n|[ \t][^\n]*\n|\n)*)*"
)
# What TensorFlow adds around a message, as far as it speaks of our own graphs.
_NOISE = re.compile(
    r"\{\{function_node [^}]*\}\}\s*"
    r"|\s*\[\[(?:(?:func=)?(?:\{\{function_node [^}]*\}\})*\{\{node [^}]*\}\}[^\]]*|\S+/_\d+)\]\]"
    r"|\n\t \[\[[\w.>/\\-]+\]\]"  # one line for each function that the node is in
    r"|\s*\[Op:[\w<>]+\](?: name:[^\n]*)?"
    r"|\s*(?:Original stack trace|Detected at node) .*"
    r"|\n?<stack traces unavailable>",
    re.DOTALL,
)
_FIRST_OF_SEVERAL = re.compile(
    r"^\d+ root error\(s\) found\.\s*\(0\)\s+\w+:\s+(.*?)(?:\s*\(1\)\s+\w+:.*)?$", re.DOTALL
)
# Before the name stands where the engine has placed the step.
_IN_A_HISTOGRAM = re.compile(
    r"^(Nan|Infinity) in summary histogram for: "
    r"(?:(?:(?:StatefulPartitionedCall|cond|while)(?:_\d+)?/)*step(?:_\d+)?/)?(\S+)"
)
# The parts of a sentence by which heads, and EstimatorSpec, insist on something.
_OF_OUR_OWN = re.compile(
    r"^assertion failed: \[((?:Labels must|label_vocabulary|The loss that) .*)\]$", re.DOTALL
)
# These hold what tf.estimator said of all labels out of range, whichever end they are at.
_OF_THE_RANGE = re.compile(
    r"^Labels must be >= 0\. (Labels must be <= \S+ - 1, which is (\d+))\. "
    r"(This batch has the label (\S+)|The labels of this batch go from \S+ to (\S+))(.*)$"
)
_OF_THE_VOCABULARY = re.compile(
    r"^(label_vocabulary \(.*\) does not contain the label) (.*?)( in row \d+)?$", re.DOTALL
)
_LABEL_OUT_OF_RANGE = re.compile(
    r"^Received a label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)\."
)
_OF_A_STAGE = re.compile(
    r"^Error in user-defined function passed to (\w+?)(?:Dataset)?(?::\d+)? transformation"
    r"(?: with iterator: \S+)?: "
)


@contextlib.contextmanager
def told_plainly(given: Callable[[], ModelInput | None], *, eager: bool = False) -> Iterator[None]:
    """Raise errors of the steps run inside in a readable form; report what the input skipped.

    `given` is what the input function gave, once it is known. Errors of eager steps already
    point at the user's own line: only what the input has to say replaces them.
    """
    try:
        yield
    except (tf.errors.OutOfRangeError, EstimandError):
        raise  # the end of the input is no fault, and what is ours is plain already
    except tf.errors.OpError as error:
        told = _told_by_source(error, given()) or (None if eager else _in_plain_words(error))
        if told is None:
            raise
        raise told from (told.__cause__ or error)
    except UnicodeDecodeError as error:
        # What TensorFlow's error turns into where its message quotes data that is not text.
        told = _told_by_source(error, given())
        if told is None:
            raise
        raise told from None
    finally:
        _report_skipped(given())


def _told_by_source(error: Exception, given: ModelInput | None) -> Exception | None:
    for source in given.sources if given is not None else ():
        told = source.explain_error(error)
        if told is not None:
            return told
    return None


def _in_plain_words(error: tf.errors.OpError) -> Exception | None:
    text = plain_text(error.message)
    if text == error.message:
        return None
    try:
        return type(error)(error.node_def, error.op, text)
    except TypeError:  # the base class itself also wants a code
        return None


def plain_text(message: str) -> str:
    """The sentence inside a message of TensorFlow.

    >>> plain_text("{{function_node f}} Input is empty. [[{{node a/b}}]] [Op:IteratorGetNext]")
    'Input is empty.'
    >>> plain_text("bad [[7]]\\n\\t [[{{node a}}]]\\n\\t [[while/_8/cond]] [Op:While]")
    'bad [[7]]'
    >>> plain_text("Not a number [[{{function_node loop}}{{node loop/step/log}}]]")
    'Not a number'
    >>> plain_text("assertion failed: [Labels must be <= 2. This batch has the label] [5]")
    'Labels must be <= 2. This batch has the label 5'
    >>> plain_text("assertion failed: [label_vocabulary (a) does not contain the label] [b c]")
    "label_vocabulary (a) does not contain the label 'b c'"
    """
    text = _NOISE.sub("", _WHERE_IT_WAS_BUILT.sub("", message)).strip()
    several = _FIRST_OF_SEVERAL.match(text)
    if several:
        text = several.group(1).strip()
    sentence = _OF_OUR_OWN.match(text)
    if sentence:
        return _sentence_on_labels(sentence.group(1).replace("] [", " "))
    unfit = _IN_A_HISTOGRAM.match(text)
    if unfit:
        return unfit_for_histogram(unfit.group(2), unfit.group(1))
    wrong_label = _LABEL_OUT_OF_RANGE.match(text)
    if wrong_label:
        return label_out_of_range(*wrong_label.groups())
    return _OF_A_STAGE.sub(r"In a function given to the Dataset's \1: ", text)


def _sentence_on_labels(text: str) -> str:
    word = _OF_THE_VOCABULARY.match(_unescaped(text))
    if word:
        return f"{word[1]} {word[2]!r}{word[3] or ''}"
    number = _OF_THE_RANGE.match(text)
    if not number:
        return text
    largest = int(number[2])
    too_large = float(number[4] or number[5]) > largest
    rule = number[1] if too_large else "Labels must be >= 0"
    what_was_given = f"{number[3][0].lower()}{number[3][1:]}{number[6]}"
    return (
        f"{rule}: {what_was_given}. This model takes labels from 0 to {largest}; n_classes says so."
    )


def _unescaped(text: str) -> str:
    """Words as they were given to an assertion, which writes all but ASCII as in C."""
    if not text.isascii():
        return text
    octets = text.encode().decode("unicode_escape", "replace").encode("latin-1", "replace")
    return octets.decode(errors="replace")


def label_out_of_range(label: str, classes: str) -> str:
    """What a sparse loss says, which does not know whether the label is wrong or the layer.

    >>> label_out_of_range("1", "1")[:79]
    'Received a label value of 1 which is outside the valid range of [0, 1): the log'
    """
    return (
        f"Received a label value of {label} which is outside the valid range of [0, {classes}): "
        f"the logits have {classes} values per row, so {classes} classes can be told apart. Let "
        "the last layer have as many units as there are classes, keras.layers.Dense(n_classes), "
        "and count classes from 0."
    )


def unfit_for_histogram(name: str, what: str = "Nan") -> str:
    """A summary that cannot be made, beginning as TensorFlow says it.

    >>> unfit_for_histogram("weights")[:39]
    'Nan in summary histogram for: weights: '
    """
    unfit = "NaN" if what == "Nan" else "infinity"
    return (
        f"{what} in summary histogram for: {name}: the tensor that model_fn gives to "
        f"summary.histogram under this name has {unfit} among its values. Either the features "
        "hold such a value, or training has diverged (a smaller learning rate, or clipped "
        "gradients, may help); to go on without summaries, set "
        "RunConfig(save_summary_steps=None)."
    )


def _report_skipped(given: ModelInput | None) -> None:
    for source in given.sources if given is not None else ():
        sentence = source.report_skipped()
        if sentence:
            _log.warning("%s", sentence)
