"""Keeps TensorFlow's start-up noise off the terminal, without losing it when it matters."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import click

from estimand.core.errors import EstimandError

# What says all there is to say, or all that somebody wants to know.
_ON_PURPOSE = (EstimandError, KeyboardInterrupt, click.ClickException, click.exceptions.Exit)
_STDERR = 2  # the file descriptor that C++ code writes to; replacing sys.stderr would not reach it


@dataclass
class HeldBack:
    """What a `quiet_start` block gives: set `show` to have the text printed after all."""

    show: bool = False


@contextlib.contextmanager
def quiet_start(verbose: bool = False) -> Iterator[HeldBack]:
    """Holds back everything written to standard error inside the block.

    TensorFlow's libraries write some lines before they read `TF_CPP_MIN_LOG_LEVEL`, so that
    variable alone does not silence them. If the block raises something unexpected, or sets `show`,
    the text is printed at its end; with `verbose` nothing is held back in the first place.

    >>> with quiet_start() as held_back:
    ...     import tensorflow
    """
    answer = HeldBack()
    store = None if verbose else _open_store()
    if store is None:
        yield answer
        return
    with store:
        try:
            with _stderr_redirected_to(store):
                yield answer
        except BaseException as error:
            answer.show = not isinstance(error, _ON_PURPOSE)
            raise
        finally:
            if answer.show:
                _print_to_stderr(store)


def _open_store() -> BinaryIO | None:
    """A file for the text; None where there is nothing to redirect or nowhere to write."""
    try:
        os.fstat(_STDERR)
        return tempfile.TemporaryFile()
    except OSError:
        return None


@contextlib.contextmanager
def _stderr_redirected_to(store: BinaryIO) -> Iterator[None]:
    _flush_python_stderr()
    terminal = os.dup(_STDERR)
    os.dup2(store.fileno(), _STDERR)
    # A crash inside C++ (an unsupported processor, say) runs no `except` clause: at least the
    # Python stack must reach the terminal.
    watch_crashes = not faulthandler.is_enabled()
    if watch_crashes:
        faulthandler.enable(file=terminal)
    try:
        yield
    finally:
        if watch_crashes:
            faulthandler.disable()
        _flush_python_stderr()
        os.dup2(terminal, _STDERR)
        os.close(terminal)


def _print_to_stderr(store: BinaryIO) -> None:
    store.seek(0)
    while chunk := store.read(65536):
        os.write(_STDERR, chunk)


def _flush_python_stderr() -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
