"""Takes the pictures of README.md and the site from real runs: `make pictures`.

A project is made, trained, served and asked in a terminal, of which the screen is kept as SVG; a
headless Chromium (it has to be installed) photographs the server's page and the report. Nothing is
painted: what the pictures say was measured while they were taken.

    python -m docs.tools.pictures [terminal page report]
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyte
from PIL import Image
from rich.color import ColorParseError
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from tests.serving.page.browser import Browser, find_browser

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
REST = "http://127.0.0.1:8501"
COLUMNS, LINES = 108, 200
_PATIENCE = 300.0  # seconds that the browser may take
ROW = {"months": 40, "price": 30, "plan": "team"}


class Terminal:
    """Runs commands where they find a terminal, and keeps what is on its screen."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment, TERM="xterm-256color", COLUMNS=str(COLUMNS))
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    def run(self, command: str, cwd: Path) -> None:
        with self.running(command, cwd, until=None) as process:
            process.wait()
        assert process.returncode == 0, f"{command}: {self.text().plain}"

    @contextlib.contextmanager
    def running(
        self, command: str, cwd: Path, until: str | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Inside, `until` or all there is has been written; the command is ended afterwards."""
        self._stream.feed(b"\x1b[1;32m$\x1b[0m \x1b[1m" + command.encode() + b"\x1b[0m\r\n")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=cwd, env=self._environment,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            self._read(ours, until)
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
            os.close(ours)

    def _read(self, ours: int, until: str | None) -> None:
        while until is None or until not in self.text().plain:
            try:
                content = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            self._stream.feed(content)

    def text(self) -> Text:
        lines = [self._line(number) for number in range(LINES)]
        while lines and not lines[-1].plain.strip():
            lines.pop()
        return Text("\n").join(lines)

    def _line(self, number: int) -> Text:
        row, text = self._screen.buffer[number], Text()
        for column in range(COLUMNS):
            cell = row[column]
            text.append(cell.data, Style(color=_color(cell.fg), bold=cell.bold or None))
        text.rstrip()
        return text

    def svg(self, title: str) -> str:
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
        console.print(self.text(), no_wrap=True, crop=True)
        drawn = console.export_svg(title=title, theme=DIMMED_MONOKAI, unique_id="estimand")
        # Its font would be fetched from elsewhere.
        return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.S)


def _color(name: str) -> str | None:
    """pyte's name of a colour as rich has it."""
    known = {"default": None, "brown": "yellow"}
    if name in known:
        return known[name]
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    name = name.replace("bright", "bright_").replace("brown", "yellow")
    with contextlib.suppress(ColorParseError):
        Style(color=name)
        return name
    return None


def main(wanted: list[str]) -> None:
    browser = find_browser()
    assert browser, "No Chromium is installed, which photographs the pages."
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        work = Path(folder)
        project = work / "demo"
        terminal = Terminal(_environment())
        terminal.run("estimand new demo", work)
        terminal.run("python make_data.py", project)
        terminal.run("estimand train program.py", project)
        ends.enter_context(terminal.running("estimand serve runs/demo", project, "--host=0.0.0.0"))
        _wait_until_ready()
        body = json.dumps({"instances": [ROW]})
        terminal.run(f"curl -s localhost:8501/v1/models/demo:predict -d '{body}'", project)
        if "terminal" in wanted:
            _keep("terminal.svg", terminal.svg("from nothing to a served model").encode())
        tab = Browser(browser, work / "profile")
        ends.callback(tab.close)
        if "page" in wanted:
            _photograph_page(tab, body)
        if "report" in wanted:
            report = Terminal(_environment())
            report.run("estimand report --program program.py", project)
            for name, dark in (("report.png", False), ("report_dark.png", True)):
                _photograph_report(tab, project / "report.html", name, dark)


def _photograph_report(tab: Browser, file: Path, name: str, dark: bool) -> None:
    tab.size(1200, 1150, dark)
    tab.open(f"file://{file}#answers")
    drawn = "document.readyState == 'complete' && document.querySelectorAll('.main-svg').length > 6"
    # It answers when all is drawn, which takes a while on a slow machine.
    while not tab.call("Runtime.evaluate", _PATIENCE, expression=drawn)["result"].get("value"):
        time.sleep(0.5)
    scroll = "document.querySelector('#answers').scrollIntoView()"  # it has moved meanwhile
    tab.call("Runtime.evaluate", _PATIENCE, expression=scroll)
    _keep_photo(tab, name)


def _photograph_page(tab: Browser, body: str) -> None:
    tab.size(1200, 880)
    tab.open(REST)
    tab.wait_for("document.querySelector('#body')?.value.includes('months')")
    for _ in range(400):  # so that there is something to see
        _ask("/v1/models/demo:predict", body)
        time.sleep(0.01)
    tab.run(f"document.querySelector('#body').value = {json.dumps(body)}")
    tab.run("document.querySelector('#send').click()")
    tab.wait_for("document.querySelector('#text').innerText.includes('probabilities')")
    time.sleep(5)  # it draws what there is every few seconds
    _keep_photo(tab, "page.png")


def _keep_photo(tab: Browser, name: str) -> None:
    file = PICTURES / name
    taken = tab.call("Page.captureScreenshot", _PATIENCE, format="png")
    with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as photo:
        photo.convert("RGB").quantize(128).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KB")


def _keep(name: str, content: bytes) -> None:
    (PICTURES / name).write_bytes(content)
    print(f"{PICTURES / name}: {len(content) // 1024} KB")


def _environment() -> dict[str, str]:
    """With this interpreter's commands first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _wait_until_ready() -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            return _ask("/readyz")
        time.sleep(0.2)
    raise TimeoutError("The server did not become ready.")


def _ask(path: str, body: str | None = None) -> None:
    with urllib.request.urlopen(REST + path, body.encode() if body else None) as answer:
        answer.read()


if __name__ == "__main__":
    main(sys.argv[1:] or ["terminal", "page", "report"])
