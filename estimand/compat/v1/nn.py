"""`tf.compat.v1.nn` with the recurrent cells it lost: everything else is TensorFlow's.

>>> from estimand.compat.v1 import nn
>>> nn.rnn_cell.GRUCell.__name__, nn.dynamic_rnn.__name__
('GRUCell', 'dynamic_rnn')
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1 import rnn_cell

__all__ = ["rnn_cell"]


def __getattr__(name: str) -> Any:
    return getattr(tf.compat.v1.nn, name)


def __dir__() -> list[str]:
    return sorted({*dir(tf.compat.v1.nn), "rnn_cell"})
