"""What a user says about a warm start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core.errors import WarmStartError
from estimand.engine.checkpoints.files import saved_model_variables

VocabInfo = tf.compat.v1.train.VocabInfo


class _Fields(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[Any] | None
    var_name_to_vocab_info: Mapping[str, Any]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_Fields):
    """Which variables to take from which checkpoint.

    Args:
      ckpt_to_initialize_from: a checkpoint (`.../model.ckpt-1200`), a directory, of which the
        newest checkpoint is taken, or the directory of a SavedModel.
      vars_to_warm_start: a regular expression, matched at the start of the names of the
        *trainable* variables; or a list of such expressions, or of variables, which are looked
        for among all saved variables, optimizer slots and `global_step` included; or None for
        the variables in `var_name_to_vocab_info` only.
      var_name_to_vocab_info: a `VocabInfo` for each variable whose vocabulary has changed.
      var_name_to_prev_var_name: the names in the checkpoint of variables that were renamed.
      ignore_missing: let variables that the checkpoint lacks keep their initial values, with a
        warning, instead of raising.

    >>> WarmStartSettings("/models/wide", vars_to_warm_start="dense.*", ignore_missing=True)
    WarmStartSettings('/models/wide', vars_to_warm_start='dense.*', ignore_missing=True)
    """

    # Not one of the tuple's fields: code that unpacks four keeps working.
    ignore_missing: bool = False

    def __new__(
        cls,
        ckpt_to_initialize_from: str | bytes | os.PathLike[str],
        vars_to_warm_start: str | Sequence[Any] | None = ".*",
        var_name_to_vocab_info: Mapping[str, Any] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
        *,
        ignore_missing: bool = False,
    ) -> WarmStartSettings:
        if not ckpt_to_initialize_from:
            raise WarmStartError(
                "`ckpt_to_initialize_from` MUST be set in WarmStartSettings, but it is "
                f"{ckpt_to_initialize_from!r}. Give a checkpoint, a model_dir or a SavedModel."
            )
        settings = super().__new__(
            cls,
            os.fsdecode(ckpt_to_initialize_from),
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )
        settings.ignore_missing = bool(ignore_missing)
        return settings

    def _replace(self, **changes: Any) -> WarmStartSettings:
        now = {**self._asdict(), "ignore_missing": self.ignore_missing}
        return type(self)(**{**now, **changes})

    def __eq__(self, other: object) -> bool:
        same_flag = self.ignore_missing == getattr(other, "ignore_missing", False)
        return same_flag and tuple.__eq__(self, other)  # type: ignore[operator]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        shown = [repr(self.ckpt_to_initialize_from)]
        if self.vars_to_warm_start != ".*":
            shown.append(f"vars_to_warm_start={self.vars_to_warm_start!r}")
        for name in ("var_name_to_vocab_info", "var_name_to_prev_var_name", "ignore_missing"):
            if getattr(self, name):
                shown.append(f"{name}={getattr(self, name)!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def normalize(warm_start_from: Any) -> WarmStartSettings | None:
    """The settings that are meant by an estimator's `warm_start_from`.

    A directory is looked into only when the values are needed: the model to start from may
    still have to be trained.

    >>> normalize("/models/wide")
    WarmStartSettings('/models/wide')
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if not isinstance(warm_start_from, (str, bytes, os.PathLike)):
        raise WarmStartError(
            "warm_start_from must be a string or a WarmStartSettings, instead got "
            f"{type(warm_start_from)}: {warm_start_from!r}. Give a checkpoint, a model_dir or the "
            "directory of a SavedModel, or est.WarmStartSettings(...)."
        )
    path = os.fsdecode(warm_start_from)
    return WarmStartSettings((path and saved_model_variables(path)) or path)
