"""What tests of heads in the wild import from `head_utils`; the first argument is a TestCase."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def _initialize_variables(test_case: Any, scaffold: Any) -> None:
    scaffold.finalize()
    test_case.assertIsNone(scaffold.init_feed_dict)
    test_case.assertIsNone(scaffold.init_fn)
    scaffold.init_op.run()
    scaffold.ready_for_local_init_op.eval()
    scaffold.local_init_op.run()
    scaffold.ready_op.eval()
    test_case.assertIsNotNone(scaffold.saver)


def _assert_simple_summaries(
    test_case: Any, expected_summaries: Any, summary_str: bytes, tol: float = 1e-6
) -> None:
    """The scalars of a serialized summary equal the expected ones."""
    summary = tf.compat.v1.summary.Summary()
    summary.ParseFromString(summary_str)
    by_tag = {value.tag: value.simple_value for value in summary.value}
    test_case.assertAllClose(expected_summaries, by_tag, rtol=tol, atol=tol)


def _assert_no_hooks(test_case: Any, spec: Any) -> None:
    test_case.assertAllEqual([], spec.training_chief_hooks)
    test_case.assertAllEqual([], spec.training_hooks)
