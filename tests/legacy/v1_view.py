"""`tf` as programs of the TensorFlow 1 years know it: `from tests.legacy.v1_view import tf`."""

from __future__ import annotations

from estimand.compat.v1.view import View, tf

__all__ = ["View", "tf"]
