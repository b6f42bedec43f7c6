"""Model functions of all styles; importing this registers them."""

from tests.differential.zoo import failing, keras_style, mixed_style, v1_style
from tests.differential.zoo.registry import PROGRAMS

__all__ = ["PROGRAMS", "failing", "keras_style", "mixed_style", "v1_style"]
