"""Draws the pictures of the architecture: `python -m docs.tools.drawings` writes docs/drawings.

They are SVG with classes for what has a colour, so that a page can give them its own; by
themselves they follow the reader's choice of light and dark.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

DRAWINGS = Path(__file__).resolve().parents[1] / "drawings"
_OLD = "tf.estimator 2.15"
STYLE = """
text { font-family: system-ui, sans-serif; font-size: 14px; fill: #1b1f3b; }
.small { font-size: 12px; fill: #4a5078; }
.strong { font-weight: 600; }
.box { fill: #e8eafc; stroke: #5a68c9; stroke-width: 1.2; }
.soft { fill: #f6f7ff; stroke: #b5bce8; stroke-width: 1.2; }
.line { stroke: #5a68c9; stroke-width: 1.4; fill: none; }
.tip { fill: #5a68c9; }
@media (prefers-color-scheme: dark) {
  :root > text, :root > g text { fill: #e3e5f2; }
  .small { fill: #b4b9d6; }
  .box { fill: #2a2f45; stroke: #8f9bd8; }
  .soft { fill: #232635; stroke: #5b6285; }
  .line { stroke: #9aa3cf; }
  .tip { fill: #9aa3cf; }
}
"""


class Drawing:
    """Boxes with words in them, and arrows between them."""

    def __init__(self, name: str, width: int, height: int) -> None:
        self.name, self.width, self.height = name, width, height
        self._parts: list[str] = []

    def box(
        self, x: int, y: int, w: int, h: int, title: str, *lines: str, kind: str = "box"
    ) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>'
        )
        top = y + h / 2 - 8 * len(lines) + 5
        self._word(x + w / 2, top, title, "strong")
        for i, line in enumerate(lines, start=1):
            self._word(x + w / 2, top + 16 * i, line, "small")

    def _word(self, x: float, y: float, text: str, kind: str, anchor: str = "middle") -> None:
        self._parts.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">'
            f"{html.escape(text)}</text>"
        )

    def bar(self, x: int, y: int, w: float, h: int, text: str, kind: str = "box") -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{w:g}" height="{h}" rx="3"/>'
        )
        self._word(x + w + 8, y + h / 2 + 5, text, "strong" if kind == "box" else "small", "start")

    def note(self, x: int, y: int, text: str, anchor: str = "middle") -> None:
        self._word(x, y, text, "small", anchor)

    def arrow(self, *points: tuple[int, int]) -> None:
        """Along the points, with its tip at the last; the last piece is level or upright."""
        path = " L ".join(f"{x} {y}" for x, y in points)
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        left, right = (
            (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx),
            (
                x - 8 * dx + 4 * dy,
                y - 8 * dy + 4 * dx,
            ),
        )
        self._parts.append(f'<path class="line" d="M {path}"/>')
        self._parts.append(
            f'<path class="tip" d="M {x} {y} L {left[0]} {left[1]} L {right[0]} {right[1]} Z"/>'
        )

    def text(self) -> str:
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
            f'height="{self.height}" viewBox="0 0 {self.width} {self.height}" role="img">\n'
            f"<title>{html.escape(self.name)}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"
        )


def layers() -> Drawing:
    rows: list[list[tuple[str, str]]] = [
        [("cli", "the estimand command")],
        [("migrate", "what of a code base runs")],
        [("compat", "what old code expects")],
        [
            ("sklearn", "for scikit-learn"),
            ("tuning", "parameters"),
            ("tracking", "MLflow, W&B"),
            ("explaining", "what answers rest on"),
        ],
        [
            ("canned", "no model_fn to write"),
            ("bridge", "Keras"),
            ("serving", "a server of models"),
            ("report", "pictures"),
            ("batch", "rows of many files"),
        ],
        [("estimator", "Estimator · training · lifecycle")],
        [("evaluation", "evaluate, predict"), ("export", "SavedModels")],
        [("heads", "logits → loss, metrics"), ("hooks", "ready-made hooks")],
        [("engine", "tracing · running · checkpoints · distributed")],
        [
            ("inputs", "data → one Dataset"),
            ("features", "columns → tensors"),
            ("cluster", "who am I, and with whom"),
        ],
        [("core", "ModeKeys · RunConfig · specs · errors")],
    ]
    height, gap, width = 46, 10, 760
    drawing = Drawing("The layers", width + 20, len(rows) * (height + gap) + 40)
    for i, row in enumerate(rows):
        each = (width - 10 * (len(row) - 1)) // len(row)
        for j, (name, words) in enumerate(row):
            x = 10 + j * (each + 10)
            kind = "box" if len(row) == 1 else "soft"
            drawing.box(x, 10 + i * (height + gap), each, height, name, words, kind=kind)
    bottom = 10 + len(rows) * (height + gap) + 8
    drawing.note(
        10 + width // 2, bottom, "a layer imports only from below itself, never from its neighbour"
    )
    return drawing


def training() -> Drawing:
    drawing = Drawing("How a batch walks", 850, 330)
    drawing.box(10, 20, 150, 56, "input_fn()", "called once", kind="soft")
    drawing.box(10, 110, 150, 56, "model_fn(…)", "traced once per mode", kind="soft")
    drawing.box(210, 20, 180, 56, "Dataset", "of (features, labels)")
    drawing.box(210, 110, 180, 56, "Trace", "the ops of one step")
    drawing.box(210, 200, 180, 56, "Variables", "found by name, kept alive")
    drawing.box(440, 65, 180, 56, "Block of steps", "one call, in-graph loop")
    drawing.box(440, 200, 180, 56, "Looks of hooks", "what they fetch, and when")
    drawing.box(670, 65, 170, 56, "Maybe save", "variables and input")
    drawing.box(670, 200, 170, 56, "model_dir", "checkpoints, events", kind="soft")
    drawing.arrow((160, 48), (210, 48))
    drawing.arrow((160, 138), (210, 138))
    drawing.arrow((390, 48), (415, 48), (415, 83), (440, 83))
    drawing.arrow((390, 138), (415, 138), (415, 103), (440, 103))
    drawing.arrow((300, 200), (300, 166))
    drawing.arrow((620, 93), (670, 93))
    drawing.arrow((790, 121), (790, 200))
    drawing.arrow((700, 121), (700, 175), (580, 175), (580, 200))
    drawing.arrow((470, 200), (470, 121))
    drawing.note(478, 150, "until max_steps", "start")
    drawing.arrow((670, 240), (645, 240), (645, 290), (300, 290), (300, 256))
    drawing.note(470, 308, "at the start: the newest intact checkpoint fills the variables")
    return drawing


def request() -> Drawing:
    drawing = Drawing("How a request walks", 780, 300)
    drawing.box(10, 20, 150, 56, "gRPC", "grpcio or lean", kind="soft")
    drawing.box(10, 110, 150, 56, "REST", "HTTP/1.1 on httptools", kind="soft")
    drawing.box(210, 65, 140, 56, "Prediction", "reads into arrays")
    drawing.box(400, 65, 150, 56, "Lane of a version", "joins what it may")
    drawing.box(600, 65, 170, 56, "Loaded signature", "one call for the batch")
    drawing.arrow((160, 48), (185, 48), (185, 83), (210, 83))
    drawing.arrow((160, 138), (185, 138), (185, 103), (210, 103))
    drawing.arrow((350, 93), (400, 93))
    drawing.arrow((550, 93), (600, 93))
    drawing.arrow((685, 65), (685, 30), (280, 30), (280, 65))
    drawing.note(480, 22, "split, written as an answer")
    drawing.box(210, 210, 140, 56, "Base path", "a folder per version", kind="soft")
    drawing.box(400, 210, 150, 56, "Manager", "watches, swaps, drains")
    drawing.box(600, 210, 170, 56, "Trial", "in a process of its own", kind="soft")
    drawing.arrow((350, 238), (400, 238))
    drawing.arrow((550, 230), (600, 230))
    drawing.arrow((600, 248), (550, 248))
    drawing.arrow((475, 210), (475, 121))
    drawing.note(483, 170, "a new version takes over; no request fails", "start")
    return drawing


_ONCE = 18  # the length of a bar that stands for 1


def figures() -> Drawing:
    """The figures of the front page, as docs/performance.md has them."""
    measured = (DRAWINGS.parent / "performance.md").read_text()
    rows = {
        "training steps per second": ("steps/s, v1 model function, against tf.estimator", _OLD),
        "predictions per second": ("`predict`, whole batches of 32, against tf.estimator", _OLD),
        "REST requests per second": ("REST at 32 connections, against LitServe", "LitServe"),
    }
    drawing = Drawing("How many times as fast", 760, 82 * len(rows) + 8)
    for number, (title, (row, other)) in enumerate(rows.items()):
        found = re.search(rf"^\| {re.escape(row)} \|.*\| ([\d.]+) \u00d7 \[", measured, re.M)
        assert found, f"docs/performance.md has no row {row!r} with a figure."
        top = 82 * number
        drawing.note(150, top + 22, title, "start")
        drawing.note(140, top + 44, "Estimand", "end")
        drawing.note(140, top + 68, other, "end")
        drawing.bar(150, top + 30, _ONCE * float(found[1]), 20, f"{found[1]} \u00d7")
        drawing.bar(150, top + 54, _ONCE, 20, "1", kind="soft")
    return drawing


def drawings() -> dict[str, str]:
    """The text of each file, by its name."""
    made = {
        "layers": layers(),
        "training": training(),
        "request": request(),
        "figures": figures(),
    }
    return {f"{name}.svg": drawing.text() for name, drawing in made.items()}


if __name__ == "__main__":
    for name, text in drawings().items():
        (DRAWINGS / name).write_text(text)
