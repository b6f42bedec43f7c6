"""Tracebacks that show the user's lines: what lies between them is folded away.

Between `estimator.train(...)` and a line of the model function stand some twenty frames of this
package, of TensorFlow and of Keras, which say nothing to whoever wrote these two lines. With
ESTIMAND_TRACEBACK=full in the environment they are all shown.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from estimand.core.errors import EstimandError

SWITCH = "ESTIMAND_TRACEBACK"
_NOTE = "frames of estimand, TensorFlow and Keras are folded"
_OURS = os.path.join(Path(os.path.abspath(__file__)).parents[2], "")
_THEIRS = ("tensorflow", "keras", "optree")
_IN_BETWEEN = (contextlib.__file__,)


class Line(NamedTuple):
    """A line of a program."""

    file: str
    number: int
    text: str
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({os.path.basename(self.file)}, line {self.number})"


class folded:
    """A block whose errors leave it with the user's frames only.

    A class and not a generator function: nothing of it stands in the tracebacks itself.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception) and os.environ.get(SWITCH) != "full":
            fold(error)


def fold(error: BaseException) -> None:
    """Take frames that are not the user's out of the tracebacks of an error and its causes."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        _fold(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def users_line(error: BaseException) -> Line | None:
    """The last line of the user's own among those that led to an error."""
    mine = [frame for frame in _each(error.__traceback__) if _owner(frame) is None]
    if not mine:
        return None
    code = mine[-1].tb_frame.f_code
    text = linecache.getline(code.co_filename, mine[-1].tb_lineno).strip()
    return Line(code.co_filename, mine[-1].tb_lineno, text, code.co_name)


def raised_by_user(error: BaseException) -> bool:
    """Whether it was a line of the user's that raised it, not something that line called."""
    frames = list(_each(error.__traceback__))
    return bool(frames) and _owner(frames[-1]) is None


def _fold(error: BaseException) -> None:
    frames = list(_each(error.__traceback__))
    if not _is_meant(error) and _last_owner(frames) == _OURS:
        return  # a fault of this package: where it is, has to be seen
    kept: TracebackType | None = None
    for frame in reversed([frame for frame in frames if _owner(frame) is None]):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    gone = len(frames) - len(list(_each(kept)))
    error.__traceback__ = kept
    told = any(_NOTE in note for note in getattr(error, "__notes__", ()))
    if gone > 1 and not told and not isinstance(error, EstimandError):
        error.add_note(f"({gone} {_NOTE}; {SWITCH}=full shows them)")


def _is_meant(error: BaseException) -> bool:
    """Whether it was raised to be read: by this package, or by a step that TensorFlow ran."""
    if isinstance(error, EstimandError) or type(error).__name__ == "NanLossDuringTrainingError":
        return True
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(error, tf.errors.OpError)


def _last_owner(frames: list[TracebackType]) -> str | None:
    owners = [_owner(frame) for frame in frames]
    return next((owner for owner in reversed(owners) if owner in (None, _OURS)), None)


def _owner(frame: TracebackType) -> str | None:
    """Whose a frame is; None for the user."""
    file = frame.tb_frame.f_code.co_filename
    if file.startswith(_OURS):
        return _OURS
    if file in _IN_BETWEEN or file.startswith("<frozen"):
        return file
    return next((folder for folder in _their_folders() if file.startswith(folder)), None)


def _their_folders() -> Iterator[str]:
    for name in _THEIRS:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            yield os.path.join(os.path.dirname(file), "")


def _each(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
