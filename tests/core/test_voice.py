"""Where the lines of a run appear: with the application, or with us, and once."""

from __future__ import annotations

import io
import logging
import re
import sys

import pytest

from estimand.core import lines_of_old, voice


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger of a program that has not heard of logging: without pytest's handlers."""
    root, logger, old = (logging.Logger(name) for name in ("root", "estimand", "tensorflow"))
    root.setLevel(logging.WARNING)
    logger.parent = old.parent = root
    monkeypatch.setattr(voice, "_log", logger)
    monkeypatch.setattr(lines_of_old, "_log", old)
    return logger


def lines(printed: str) -> list[str]:
    """Without the time of day."""
    found = printed.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in found)
    return [line[9:] for line in found]


def test_where_nobody_listens_lines_appear_on_stderr_while_a_run_goes_on(capsys, ours):
    with voice.speaking() as by_us:
        voice.tell("saved %s", "model.ckpt-5")
        ours.warning("careful")
        with voice.speaking():  # an evaluation during training
            voice.tell("evaluated")
    voice.tell("after")
    assert by_us
    told = ["saved model.ckpt-5", "warning: careful", "evaluated"]
    assert lines(capsys.readouterr().err) == told
    assert ours.handlers == [] and ours.level == logging.NOTSET


@pytest.mark.parametrize("at_the_root", [True, False])
def test_an_application_that_listens_gets_each_line_once_and_we_print_none(
    capsys, ours, at_the_root
):
    theirs = io.StringIO()
    logger = ours.parent if at_the_root else ours
    logger.addHandler(logging.StreamHandler(theirs))
    logger.setLevel(logging.INFO)
    with voice.speaking() as by_us, voice.showing(voice.SAVED):
        voice.tell("saved", about=voice.SAVED)
    assert not by_us
    assert (theirs.getvalue(), capsys.readouterr().err) == ("saved\n", "")


def test_programs_that_ask_for_the_lines_of_tf_estimator_get_those_only(capsys):
    lines_of_old._log.setLevel(logging.INFO)
    with voice.speaking() as by_us:
        voice.tell("saved")
    assert not by_us and capsys.readouterr().err == ""


def test_in_a_notebook_the_lines_that_tensorflow_asks_for_by_itself_are_held_back(
    monkeypatch, capsys
):
    monkeypatch.setattr(voice, "in_notebook", lambda: True)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # by which TensorFlow knows it
    old = lines_of_old._log
    old.setLevel(logging.INFO)
    with voice.speaking() as by_us:
        assert by_us and not old.isEnabledFor(logging.INFO)
        voice.tell("saved")
    assert old.level == logging.INFO
    assert lines(capsys.readouterr().out) == ["saved"]


def test_a_level_of_the_logger_silences_it(capsys, ours):
    ours.setLevel(logging.WARNING)
    with voice.speaking():
        voice.tell("saved")
    assert capsys.readouterr().err == ""


def test_what_a_screen_shows_is_not_printed_beside_it(capsys):
    with voice.speaking():
        with voice.showing(voice.PROGRESS, voice.SAVED):
            voice.tell("training 5/10", about=voice.PROGRESS)
            voice.tell("exported")
        voice.tell("saved", about=voice.SAVED)
    assert lines(capsys.readouterr().err) == ["exported", "saved"]


def test_nothing_is_said_where_progress_is_not_wanted(capsys):
    with voice.speaking(False):
        voice.tell("saved")
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------- what others have set up


@pytest.fixture
def root(ours: logging.Logger) -> logging.Logger:
    assert ours.parent is not None
    return ours.parent


def test_a_root_that_listens_to_warnings_only_has_not_decided_about_us(capsys, ours, root):
    theirs = io.StringIO()
    root.addHandler(logging.StreamHandler(theirs))  # as logging.warning(...) anywhere makes one
    with voice.speaking() as by_us:
        voice.tell("saved %s", "model.ckpt-5")
        ours.warning("careful")
        with voice.speaking() as still_by_us:
            voice.tell("evaluated")
    voice.tell("after")
    assert by_us and still_by_us
    assert lines(capsys.readouterr().err) == ["saved model.ckpt-5", "evaluated"]
    assert theirs.getvalue() == "careful\n"


@pytest.mark.parametrize("how", ["root at ERROR", "logger at WARNING", "disabled"])
def test_who_has_decided_that_nothing_is_said_hears_nothing(capsys, ours, root, how):
    root.addHandler(logging.StreamHandler(theirs := io.StringIO()))
    if how == "root at ERROR":
        root.setLevel(logging.ERROR)
    elif how == "disabled":
        ours.disabled = True
    else:
        ours.setLevel(logging.WARNING)
    with voice.speaking() as by_us:
        voice.tell("saved")
    assert not by_us
    assert (theirs.getvalue(), capsys.readouterr().err) == ("", "")


def test_programs_that_set_the_logger_of_old_get_its_lines_only(root):
    theirs = io.StringIO()
    root.addHandler(logging.StreamHandler(theirs))
    root.setLevel(logging.INFO)
    lines_of_old._log.setLevel(logging.INFO)  # tf.compat.v1.logging.set_verbosity
    with voice.speaking():
        voice.tell("saved model.ckpt-5")
        lines_of_old._log.info("Saving checkpoints for 5")
    assert theirs.getvalue() == "Saving checkpoints for 5\n"


@pytest.mark.parametrize("has_handler", [True, False])
def test_programs_that_want_errors_of_tensorflow_only_hear_nothing_else(
    capsys, ours, root, has_handler
):
    theirs = io.StringIO()
    if has_handler:
        root.addHandler(logging.StreamHandler(theirs))
        root.setLevel(logging.INFO)
    lines_of_old._log.setLevel(logging.ERROR)  # tf.compat.v1.logging.set_verbosity
    with voice.speaking() as by_us:
        voice.tell("saved model.ckpt-5")
        ours.warning("careful")
        with voice.speaking():
            voice.tell("evaluated")
    assert not by_us and ours.level == logging.NOTSET
    assert (theirs.getvalue(), capsys.readouterr().err) == ("", "")


def test_who_wants_warnings_of_tensorflow_hears_our_lines(capsys, ours):
    lines_of_old._log.setLevel(logging.WARNING)
    with voice.speaking():
        voice.tell("saved")
        ours.warning("careful")
    assert lines(capsys.readouterr().err) == ["saved", "warning: careful"]


def test_a_level_of_our_own_logger_stands_beside_that_of_tensorflow(ours):
    ours.addHandler(logging.StreamHandler(theirs := io.StringIO()))
    ours.setLevel(logging.INFO)
    lines_of_old._log.setLevel(logging.ERROR)
    with voice.speaking():
        voice.tell("saved")
    assert theirs.getvalue() == "saved\n"


class LikeAbsl(logging.Handler):
    """Has the handler that writes inside, as absl's does."""

    def __init__(self, stream: io.StringIO) -> None:
        super().__init__()
        self.python_handler = logging.StreamHandler(stream)

    def emit(self, record: logging.LogRecord) -> None:
        self.python_handler.emit(record)


@pytest.mark.parametrize("kind", [logging.StreamHandler, LikeAbsl])
def test_lines_of_old_appear_once_where_the_root_got_a_handler_too(root, kind):
    screen, file = io.StringIO(), io.StringIO()
    old = lines_of_old._log
    old.addHandler(logging.StreamHandler(screen))  # TensorFlow's own
    root.addHandler(kind(screen))
    root.addHandler(logging.StreamHandler(file))
    root.setLevel(logging.INFO)
    with lines_of_old.in_order():
        with lines_of_old.in_order():
            old.info("Calling model_fn.")
        old.info("Done calling model_fn.")
    told = "Calling model_fn.\nDone calling model_fn.\n"
    assert (screen.getvalue(), file.getvalue()) == (told, told)
    old.info("after")
    assert screen.getvalue() == told + "after\nafter\n"


def test_the_handler_of_tensorflow_writes_where_the_root_writes_elsewhere(root):
    screen, file = io.StringIO(), io.StringIO()
    lines_of_old._log.addHandler(logging.StreamHandler(screen))
    root.addHandler(logging.StreamHandler(file))
    root.setLevel(logging.INFO)
    with lines_of_old.in_order():
        lines_of_old._log.info("Calling model_fn.")
    assert screen.getvalue() == file.getvalue() == "Calling model_fn.\n"


def test_the_place_of_a_line_is_where_it_was_told(root):
    records: list[logging.LogRecord] = []
    root.addHandler(handler := logging.Handler())
    handler.emit = records.append  # type: ignore[method-assign]
    root.setLevel(logging.INFO)
    voice.tell("saved")
    assert [record.filename for record in records] == ["test_voice.py"]
