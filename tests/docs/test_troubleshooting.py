"""Messages that docs/troubleshooting.md quotes are those of the package."""

from __future__ import annotations

import pytest

from tests.docs.messages import is_in_the_source
from tests.docs.pages import DOCS, blocks

MESSAGES = [block.text for block in blocks(DOCS / "troubleshooting.md") if block.kind == "text"]


def test_there_are_messages() -> None:
    assert len(MESSAGES) >= 30


@pytest.mark.parametrize("message", MESSAGES, ids=lambda text: text[:50].strip())
def test_message_is_in_the_source(message: str) -> None:
    assert is_in_the_source(message)


@pytest.mark.parametrize(
    "message",
    ["The moon has to be full, given: ….", "Missing train_op. Please add one.", "…", "not there"],
)
def test_a_message_that_nobody_says_is_not(message: str) -> None:
    assert not is_in_the_source(message)
