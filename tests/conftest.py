"""What every test gets: a quiet TensorFlow, known seeds, a check for leaks, old model_dirs."""

from __future__ import annotations

import collections
import gc
import os
import random
import secrets
import threading
import time
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from tests import forked

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # has to be there before TensorFlow is imported

# Examples that touch TensorFlow vary in time with the machine's load, never with the code.
settings.register_profile("estimand", deadline=None)
settings.load_profile("estimand")

collect_ignore_glob = [
    # Run by hand with another TensorFlow, to make the numbers that tests compare with.
    "*/fixtures/make*.py",
    "*/data/make*.py",
    "*/make_fixtures.py",
    # Import packages that are installed for `make corpus` only.
    "legacy/corpus/programs/*.py",
]

# Set by pytest itself, and by third parties when they are first imported inside a test.
FOREIGN_VARIABLES = frozenset(
    {
        "ENABLE_RUNTIME_UPTIME_TELEMETRY",
        "HDF5_PLUGIN_PATH",
        "KMP_DUPLICATE_LIB_OK",
        "KMP_INIT_AT_FORK",
        "PYTEST_CURRENT_TEST",
        "TF2_BEHAVIOR",
        "TPU_ML_PLATFORM",
        "TPU_ML_PLATFORM_VERSION",
        "_RJEM_MALLOC_CONF",
    }
)
SECONDS_TO_WIND_DOWN = 5.0
# Libraries open some when they are first used; what leaks in a loop is soon beyond that.
MOST_NEW_DESCRIPTORS = 16
# Writers of event files stay open, one for each directory, as those of TensorFlow did.
KEPT_OPEN = ("events.out.tfevents", "/site-packages/", "/dev/")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No file is imported and searched for examples in docstrings that has none."""
    found = yield
    has_examples = any(isinstance(one, DoctestModule) for one in found) and (
        ">>> " in file_path.read_text()
    )
    return [one for one in found if has_examples or not isinstance(one, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before those that are marked are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, then large ones: no process waits for the last at the end."""
    mark_what_is_left_to_make_full(items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    size = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -size[item.path], str(item.path)))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the collector need not look through it again."""
    gc.collect()
    gc.freeze()


def mark_what_is_left_to_make_full(items: list[pytest.Item]) -> None:
    """Of the parameters of a test with the marker sample(n), all but every nth are marked full."""
    before: collections.Counter[str] = collections.Counter()
    for item in items:
        sample = item.get_closest_marker("sample")
        if sample is not None:
            test = item.nodeid.partition("[")[0]
            if before[test] % sample.args[0]:
                item.add_marker("full")
            before[test] += 1


@pytest.hookimpl(tryfirst=True)  # before its fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test draws is the same in every run, whichever tests ran before it."""
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)  # of which Keras draws, too
    np.random.seed(seed)
    # Of which Estimand draws the seed of a run that was given none.
    secrets.randbits = random.Random(seed).getrandbits


@pytest.fixture(scope="session")
def upstream_model_dirs() -> Path:
    """Checkpoints and numbers written by tf.estimator 2.15; its README says how."""
    return Path(__file__).resolve().parent / "fixtures" / "upstream"


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Fails a test that leaves a variable, a thread, a process or many open files behind."""
    variables = our_variables()
    descriptors = open_descriptors()
    threads = lasting_threads()
    processes = set(child_processes())
    yield
    leaks = changed_variables(variables)
    leaks += [f"thread {thread.name!r} still runs" for thread in still_there(threads)]
    leaks += [
        f"process {pid} still runs: {command}"
        for pid, command in child_processes().items()
        if pid not in processes
    ]
    leaks += leaked_descriptors(descriptors)
    if leaks:
        pytest.fail("The test leaks:\n  " + "\n  ".join(leaks), pytrace=False)


def our_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}


def changed_variables(before: dict[str, str]) -> list[str]:
    """One sentence per difference; puts the old values back, so that no other test suffers."""
    after = our_variables()
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            found.append(f"variable {name}: {before.get(name)!r} became {after.get(name)!r}")
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
    return found


def open_descriptors() -> dict[str, str]:
    """What this process has open, by number. Linux only; else nothing."""
    found: dict[str, str] = {}
    try:
        numbers = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return found
    for number in numbers:
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # closed while we looked; the listing itself was one
        if not any(part in target for part in KEPT_OPEN):
            found[number] = target
    return found


def leaked_descriptors(before: dict[str, str]) -> list[str]:
    """One sentence, if far more is open than before and stays so for a grace period."""
    deadline = time.monotonic() + SECONDS_TO_WIND_DOWN
    while True:
        new = {n: t for n, t in open_descriptors().items() if before.get(n) != t}
        if len(new) <= MOST_NEW_DESCRIPTORS:
            return []
        if time.monotonic() > deadline:
            several = ", ".join(sorted(set(new.values()))[:5])
            return [f"{len(new)} descriptors are still open: {several}"]
        gc.collect()  # what nobody holds any more is closed by it
        time.sleep(0.05)


def lasting_threads() -> set[threading.Thread]:
    """Threads that would keep the process alive."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


def still_there(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that came with the test and do not end within a grace period."""
    deadline = time.monotonic() + SECONDS_TO_WIND_DOWN
    new = lasting_threads() - before
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted((thread for thread in new if thread.is_alive()), key=lambda thread: thread.name)


def child_processes() -> dict[int, str]:
    """Running children of this process by id, with their command lines. Linux only; else none."""
    found: dict[int, str] = {}
    for status in possible_children():
        try:
            # After the command name in brackets, which may hold anything: state, parent's id, …
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if int(parent) != os.getpid() or state == "Z":
                continue
            command = status.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        # Python's own bookkeeper, shared by all users of multiprocessing in this process; and what
        # programs are forked from.
        if "multiprocessing.resource_tracker" not in command and "tests.forked" not in command:
            found[int(status.parent.name)] = command.strip()
    return found | forked.running()


def possible_children() -> list[Path]:
    """Where to look: all processes if need be, which takes longer than most tests do."""
    lists: list[str] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as file:
                lists.append(file.read())
    except (FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
        lists = []
    if not lists:
        return list(Path("/proc").glob("[0-9]*/stat"))
    return [Path("/proc") / number / "stat" for one in lists for number in one.split()]
