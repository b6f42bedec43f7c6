"""Where the lines of a run appear: with the application, or with us, and once."""

from __future__ import annotations

import io
import logging
import re

import pytest

from estimand.core import voice


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger of a program that has not heard of logging: without pytest's handlers."""
    root, logger, old = (logging.Logger(name) for name in ("root", "estimand", "tensorflow"))
    root.setLevel(logging.WARNING)
    logger.parent = old.parent = root
    monkeypatch.setattr(voice, "_log", logger)
    monkeypatch.setattr(voice, "_lines_of_old", old)
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
    voice._lines_of_old.setLevel(logging.INFO)
    with voice.speaking() as by_us:
        voice.tell("saved")
    assert not by_us and capsys.readouterr().err == ""


def test_in_a_notebook_the_lines_that_tensorflow_asks_for_by_itself_are_held_back(
    monkeypatch, capsys
):
    monkeypatch.setattr(voice, "in_notebook", lambda: True)
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    old = voice._lines_of_old
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
