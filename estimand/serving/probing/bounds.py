"""What a probe may take of the machine."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

_PART = 0.9
_SMALLEST = 64 * 2**20
_NICE = 10
_FIRST_KILLED = "1000"


def memory_to_give() -> int:
    """Nine tenths of what is free, in this machine and in this container."""
    free = min(_free_in_machine(), _free_in_container(), sys.maxsize)
    return max(_SMALLEST, int(_PART * free))


def _free_in_machine() -> float:
    with contextlib.suppress(OSError):
        match = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        if match:
            return int(match[1]) * 1024
    return float("inf")


def _free_in_container(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """By cgroup v2's bound; pages of files that were read can be had back."""
    with contextlib.suppress(OSError, ValueError):
        most = int((folder / "memory.max").read_text())  # "max" is no number, and no bound
        used = int((folder / "memory.current").read_text())
        files = re.search(r"^inactive_file (\d+)", (folder / "memory.stat").read_text(), re.M)
        return most - used + (int(files[1]) if files else 0)
    return float("inf")


def be_harmless(limit: int, hurry: bool) -> None:
    """This process: at most so much more memory, after requests, and the first to be killed.

    `hurry` where there are no requests yet that could be disturbed.
    """
    if not hurry:
        with contextlib.suppress(OSError):
            os.nice(_NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_KILLED)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = _data_of_this_process() + limit
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no file of its memory when it crashes


def _data_of_this_process() -> int:
    match = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 if match else 0


def seconds_without_processor(pid: int) -> float:
    """How long a process, or the thread of it that waited most, was ready and others ran."""
    longest = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            longest = max(longest, int(file.read_text().split()[1]))
    return longest / 1e9
