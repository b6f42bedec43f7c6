"""The live line: what a person sees, on a screen small enough to imitate here."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from estimand.core import voice
from estimand.engine.progress.progress import Progress, format_results_table
from tests.integration.terminal import rendered


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream whose `lines` are what a terminal would show after all that was written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return rendered(self.getvalue())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def console(terminal: Terminal) -> Console:
    return Console(file=terminal, force_terminal=True, width=100, color_system="standard")


def run(progress: Progress, clock: Clock, steps: range, seconds_per_step: float) -> None:
    for step in steps:
        clock.now += seconds_per_step
        progress.update(step, loss=1 / step)


# ---------------------------------------------------------------- the line


def test_the_line_tells_step_rate_loss_elapsed_and_left(clock, console, terminal):
    with Progress(1200, console=console, clock=clock) as progress:
        assert terminal.lines == ["training  0/1,200 steps  elapsed 0:00"]
        clock.now += 9.0  # tracing the model: not part of the rate
        progress.update(10, loss=np.float32(2.5))
        assert terminal.lines == ["training  10/1,200 steps  loss 2.5  elapsed 0:09"]
        clock.now += 1.0
        progress.update(20, loss=1.23456)
        assert terminal.lines == [
            "training  20/1,200 steps  10 steps/s  loss 1.235  elapsed 0:10  left 1:58"
        ]


def test_the_last_state_stays_as_one_plain_line(clock, console, terminal):
    with Progress(100, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 101), 0.5)
    assert terminal.lines == ["training  100/100 steps  2 steps/s  loss 0.01  elapsed 0:50"]
    assert terminal.getvalue().endswith(terminal.lines[0] + "\n")


def test_a_run_without_a_known_end_shows_no_time_left(clock, console, terminal):
    with Progress(None, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 4), 1.0)
        assert terminal.lines == ["training  3 steps  1 steps/s  loss 0.3333  elapsed 0:03"]


def test_a_continued_run_counts_only_its_own_steps_in_the_rate(clock, console, terminal):
    with Progress(1100, start_step=1000, console=console, clock=clock) as progress:
        clock.now += 5.0
        progress.update(1100, loss=0.5)
    assert terminal.lines == ["training  1,100/1,100 steps  20 steps/s  loss 0.5  elapsed 0:05"]


def test_the_rate_follows_a_change_of_speed_gradually(clock, console, terminal):
    with Progress(None, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 22), 1.0)
        assert "  1 steps/s" in terminal.lines[0]
        run(progress, clock, range(22, 32), 0.5)  # five seconds at twice the speed
        # The weights of the past fade by 1/e in five seconds: numerator and denominator alike.
        kept = np.exp(-1 / 5) ** np.arange(20)
        old = np.exp(-1) * kept.sum()
        new = (np.exp(-0.5 / 5) ** np.arange(10)).sum()
        assert f"  {(old + new) / (old + 0.5 * new):.3g} steps/s" in terminal.lines[0]


def test_however_often_it_is_called_it_draws_ten_times_a_second(clock, console, terminal):
    with Progress(10_000, console=console, clock=clock) as progress:
        before = terminal.getvalue().count("training")
        run(progress, clock, range(1, 10_001), 0.001)
        drawn = terminal.getvalue().count("training") - before
    assert 95 <= drawn <= 100


def test_the_loss_is_converted_only_when_drawn(clock, console):
    class Loss:
        shape = ()
        asked = 0

        def item(self) -> float:
            Loss.asked += 1
            return 0.5

    with Progress(10, console=console, clock=clock) as progress:
        for step in range(1, 6):
            progress.update(step, Loss())
        assert Loss.asked == 0


def test_long_lines_are_cropped_to_the_width_of_the_terminal(clock, terminal):
    narrow = Console(file=terminal, force_terminal=True, width=20)
    with Progress(1200, console=narrow, clock=clock):
        assert terminal.lines == ["training  0/1,200 st"]


# ---------------------------------------------------------------- in company


@pytest.fixture
def log(terminal: Terminal):
    logger = logging.getLogger("tensorflow")
    handler = logging.StreamHandler(terminal)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = propagate


def test_log_lines_appear_above_the_line_whole_and_unwrapped(clock, console, terminal, log):
    long_line = "Saving checkpoints for 2 into " + "/very/long/path" * 12 + " [bold] :smile:"
    with Progress(10, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 3), 1.0)
        log.info("loss = %s, step = %s", 0.5, 2)
        log.info(long_line)
        assert terminal.lines == [
            "loss = 0.5, step = 2",
            long_line,
            "training  2/10 steps  1 steps/s  loss 0.5  elapsed 0:02  left 0:08",
        ]


def test_log_handlers_get_their_stream_back(clock, console, terminal, log):
    (handler,) = [h for h in log.handlers if getattr(h, "stream", None) is terminal]
    with Progress(10, console=console, clock=clock):
        assert handler.stream is not terminal
    assert handler.stream is terminal
    log.info("afterwards")
    assert terminal.lines[-1] == "afterwards"


def test_prints_to_the_terminal_appear_above_the_line(clock, terminal, console, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    with Progress(10, console=console, clock=clock):
        print("half a line, ", end="")
        assert terminal.lines == ["training  0/10 steps  elapsed 0:00"]
        print("the other half")
        assert terminal.lines == [
            "half a line, the other half",
            "training  0/10 steps  elapsed 0:00",
        ]
    assert sys.stdout is terminal


def test_a_line_never_ended_is_not_lost(clock, terminal, console, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    with Progress(10, console=console, clock=clock):
        print("no end", end="")
    assert terminal.lines == ["no end", "training  0/10 steps  elapsed 0:00"]


def test_prints_into_a_file_stay_in_the_file(clock, terminal, console, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with Progress(10, console=console, clock=clock):
        print("a result")
    assert file.getvalue() == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_who_kept_the_stand_in_still_writes_afterwards(clock, console, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(10, console=console, clock=clock):
        kept = sys.stderr
    kept.write("late\n")
    assert terminal.lines[-1] == "late"


def test_an_evaluation_takes_over_the_line_and_gives_it_back(clock, console, terminal):
    with Progress(10, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 3), 1.0)
        with Progress.for_evaluation(4, console=console, clock=clock) as evaluation:
            for batch in (1, 2):
                clock.now += 10.0
                evaluation.update(batch)
            assert terminal.lines == [
                "evaluating  2/4 batches  0.1 batches/s  elapsed 0:20  left 0:20"
            ]
        run(progress, clock, range(3, 4), 1.0)
        assert terminal.lines == [  # what stays of it are its results
            "training  3/10 steps  1 steps/s  loss 0.3333  elapsed 0:23  left 0:07",
        ]


def test_what_the_line_shows_is_not_logged_while_an_evaluation_has_its_place(
    clock, console, monkeypatch
):
    hidden = []
    monkeypatch.setattr(
        Progress, "_new_screen", lambda self: hidden.append(voice._shown_elsewhere[voice.SAVED])
    )
    with Progress(10, console=console, clock=clock):
        with Progress.for_evaluation(4, console=console, clock=clock):
            pass
        assert voice._shown_elsewhere[voice.SAVED] == 1
    assert hidden == [1, 2, 1]  # training, evaluation, training again: never 0
    assert voice._shown_elsewhere[voice.SAVED] == 0


def test_a_phase_shows_its_word_and_does_not_count_in_the_rate(clock, console, terminal):
    with Progress(10, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 3), 1.0)
        with progress.phase("saving"):
            assert terminal.lines[0].startswith("saving  2/10 steps  1 steps/s")
            clock.now += 60.0
        run(progress, clock, range(3, 4), 1.0)
        assert terminal.lines[0].startswith("training  3/10 steps  1 steps/s")


def test_an_evaluation_may_leave_no_trace(clock, console, terminal):
    with Progress.for_evaluation(None, console=console, clock=clock, leave=False) as evaluation:
        clock.now += 1.0
        evaluation.update(7)
        assert terminal.lines == ["evaluating  7 batches  elapsed 0:01"]
    assert terminal.lines == []


# ---------------------------------------------------------------- faults


def test_a_run_that_is_interrupted_has_not_failed(clock, console, terminal):
    with pytest.raises(KeyboardInterrupt), Progress(10, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 5), 0.25)
        raise KeyboardInterrupt
    assert terminal.lines[0].endswith("elapsed 0:01  stopped early")


def test_an_exception_passes_and_leaves_a_clean_screen(clock, console, terminal, log):
    with pytest.raises(KeyError), Progress(10, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 5), 0.25)
        raise KeyError("theirs")
    log.info("next")
    assert terminal.lines == [
        "training  4/10 steps  4 steps/s  loss 0.25  elapsed 0:01  failed",
        "next",
    ]


def test_the_cursor_is_visible_all_the_time(clock, console, terminal):
    # A killed process cannot bring it back.
    with Progress(10, console=console, clock=clock):
        assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")


def test_a_terminal_that_goes_away_does_not_stop_the_run(clock, console, terminal, monkeypatch):
    def gone(text: str) -> int:
        raise OSError("Input/output error")

    with Progress(10, console=console, clock=clock) as progress:
        monkeypatch.setattr(terminal, "write", gone)
        run(progress, clock, range(1, 11), 1.0)


# ---------------------------------------------------------------- without a terminal


def test_nothing_is_written_where_stderr_is_no_terminal(clock, monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with Progress(10, clock=clock) as progress:
        run(progress, clock, range(1, 11), 1.0)
        with progress.phase("saving"), Progress.for_evaluation(3, clock=clock) as evaluation:
            evaluation.update(3)
    assert stderr.getvalue() == ""


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """What goes to the log."""
    lines: list[str] = []
    monkeypatch.setattr(voice, "tell", lambda text, *args, about="": lines.append(text % args))
    return lines


def test_every_few_seconds_a_line_goes_to_the_log(clock, told):
    with Progress(100, enabled=None, clock=clock) as progress:
        run(progress, clock, range(1, 26), 0.5)
        with Progress.for_evaluation(3, clock=clock) as evaluation:  # does not count in the rate
            clock.now += 4.0
            evaluation.update(1)
            clock.now += 4.0
            evaluation.update(2)
        run(progress, clock, range(26, 101), 0.5)
    assert told[:4] == [
        "training  10/100 steps  2 steps/s  loss 0.1  elapsed 0:05  left 0:45",
        "training  20/100 steps  2 steps/s  loss 0.05  elapsed 0:10  left 0:40",
        "evaluating  2/3 batches  0.25 batches/s  elapsed 0:08  left 0:04",
        "training  26/100 steps  2 steps/s  loss 0.03846  elapsed 0:21  left 0:37",
    ]
    assert told[-1] == "training  100/100 steps  2 steps/s  loss 0.01  elapsed 0:58"
    assert len(told) == 4 + (58 - 21) // 5 + 1


def test_the_log_has_no_line_where_progress_is_not_wanted(clock, told):
    with Progress(10, enabled=False, clock=clock) as progress:
        run(progress, clock, range(1, 11), 10.0)
    assert told == []


class Notebook:
    """Stands in for IPython.display: what the outputs of a cell show."""

    HTML = staticmethod(
        lambda text: re.sub(r"<progress value=.([\d.]+).*?</progress>|<.*?>", r"\1", text)
    )

    def __init__(self) -> None:
        self.outputs: list[str] = []
        self.messages = 0

    def display(self, text: str, display_id: bool) -> Notebook:
        assert display_id
        self.outputs.append("")
        self.update(text)
        return self

    def update(self, text: str) -> None:
        self.messages += 1
        self.outputs[-1] = text


def test_in_a_notebook_one_bar_serves_training_and_evaluations(clock, told, monkeypatch):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(voice, "in_notebook", lambda: True)
    with Progress(200, clock=clock) as progress:
        run(progress, clock, range(1, 101), 0.01)
        assert notebook.messages == 3  # at the start, and twice in a second
        assert notebook.outputs == [
            "0.5000training  100/200 steps  100 steps/s  loss 0.01  elapsed 0:01  left 0:01"
        ]
        with Progress.for_evaluation(clock=clock) as evaluation:
            clock.now += 1.0
            evaluation.update(7)
            assert notebook.outputs == ["evaluating  7 batches  elapsed 0:01"]
        run(progress, clock, range(101, 201), 0.01)
    assert notebook.outputs == ["training  200/200 steps  100 steps/s  loss 0.005  elapsed 0:03"]


@pytest.mark.parametrize(("kind", "drawn"), [("xterm", True), ("dumb", False)])
def test_only_a_terminal_that_can_move_its_cursor_gets_a_line(kind, drawn, terminal, monkeypatch):
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert Progress(10).enabled is drawn


def test_disabled_on_a_terminal_draws_nothing(clock, console, terminal):
    with Progress(10, enabled=False, console=console, clock=clock) as progress:
        run(progress, clock, range(1, 11), 1.0)
    assert terminal.getvalue() == ""


def test_rich_and_tensorflow_are_not_loaded_unless_something_is_drawn():
    program = """
import sys
from estimand.engine.progress.progress import Progress, format_results_table
from tests.integration.terminal import rendered
with Progress(10) as progress:
    progress.update(1, 0.5)
format_results_table({"loss": 0.5})
print(sorted({"rich", "tensorflow"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


# ---------------------------------------------------------------- the table

RESULTS = {
    "accuracy": np.float32(0.9125),
    "loss": 0.123456789,
    "matrix": np.array([[1, 2], [3, 4]]),
    "pictures": b"\x00",
    "global_step": np.int64(500),
}


def test_table_as_aligned_text():
    assert format_results_table(RESULTS, "digits", terminal=False).splitlines() == [
        "digits",
        "accuracy            0.9125",
        "loss              0.123457",
        "matrix       [[1 2] [3 4]]",
        "global_step            500",
    ]


def test_table_without_title_or_rows_is_empty():
    assert format_results_table({}, terminal=False) == ""


def test_table_on_a_terminal_says_the_same_in_colour():
    text = format_results_table(RESULTS, "digits", terminal=True)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    words = [line.split() for line in plain.splitlines() if line.strip()]
    assert words[0] == ["digits"]
    assert words[1:] == [
        ["accuracy", "0.9125"],
        ["loss", "0.123457"],
        ["matrix", "[[1", "2]", "[3", "4]]"],
        ["global_step", "500"],
    ]
