"""What scikit-learn hands over as X, as features of a model and the columns that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from estimand.core.errors import InputError
from estimand.features import feature_column as column

Features = dict[str, np.ndarray]

ARRAY = "x"  # what an array, which has no names, is called as a feature


@dataclass(frozen=True)
class Layout:
    """The features that a model was fitted on: an array as one, a DataFrame one per column."""

    width: int
    words: Mapping[str, tuple[str, ...]] | None  # by text column those it has; None: an array

    @classmethod
    def of(cls, model: Any, x: Any) -> Layout:
        """As the rows of a `fit` have it; notes their names and number at the model."""
        x = _of_pandas(x)
        if not _is_frame(x):
            array = validate_data(model, x, dtype=np.float32)
            return cls(array.shape[1], None)
        validate_data(model, x, skip_check_array=True)
        words = {name: tuple(np.unique(_texts(x[name]))) for name in _text_columns(x)}
        return cls(x.shape[1], words)

    def features(self, model: Any, x: Any) -> Features:
        """Rows as features.

        Raises:
          ValueError: they are not those the model was fitted on, or hold what is no number.
        """
        x = _of_pandas(x)
        if self.words is None:
            return {ARRAY: validate_data(model, x, dtype=np.float32, reset=False)}
        validate_data(model, x, skip_check_array=True, reset=False)
        features = {name: _texts(x[name]) for name in self.words}
        numbers = [name for name in x.columns if name not in self.words]
        if numbers:
            array = check_array(x[numbers], dtype=np.float32, input_name="X")
            features |= {name: array[:, place] for place, name in enumerate(numbers)}
        return features

    def columns(self, features: Features) -> list[Any]:
        """Numbers as they are; a word as one of those that were there at the fit."""
        if self.words is None:
            return [column.numeric_column(ARRAY, shape=(self.width,))]
        return [
            column.indicator_column(
                column.categorical_column_with_vocabulary_list(name, self.words[name])
            )
            if name in self.words
            else column.numeric_column(name)
            for name in features
        ]


def _of_pandas(x: Any) -> Any:
    """A DataFrame as one of pandas; all else as it is."""
    if not _is_frame(x) or hasattr(x, "iloc"):
        return x
    if not hasattr(x, "to_pandas"):
        raise InputError(
            f"X is a {type(x).__module__}.{type(x).__qualname__}, and has to be an array or a "
            "DataFrame of pandas or polars."
        )
    return x.to_pandas()


def _is_frame(x: Any) -> bool:
    """A DataFrame whose columns have texts as names; all others are read as arrays."""
    return hasattr(x, "columns") and all(isinstance(name, str) for name in x.columns)


def _text_columns(frame: Any) -> list[str]:
    return [name for name in frame.columns if frame[name].dtype.kind not in "iufb"]


def _texts(values: Any) -> np.ndarray:
    """Also of categories and objects; a missing value is a word of its own."""
    missing = np.asarray(values.isna())
    return np.where(missing, "", np.asarray(values.astype(str), dtype=object)).astype(str)
