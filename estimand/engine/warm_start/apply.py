"""Warm start: begin with the values of another model's checkpoint or SavedModel.

What is taken follows `tf.estimator`: a path, or a pattern given as one string, takes *trainable*
variables only; a list takes from all saved variables, optimizer slots and `global_step`
included. The live variables are filled directly, nothing is added to any graph.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import WarmStartError
from estimand.engine.checkpoints.fitting import Wanted
from estimand.engine.checkpoints.reader import read_tensors
from estimand.engine.warm_start.selection import (
    Part,
    check_all_used,
    chosen_names,
    grouped,
    some,
    trainable_only,
)
from estimand.engine.warm_start.settings import VocabInfo, WarmStartSettings, normalize
from estimand.engine.warm_start.source import Source, checkpoint_to_start_from, open_source
from estimand.engine.warm_start.vocabulary import Vocabularies, check_vocab, remap

__all__ = [
    "VocabInfo",
    "WarmStartReport",
    "WarmStartSettings",
    "checkpoint_to_start_from",
    "normalize",
    "warm_start",
]

# Values are read in portions of about this size, so that a big model is not held twice.
_PORTION_BYTES = 256 * 2**20

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class WarmStartReport:
    """What became of each variable of the model. Parts of one variable are listed as one."""

    checkpoint: str
    taken: list[str] = field(default_factory=list)
    remapped: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        count = len(self.taken) + len(self.remapped)
        by_word = f" ({len(self.remapped)} of them by vocabulary)" if self.remapped else ""
        kept = len(self.missing) + len(self.untouched)
        return (
            f"Warm-starting from: {self.checkpoint}. Warm-started {count} variables{by_word}; "
            f"{kept} keep their initial values."
        )


# ------------------------------------------------------------------ warm start


@dataclass(frozen=True)
class _Target:
    """A variable of the model, in one or more parts, and the tensor it is to be taken from."""

    name: str
    key: str
    parts: list[Part]
    vocab: Any = None


def warm_start(
    settings: WarmStartSettings,
    variables: Mapping[str, tf.Variable],
    trainable_names: Collection[str],
) -> WarmStartReport:
    """Fill live variables, given by name, from the checkpoint that `settings` tell.

    Nothing is changed unless everything that was asked for can be found and fits.

    >>> import tempfile
    >>> old = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0], name="w"))
    >>> path = old.write(tempfile.mkdtemp() + "/old")
    >>> w = tf.Variable([0.0, 0.0])
    >>> warm_start(WarmStartSettings(path), {"w": w}, ["w"]).taken
    ['w']
    >>> w.numpy()
    array([1., 2.], dtype=float32)
    """
    with tf_private.eager_mode():
        source = open_source(checkpoint_to_start_from(settings.ckpt_to_initialize_from))
        everything = grouped(variables, variables)
        chosen = grouped(variables, chosen_names(settings, variables, set(trainable_names)))
        check_all_used(settings, chosen)
        if not settings.vars_to_warm_start:
            chosen = {n: p for n, p in chosen.items() if n in settings.var_name_to_vocab_info}
        targets, missing = _targets(settings, source, chosen)
        by_word = _fitting_vocabularies(source, targets)
        _check_shapes(settings, source, targets)
        _take_over(source, [t for t in targets if t.vocab is None])
        for target in targets:
            if target.vocab is not None:
                _take_over_by_word(source, target, by_word)
    report = WarmStartReport(
        checkpoint=source.path,
        taken=[t.name for t in targets if t.vocab is None],
        remapped=[t.name for t in targets if t.vocab is not None],
        missing=missing,
        untouched=[n for n in everything if n not in chosen],
    )
    _log_report(report, settings)
    return report


def _log_report(report: WarmStartReport, settings: WarmStartSettings) -> None:
    _log.info("%s", report)
    if report.missing:
        _log.warning(
            "%s lacks %d variables, which keep their initial values: %s",
            report.checkpoint,
            len(report.missing),
            some(report.missing),
        )
    if not (report.taken or report.remapped or report.missing):
        _log.warning(
            "Nothing was warm-started: vars_to_warm_start=%r matches no %s of the model. It has: "
            "%s",
            settings.vars_to_warm_start,
            "trainable variable" if trainable_only(settings) else "variable",
            some(report.untouched),
        )


# ------------------------------------------------------------------ does it fit


def _targets(
    settings: WarmStartSettings, source: Source, chosen: Mapping[str, list[Part]]
) -> tuple[list[_Target], list[str]]:
    """What is to be taken from where, and the names of what the checkpoint lacks."""
    targets, missing = [], []
    for name, parts in chosen.items():
        old_name = settings.var_name_to_prev_var_name.get(name) or name
        key = source.key(old_name)
        if key is None:
            missing.append((name, old_name))
        else:
            vocab = settings.var_name_to_vocab_info.get(name)
            targets.append(_Target(name, key, parts, vocab))
            _log.debug("Warm-starting variable: %s; prev_var_name: %s", name, old_name)
    if missing and not settings.ignore_missing:
        raise WarmStartError(source.missing_message(settings.ckpt_to_initialize_from, missing))
    return targets, [name for name, _ in missing]


def _fitting_vocabularies(source: Source, targets: list[_Target]) -> Vocabularies:
    """The vocabularies, matched; raises where they or the shapes do not fit."""
    by_word = Vocabularies()
    for target in targets:
        if target.vocab is not None:
            old_shape = source.shapes[target.key]
            full_shape = target.parts[0].full_shape
            check_vocab(target.name, target.vocab, full_shape, target.key, old_shape)
            by_word.old_indices(target.name, target.vocab, old_shape[target.vocab.axis])
    return by_word


def _check_shapes(settings: WarmStartSettings, source: Source, targets: list[_Target]) -> None:
    wrong = []
    for target in targets:
        part, shape = target.parts[0], source.shapes[target.key]
        whole = tf.TensorShape(part.full_shape) if part.slice_spec else part.variable.shape
        if target.vocab is None and not whole.is_compatible_with(shape):
            wrong.append((target.name, str(whole), f"{target.key} ({list(shape)})"))
        if not _convertible(source.dtypes[target.key], part.variable.dtype):
            raise WarmStartError(
                f"Variable {target.name} holds {part.variable.dtype.name}, but tensor "
                f"{target.key} in {source.path} holds {source.dtypes[target.key].name}."
            )
    if not wrong:
        return
    lines = [
        f"Shape of variable {name}:0 ({here}) doesn't match with shape of tensor {there} from "
        "checkpoint reader."
        for name, here, there in wrong
    ]
    # Not followed by more of a name: "kernel" shall not leave out "kernel_2", only its slots.
    others = "(?!(?:" + "|".join(re.escape(name) for name, _, _ in wrong) + ")[:/])"
    pattern = others if trainable_only(settings) else [others]
    lines.append(
        f"In {settings.ckpt_to_initialize_from}. To take all others: est.WarmStartSettings(..., "
        f"vars_to_warm_start={pattern!r}). If rows or columns belong to the words of a vocabulary "
        f"that has changed: var_name_to_vocab_info={{{wrong[0][0]!r}: est.VocabInfo(...)}}."
    )
    raise WarmStartError("\n".join(lines))


def _convertible(old: tf.DType, new: tf.DType) -> bool:
    return (
        old == new or (old.is_floating and new.is_floating) or (old.is_integer and new.is_integer)
    )


# ------------------------------------------------------------------ taking over


def _take_over(source: Source, targets: list[_Target]) -> None:
    parts = [(target.key, part) for target in targets for part in target.parts]
    for portion in _portions(parts):
        wanted = [Wanted(key, source.dtypes[key], None, part.slice_spec) for key, part in portion]
        for (_, part), value in zip(portion, read_tensors(source.path, wanted), strict=True):
            part.variable.assign(tf.cast(value, part.variable.dtype))


def _portions(parts: list[tuple[str, Part]]) -> Iterator[list[tuple[str, Part]]]:
    portion: list[tuple[str, Part]] = []
    size = 0
    for key, part in parts:
        portion.append((key, part))
        size += (part.variable.shape.num_elements() or 0) * part.variable.dtype.size
        if size >= _PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _take_over_by_word(source: Source, target: _Target, by_word: Vocabularies) -> None:
    key = target.key
    old = read_tensors(source.path, [Wanted(key, source.dtypes[key], None)])[0].numpy()
    indices = by_word.old_indices(target.name, target.vocab, old.shape[target.vocab.axis])
    for part in target.parts:
        value = tf.constant(remap(part, target.vocab, old, indices))
        part.variable.assign(tf.cast(value, part.variable.dtype))
