"""Runs the programs of pages: `python -m tests.docs.run_page docs/inputs.md …`.

Each is run in a process, a namespace and an empty directory of its own, as if somebody had pasted
it into a file. The processes are forked from this one, which has imported Keras and computed
nothing: that is imported once for all of them.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import os
import sys
import tempfile
import traceback
from pathlib import Path

from tests.docs.pages import Block, name_of, programs


def matches(expected: str, printed: str) -> bool:
    """Whether it is what was printed; … stands for any text, such as the digits of a number."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected.replace("…", "..."), printed, flags)


def run(block: Block, page: Path, directory: str) -> None:
    """The program, in this process; its lines have the numbers they have in the page."""
    os.chdir(directory)
    sys.path[0] = directory
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    exec(code, {"__name__": "__main__"})


def run_forked(block: Block, page: Path) -> tuple[int, str]:
    """Exit code and output of a program that is run in a child of this process."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w+") as out:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(out.fileno(), 1)
                run(block, page, directory)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        return os.waitstatus_to_exitcode(status), out.read()


def main(page: Path) -> int:
    import keras  # noqa: F401

    gc.freeze()
    wrong = 0
    for block, expected in programs(page):
        code, printed = run_forked(block, page)
        place = f"{name_of(page)}, line {block.line}"
        if code != 0:
            wrong += 1
            print(f"{place}: ended with {code}")
        elif expected is not None and not matches(expected, printed):
            wrong += 1
            print(f"{place}: the page says\n{expected}\nand it printed\n{printed}")
    return wrong


if __name__ == "__main__":
    sys.exit(sum(main(Path(name).resolve()) for name in sys.argv[1:]))
