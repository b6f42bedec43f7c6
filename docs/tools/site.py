"""What mkdocs does besides, while it builds the site.

- ARCHITECTURE.md, CHANGELOG.md and CONTRIBUTING.md, which lie beside the README, are pages too.
- Files of the repository that a page links to (`../examples/demo.py`) become pages that show them.
- Drawings are put into the page itself, so that they take its colours.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

REPOSITORY = Path(__file__).resolve().parents[2]
# Pages that are made of files above docs/.
ABOVE = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "bash", "Dockerfile": "docker"}
LINK = re.compile(r"\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
DRAWING = re.compile(
    r'<p><img alt="(?P<name>[^"]*)" src="(?P<path>[^"]*drawings/[^"]+\.svg)" ?/?></p>'
)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not below docs/."""
    for page, source in ABOVE.items():
        text = (REPOSITORY / source).read_text()
        files.append(File.generated(config, page, content=at_home(text)))
    for path in sorted(linked(files)):
        page = File.generated(config, page_of(path), content=shown(path))
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository become links to the pages that show them."""
    return LINK.sub(lambda match: redirected(match, page.file.src_uri), markdown)


def on_page_content(html: str, **_: Any) -> str:
    return DRAWING.sub(inline, html)


def at_home(text: str) -> str:
    """A text from beside docs/: its links as seen from within."""

    def moved(match: re.Match[str]) -> str:
        path, anchor = match["path"], match["anchor"] or ""
        if ":" in path:
            return match[0]
        pages = {source: page for page, source in ABOVE.items()}
        inside = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
        return f"]({pages.get(path, inside)}{anchor})"

    return LINK.sub(moved, text)


def linked(files: Files) -> set[str]:
    """Files of the repository outside of docs/ that a page links to."""
    found = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(file.content_string):
            path = outside(match["path"], file.src_uri)
            if path is not None:
                found.add(path)
    return found


def outside(path: str, page: str) -> str | None:
    """Where a link leads to, from the root of the repository, if that is a file beside docs/."""
    if ":" in path:
        return None
    full = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    if full.startswith(("docs/", "..")) or not (REPOSITORY / full).exists():
        return None
    return full


def page_of(path: str) -> str:
    return f"files/{path.replace('.', '_')}.md"


def redirected(match: re.Match[str], page: str) -> str:
    path = outside(match["path"], page)
    if path is None:
        return match[0]
    target = posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")
    return f"]({target}{match['anchor'] or ''})"


def shown(path: str) -> str:
    """A page with a file of the repository, or with all files of a folder."""
    full = REPOSITORY / path
    files = [full] if full.is_file() else sorted(one for one in full.iterdir() if one.is_file())
    parts = [f"---\nsearch:\n  exclude: true\n---\n# {path}\n"]
    for one in files:
        if full.is_dir():
            parts.append(f"## {one.name}\n")
        language = LANGUAGES.get(one.suffix or one.name, "text")
        parts.append(f"````{language}\n{one.read_text().rstrip()}\n````\n")
    return "\n".join(parts)


def inline(match: re.Match[str]) -> str:
    svg = (REPOSITORY / "docs" / "drawings" / posixpath.basename(match["path"])).read_text()
    return f'<div class="drawing" role="img" aria-label="{match["name"]}">{svg}</div>'
