"""What clients send is read in a time that grows with its length, and no faster.

Work is counted, not timed: lines of ours that run, and characters of the texts whose methods are
called. Twice the input may be twice the work, and a little more for what does not grow.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import estimand.serving
from estimand.serving.json import examples as json_examples
from estimand.serving.json import input as json_input
from estimand.serving.json import lenient as json_lenient
from estimand.serving.lean import headers
from estimand.serving.models.servable import Signature, Slot
from estimand.serving.rest import routes as rest_routes
from estimand.serving.status import StatusError

OURS = str(Path(estimand.serving.__file__).parent)


def work(call: Callable[[], Any]) -> int:
    """Lines of the package that run, and how long the texts are that it calls methods of."""
    done = 0

    def line(frame: Any, event: str, _: Any) -> Any:
        nonlocal done
        done += event == "line"
        return line

    def enter(frame: Any, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(OURS) else None

    def profile(frame: Any, event: str, called: Any) -> None:
        nonlocal done
        if event == "c_call" and frame.f_code.co_filename.startswith(OURS):
            whose = getattr(called, "__self__", None)
            assert not isinstance(whose, re.Pattern) or whose.pattern in LINEAR
            done += len(whose) if isinstance(whose, str | bytes) else 0

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(enter)
    sys.setprofile(profile)
    try:
        with contextlib.suppress(StatusError):
            call()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return done


def assert_linear(read: Callable[[Any], Any], of_size: Callable[[int], Any]) -> None:
    inputs = [of_size(size) for size in (500, 1000, 2000)]
    counts = [work(lambda given=given: read(given)) for given in inputs]
    assert counts[0] > 0
    for smaller, larger in itertools.pairwise(counts):
        assert larger <= 2.2 * smaller + 200, counts


# ---------------------------------------------------------------- JSON

DOCUMENTS: dict[str, Callable[[int], bytes]] = {
    "escaped quotes": lambda n: b'Inf "' + rb"\"" * n,
    "escaped backslashes": lambda n: b'Inf "' + b"\\\\" * n,
    "quotes": lambda n: b"Inf " + b'"' * n,
    "strings": lambda n: b"[Inf" + b',"a"' * n + b"]",
    "infinities": lambda n: b"[" + b"-Inf," * n + b"Inf]",
    "words that begin so": lambda n: b"[" + b"Infi" * n,
    "brackets before an error": lambda n: b"[" + b"[1,[2]]," * n + b"1 2]",
    "openings before an error": lambda n: b"[" + b'{"a":[' * min(n, 400) + b"1 2" + b" " * n,
    "strings before an error": lambda n: b'[NaN, "' + rb"\"[" * n + b'", 1 2]',
    "spaces": lambda n: b" " * n + b"NaN" + b" " * n,
    "digits": lambda n: b"[NaN, 1" + b"0" * n + b"]",
    "digits behind the point": lambda n: b"[NaN, 0." + b"0" * n + b"1]",
    "escapes": lambda n: b'[NaN, "' + rb"\u0041" * n + b'"]',
    "no text at all": lambda n: b"[NaN" + b"\xff" * n,
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_json_that_only_the_lenient_reader_takes(kind: str) -> None:
    assert_linear(json_lenient.parse, DOCUMENTS[kind])


def slot(kind: Any, number: int) -> Slot:
    return Slot("x", "x:0", number, np.dtype(kind), None)


NUMBERS = Signature("s", "", {"x": slot(np.float32, 1)}, {}, None)
TEXTS = Signature("s", "", {"x": slot(np.object_, 7)}, {}, None)
BOTH = Signature("s", "", {"x": slot(np.float32, 1), "y": slot(np.object_, 7)}, {}, None)
VALUES: dict[str, tuple[Signature, Callable[[int], Any]]] = {
    "numbers": (NUMBERS, lambda n: [1.5] * n),
    "numbers and a string at the end": (NUMBERS, lambda n: [1.5] * n + ["a" * n]),
    "rows of two lengths": (NUMBERS, lambda n: [[1.5]] * n + [[1.5, 2.5]]),
    "lists at another depth": (NUMBERS, lambda n: [1.5] * n + [[1.5]]),
    "strings": (TEXTS, lambda n: ["abc"] * n),
    "objects": (TEXTS, lambda n: [{"b64": "YWJj"}] * n),
    "named rows": (BOTH, lambda n: [{"x": 1.5, "y": "a"}] * n),
    "one row without a name": (BOTH, lambda n: [{"x": 1.5, "y": "a"}] * n + [{"x": 1}]),
    "a name that is not there": (BOTH, lambda n: [{"x" * n: 1.5}]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_json_values(kind: str) -> None:
    signature, make = VALUES[kind]

    def read(body: bytes) -> None:
        json_input.predict_inputs(json_input.parse(body), signature, body)

    assert_linear(read, lambda n: json.dumps({"instances": make(n)}).encode())


def test_json_examples() -> None:
    def make(n: int) -> dict[str, Any]:
        return {"examples": [{"x": [1.5, 2.5], "y": "a"}] * n + [{"x": ["a", 1]}]}

    assert_linear(json_examples.input_of, make)


def test_a_string_does_not_make_all_numbers_as_large_as_itself() -> None:
    """NumPy's common type of texts and numbers is a text as long as the longest."""
    import tracemalloc

    body = json.dumps({"instances": [1.5] * 20_000 + ["a" * 20_000]}).encode()
    document = json_input.parse(body)
    tracemalloc.start()
    try:
        with pytest.raises(StatusError, match="is not of expected type: float"):
            json_input.predict_inputs(document, NUMBERS, body)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(body)
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- paths and headers


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("part", ["a", "/", ":", "/versions/1", "/labels/a", "/metadata", "1"])
def test_paths(method: str, part: str) -> None:
    assert_linear(
        lambda path: rest_routes.find(method, path),
        lambda n: "/v1/models/m" + part * n,
    )


@pytest.mark.parametrize("value", [b"a", b",", b"gzip,", b"1", b" "])
@pytest.mark.parametrize("name", [b"x-a", b"grpc-accept-encoding", b"grpc-timeout", b"te"])
def test_headers_of_grpc(name: bytes, value: bytes) -> None:
    start = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a"), (b"te", b"trailers")]
    start.append((b"content-type", b"application/grpc"))
    assert_linear(
        lambda given: headers.judge(given, {b"/a": object()}, 10**9),
        lambda n: [*start, (name, value * n)],
    )


# ---------------------------------------------------------------- regular expressions

# Every pattern of the package, and why what it looks at cannot make it slow.
LINEAR: dict[str | bytes, str] = {
    rb":?[-!#$%&'*+.^_`|~0-9a-z]+": "from the start, one repetition, nothing behind it",
    rb"[\0\r\n]": "one character",
}


def patterns() -> dict[Path, list[ast.Call]]:
    found: dict[Path, list[ast.Call]] = {}
    for path in Path(OURS).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                module = node.func.value
                is_re = isinstance(module, ast.Name) and module.id == "re"
                if is_re and node.func.attr != "escape":
                    found.setdefault(path.relative_to(OURS), []).append(node)
    return found


def test_regular_expressions_see_nothing_that_clients_send_but_what_was_judged() -> None:
    """A new one has to be added here, with what it reads: files of ours and of the operator, or,
    for what comes over the network, to `LINEAR` with the reason why it is."""
    read_by = {
        "client/address.py": 1,  # the address that a program gives to our own client
        "models/custom_ops.py": 2,  # errors of TensorFlow
        "models/disk.py": 1,  # names of directories
        "rows/graph_scan.py": 3,  # names of a model's operations
        "page/answers.py": 1,  # our own page
        "inference/request_log.py": 1,  # names of our own files
        "lean/headers.py": 2,  # in LINEAR
        "probing/bounds.py": 3,  # what the kernel tells
    }
    assert {str(path): len(calls) for path, calls in patterns().items()} == read_by
    in_headers = [ast.literal_eval(call.args[0]) for call in patterns()[Path("lean/headers.py")]]
    assert sorted(in_headers) == sorted(LINEAR)
