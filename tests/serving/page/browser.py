"""A headless Chromium, told what to do over a pair of pipes: nothing but the browser is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium reads its commands from file 3 and writes to file 4.
LAUNCHER = """
import os, sys
commands, events = (os.dup(int(number)) for number in sys.argv[1:3])
commands, events = os.dup(commands), os.dup(events)
os.dup2(commands, 3)
os.dup2(events, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    """One page of one browser. Messages are the DevTools protocol's, with a zero byte between."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCHER, str(commands), str(events), program),
                *(*FLAGS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(commands, events),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(events)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []  # what the page's console complained of
        self.asked: list[str] = []  # every address that was asked for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, seconds: float = 30.0, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + seconds
        while True:
            answer = self._read(ends)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, script: str, seconds: float = 30.0) -> Any:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise AssertionError(f"it did not become true: {script}\n{self.text()}\n{self.problems}")

    def text(self) -> str:
        return self.run("document.body ? document.body.innerText : ''")

    def screenshot(self, file: Path, whole: bool = False) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        with contextlib.suppress(OSError, AssertionError, TimeoutError):
            self._session = None
            self.call("Browser.close", seconds=5)
        os.close(self._commands)
        os.close(self._events)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read(self, ends: float) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._events], [], [], max(0, ends - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._events, 1 << 20)
            if not chunk:
                raise OSError("the browser has ended")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(given["exceptionDetails"]))
        elif method == "Log.entryAdded" and given["entry"]["source"] != "network":
            self.problems.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(given["request"]["url"])
