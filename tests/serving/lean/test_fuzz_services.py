"""Damaged and meaningless requests, once more, on the lean back end."""

from __future__ import annotations

from tests.serving.test_fuzz import test_damaged_grpc_requests  # noqa: F401
