"""What the pages of the API make of docstrings, and of the texts of settings."""

from __future__ import annotations

import ast
import re

# From the first prompt to the next empty line: prompts, and what they print.
_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?!\s*$).*)*", flags=re.M)
_SETTING = re.compile(r"_(setting|flag|ignored)\(.*\)", flags=re.S)


def described(value: str) -> str | None:
    """The text of a field that is a setting; None: it has none, as arguments of its class have.

    >>> described('_flag(8500, "TCP port of gRPC; 0 for none.")')
    'TCP port of gRPC; 0 for none.'
    """
    if _SETTING.fullmatch(value) is None:
        return None
    texts = ast.parse(value, mode="eval").body.args[-1:]
    return str(ast.literal_eval(texts[0])) if texts else None


def fenced(text: str) -> str:
    """The text with a fence around each example.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nThat is all."))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    That is all.
    """

    def fence(match: re.Match[str]) -> str:
        indent = match["indent"]
        return f"{indent}```pycon\n{match[0]}\n{indent}```"

    return _EXAMPLE.sub(fence, text)
