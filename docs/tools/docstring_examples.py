"""An extension of griffe: what the pages of the API take from the source besides docstrings.

Examples (`>>> …`) become blocks of code. Settings are described by the text of their field:
`model_dir: str | None = _setting("Directory of checkpoints.")`.
"""

from __future__ import annotations

from typing import Any

import griffe

from docs.tools.docstrings import described, fenced


class DocstringExamples(griffe.Extension):
    """What griffe calls for each object that it reads."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.is_attribute and obj.docstring is None and obj.value is not None:
            text = described(str(obj.value))
            obj.docstring = griffe.Docstring(text, parent=obj) if text else None
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
