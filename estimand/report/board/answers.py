"""What a model answers: precision and recall at each checkpoint, the worst rows and images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.estimator.estimator import Estimator
from estimand.report import classification, regression, sample
from estimand.report.history import History
from estimand.report.judgement import judge
from estimand.report.sample import Sample

Judged = classification.Judged | regression.Judged

_WORST = 12
_COLORS = (1, 3, 4)
_LONGEST = 80


def record(estimator: Estimator, input_fn: Callable[..., Any], rows: int, item: History) -> None:
    """Write into the default summary writer what the checkpoints answer to the same rows."""
    try:
        parts = sample.take(estimator, input_fn, rows)
    except sample.NotJudgedError as error:
        tf.summary.text("worst_answers", str(error))
        return
    for taken in parts:
        _record_part(estimator, taken, item)


def _record_part(estimator: Estimator, taken: Sample, item: History) -> None:
    judged: Judged | None = None
    for checkpoint in item.checkpoints:
        if checkpoint.problem is None:
            said = sample.answers(estimator, taken, f"{item.directory}/{checkpoint.name}")
            judged = judge(taken, said)
            if isinstance(judged, classification.Judged) and judged.is_finite.all():
                _precision_and_recall(_tag("precision_recall", taken), judged, checkpoint.step)
    if judged is not None:
        _worst_rows(taken, judged, item.checkpoints[-1].step)


def _tag(what: str, taken: Sample) -> str:
    return f"{what}/{taken.title}" if taken.title else what


def _precision_and_recall(tag: str, judged: classification.Judged, step: int) -> None:
    from tensorboard.plugins.pr_curve import summary as pr_curve

    for name, is_it, probability in classification.against_the_rest(judged):
        given = np.clip(probability.astype(np.float64), 0.0, 1.0)  # rounding may leave [0, 1]
        made = pr_curve.pb(f"{tag}/{name}", is_it.astype(bool), given)
        tf.summary.experimental.write_raw_pb(made.SerializeToString(), step)


def _worst_rows(taken: Sample, judged: Judged, step: int) -> None:
    rows, heading, told = _worst(judged)
    if not len(rows):
        return
    flat = {name: values.reshape(len(values), -1) for name, values in taken.features.items()}
    columns = {name: values[:, 0] for name, values in flat.items() if values.shape[1] == 1}
    lines = [[*columns, *heading], ["---"] * (len(columns) + len(heading))]
    for row, said in zip(rows, told, strict=True):
        lines.append([*(_shown(values[row]) for values in columns.values()), *said])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    tf.summary.text(_tag("worst_answers", taken), table, step)
    each = "\n".join(f"{number}. {', '.join(said)}" for number, said in enumerate(told, start=1))
    about = f"{', '.join(heading)} of each:\n\n{each}"
    for name, values in taken.features.items():
        if values.ndim == 4 and values.shape[-1] in _COLORS:
            images, tag = (
                _from_0_to_1(values[rows]),
                f"{_tag('worst_answers', taken)}/{name or 'image'}",
            )
            tf.summary.image(tag, images, step, max_outputs=_WORST, description=about)


def _worst(judged: Judged) -> tuple[np.ndarray, list[str], list[list[str]]]:
    """The rows, and as a table what was true and what was said of each."""
    if isinstance(judged, regression.Judged):
        rows = np.argsort(-np.abs(judged.residuals))[:_WORST]
        numbers = [[f"{judged.truth[r]:.4g}", f"{judged.answer[r]:.4g}"] for r in rows]
        return rows, ["true", "predicted"], numbers
    wrong = np.flatnonzero(judged.truth != judged.answer)
    if judged.probabilities is None:
        sure = np.ones(len(wrong))
    else:
        sure = judged.probabilities[wrong, judged.answer[wrong]]
    order = np.argsort(-sure, kind="stable")[:_WORST]
    told = [
        [_name(judged, judged.truth[r]), _name(judged, judged.answer[r]), f"{p:.3f}"]
        for r, p in zip(wrong[order], sure[order], strict=True)
    ]
    return wrong[order], ["true", "answered", "probability"], told


def _name(judged: classification.Judged, number: int) -> str:
    return judged.names[number] if 0 <= number < len(judged.names) else "?"


def _shown(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else f"{value}"
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return cut.replace("|", "\\|").replace("\n", " ")


def _from_0_to_1(images: np.ndarray) -> np.ndarray:
    """Whatever range the model takes its images in, drawn from black to white."""
    if images.dtype == np.uint8:
        return images
    images = images.astype(np.float32)
    low, high = float(images.min()), float(images.max())
    if low >= 0.0 and high <= 1.0:
        return images
    return (images - low) / ((high - low) or 1.0)
