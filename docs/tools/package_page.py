"""What a package index shows: README.md with links that work there, and the addresses.

hatchling calls it while it builds. Where the repository lies is told when a release is built:

    ESTIMAND_REPOSITORY=https://... python -m build

with the address of a repository whose files are below /blob/HEAD and /raw/HEAD, as on GitHub and
GitLab. Without it there are no addresses, and links within the repository are plain text, pictures
left out: nothing leads nowhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or picture within the repository: its path has no scheme.
_INSIDE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?![a-z]+:)(?P<path>[^)\s]+)\)")
_EMPTY_ROW = re.compile(r"^\|[ |]*\|\n", re.M)  # of a table of pictures
_ADDRESSES = {
    "Documentation": "/blob/HEAD/docs/index.md",
    "Source": "",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Issues": "/issues",
}


def readme(text: str, repository: str) -> str:
    """README.md as it can be read outside of the repository."""

    def moved(match: re.Match[str]) -> str:
        if not repository:
            return "" if match["picture"] else match["text"]
        kind = "raw" if match["picture"] else "blob"
        target = f"{repository}/{kind}/HEAD/{match['path']}"
        return f"{match['picture']}[{match['text']}]({target})"

    return _EMPTY_ROW.sub("", _INSIDE.sub(moved, text))


def urls(repository: str) -> dict[str, str]:
    return {name: repository + path for name, path in _ADDRESSES.items()} if repository else {}


class PackagePage(MetadataHookInterface):  # type: ignore[misc]
    """Sets the fields that pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get("ESTIMAND_REPOSITORY", "").rstrip("/")
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, repository)}
        metadata["urls"] = urls(repository)
