"""The page itself: sections of cards, each a picture or a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources


@dataclass(frozen=True)
class Cell:
    text: str
    css: str = ""


@dataclass(frozen=True)
class Table:
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Card:
    """One box of the page."""

    title: str
    figure: str | None = None  # HTML
    table: Table | None = None
    text: str = ""
    smooth: bool = False


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    cards: list[Card]
    text: str = ""


@dataclass
class Page:
    title: str
    subtitle: str
    numbers: list[tuple[str, str]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def html(self) -> str:
        from jinja2 import Environment

        from estimand.report import figures

        # What a user named (tags, columns, classes) is shown, never run.
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        source = resources.files("estimand.report").joinpath("page.html").read_text("utf-8")
        shown = [section for section in self.sections if section.cards]
        return environment.from_string(source).render(
            title=self.title,
            subtitle=self.subtitle,
            numbers=self.numbers,
            sections=shown,
            smoothed=any(card.smooth for section in shown for card in section.cards),
            script=figures.script(),
        )
