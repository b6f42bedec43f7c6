"""One contestant's process: python bench/child.py WORKLOAD CONTESTANT [--quick].

WORKLOAD is a module of workloads/, and with a colon which of several workloads in it.

Commands come on standard input and answers go to standard output, one JSON object per line;
whatever the frameworks print is kept apart from them.
"""

from __future__ import annotations

import importlib
import os
import sys

import environments
from turns import Turns


def main() -> None:
    workload_name, contestant_name = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    turns = Turns(sys.stdin, answers, quick="--quick" in sys.argv)
    module, _, name = workload_name.partition(":")
    workload = getattr(importlib.import_module(f"workloads.{module}"), name or "WORKLOAD")
    contestant = workload.contestant(contestant_name)
    if not workload.fresh_process:
        # All contestants import at the same time, but warm up one after the other: what a
        # framework finds out about the machine then, it finds out undisturbed.
        importlib.import_module(environments.FRAMEWORK[contestant.environment])
        turns.say({"loaded": True})
        turns.obey("begin")
    contestant.run(turns)


if __name__ == "__main__":
    main()
