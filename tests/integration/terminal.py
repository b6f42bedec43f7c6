"""A pseudo terminal for a child process, and what a person would see on it."""

from __future__ import annotations

import os
import pty
import re
import threading

_TOKEN = re.compile(r"\x1b\[(?P<code>[?\d;]*)(?P<letter>[A-Za-z])|(?P<char>[\s\S])")


class Terminal:
    """The other end of a pseudo terminal, read all the time so that nobody has to wait."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()
        self.name = os.ttyname(self._theirs)
        self._read: list[bytes] = []
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._ours, 4096)
            except OSError:  # the last writer has gone
                return
            if not data:
                return
            self._read.append(data)

    def close(self) -> str:
        """All that was written to it."""
        os.close(self._theirs)
        self._thread.join(10)
        os.close(self._ours)
        return b"".join(self._read).decode()


def write_to(terminal: str) -> None:
    """In a child: its standard streams are those of the terminal."""
    descriptor = os.open(terminal, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(descriptor, stream)
    os.environ.update(TERM="xterm-256color", COLUMNS="120")


def rendered(written: str) -> list[str]:
    """The lines that stand on a terminal after all that, however long they are."""
    rows, row, column = [""], 0, 0
    for token in _TOKEN.finditer(written):
        letter, char = token["letter"], token["char"]
        if letter == "A":
            row -= int(token["code"] or 1)
        elif letter == "K":
            rows[row] = ""
        elif char == "\r":
            column = 0
        elif char == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif char is not None:
            rows[row] = rows[row][:column].ljust(column) + char + rows[row][column + 1 :]
            column += 1
    while rows and not rows[-1]:
        rows.pop()
    return rows
