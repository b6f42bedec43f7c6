"""What mkdocs does not check: pages fetch nothing from elsewhere, and every anchor is there.

python docs/tools/check_site.py site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements whose address a browser fetches while it shows the page.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_FETCHED = {"canonical", "prev", "next", "edit"}


class Page(HTMLParser):
    """Addresses and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "mermaid" in given.get("class", "").split():
            self.fetched.append("https://unpkg.com/mermaid")  # as the theme does for such a block
        address = given.get(FETCHED.get(tag, ""), "")
        if address and given.get("rel", "") not in NOT_FETCHED:
            self.fetched.append(address)


def faults(site: Path) -> list[str]:
    """One sentence for each thing that is wrong."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    found = [] if pages else [f"There are no pages in {site}."]
    for page in pages.values():
        name = page.path.relative_to(site)
        found += [f"{name} fetches {one}" for one in page.fetched if urlsplit(one).netloc]
        if name.name != "404.html":  # shown at any address: its links begin at the root
            found += [f"{name} links to {one}" for one in page.links if is_broken(one, page, pages)]
    return found


def is_broken(link: str, page: Page, pages: dict[Path, Page]) -> bool:
    """Whether a link of a page leads to no file of the site, or to no anchor there."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    there = pages.get(target.resolve())
    if there is None:
        return not target.exists()
    return bool(parts.fragment) and unquote(parts.fragment) not in there.anchors


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    # Browsers refuse the search its script in pages that are read from the disk.
    told = f"The site is in {sys.argv[1]}/; open {sys.argv[1]}/index.html."
    with_search = f"With search: python3 -m http.server --directory {sys.argv[1]}"
    print("\n".join(wrong or [told, with_search]))
    sys.exit(bool(wrong))
