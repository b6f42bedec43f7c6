"""Whether this process runs code that was written for tf.estimator, and is to be let through."""

from __future__ import annotations

# Set by estimand.install(): what tf.estimator did in silence is done, with a warning.
expected = False
