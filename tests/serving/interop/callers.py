"""Real gRPC clients as programs with one set of options, so that all meet the same cases.

Each is started with `key=value` arguments:

    address    host:port, or unix:PATH
    path       of the method
    request    a file with the bytes of a request; repeatable: the calls send one after the other
    out        a folder: INDEX.K are the different answers to request INDEX; `message` an error's
    calls      how many, all at once on one channel (1)
    pause      milliseconds after each: one call after the other
    timeout    milliseconds of each call
    cancel     milliseconds after which all are cancelled
    stream     the method streams; so many answers are read, then it is cancelled
    gzip       requests are compressed
    metadata   name:value; repeatable
    ca         TLS, with the certificate of this authority
    keepalive  milliseconds between pings, also without calls

and prints the status codes in the order of the calls.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Where `make interop` puts what npm installs.
NODE_MODULES = Path(
    os.environ.get("ESTIMAND_NODE_MODULES", HERE.parents[2] / ".interop" / "node_modules")
)
# `make interop` tries all cases on all transports; else some stand for the others.
ALL = os.environ.get("ESTIMAND_INTEROP") == "all"
NAMES = ("python", "python-asyncio", "node", "c++", *(("go", "java") if ALL else ()))
TRANSPORTS = ("plain", "tls", "socket") if ALL else ("tls",)
# What Debian's versions of them cannot do.
CANNOT = {"go": ("socket",), "java": ("socket", "tls")}


@dataclass(frozen=True)
class Outcome:
    codes: list[int]
    answers: list[list[bytes]]  # to each request: those that differ
    message: str


@dataclass
class Caller:
    """One of the clients, and where it calls."""

    name: str
    command: list[str]
    folder: Path
    address: str = ""
    ca: Path | None = None
    _count: itertools.count = field(default_factory=itertools.count)

    def at(self, address: str, ca: Path | None = None) -> Caller:
        return Caller(self.name, self.command, self.folder, address, ca, self._count)

    def begin(
        self, path: str, requests: Sequence[bytes], metadata: Sequence[str] = (), **options: int
    ) -> Calling:
        out = self.folder / str(next(self._count))
        out.mkdir()
        given = [f"address={self.address}", f"path={path}", f"out={out}"]
        for index, body in enumerate(requests):
            (out / f"request{index}").write_bytes(body)
            given.append(f"request={out / f'request{index}'}")
        given += [f"metadata={pair}" for pair in metadata]
        given += [f"{name}={value}" for name, value in options.items()]
        if self.ca is not None:
            given.append(f"ca={self.ca}")
        process = subprocess.Popen(
            [*self.command, *given],
            stdout=subprocess.PIPE,
            stderr=(out / "stderr").open("wb"),
            env={**os.environ, "NODE_MODULES": str(NODE_MODULES), "NO_PROXY": "*"},
        )
        return Calling(process, out, len(requests))

    def __call__(self, path: str, *requests: bytes, **options: object) -> Outcome:
        return self.begin(path, requests, **options).end()


@dataclass
class Calling:
    process: subprocess.Popen
    out: Path
    requests: int

    def end(self) -> Outcome:
        try:
            printed = self.process.communicate(timeout=120)[0].decode()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            pytest.fail(f"the client does not end: {(self.out / 'stderr').read_text()}")
        if not printed.startswith("codes"):
            pytest.fail((self.out / "stderr").read_text())
        answers = [
            [file.read_bytes() for file in sorted(self.out.glob(f"{index}.*"))]
            for index in range(self.requests)
        ]
        codes = [int(code) for code in printed.split()[1:]]
        return Outcome(codes, answers, (self.out / "message").read_text())


def command_of(name: str, cache: Path) -> list[str]:
    """What starts the client; a skip says what is missing."""
    if name.startswith("python"):
        return [sys.executable, str(HERE / "call.py"), f"library={name.partition('-')[2]}"]
    if name == "node":
        if not (NODE_MODULES / "@grpc/grpc-js").exists():
            pytest.skip("needs @grpc/grpc-js: make interop")
        return [_needed("node"), str(HERE / "call.js")]
    if name == "go":
        return [str(_made(cache / "call-go", HERE / "call.go", _build_go))]
    if name == "java":
        made = _made(cache / "call-java", HERE / "Call.java", _build_java)
        return [_needed("java"), "-Xmx1g", "-cp", _class_path(made), "Call"]
    return [str(_made(cache / "call-cc", HERE / "call.cc", _build_cc))]


_JARS = Path("/usr/share/java")


def _made(stem: Path, source: Path, build: Callable[[Path, Path], None]) -> Path:
    """Of this very source; kept for the next run."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    made = stem.with_name(f"{stem.name}-{digest}")
    if not made.exists():
        new = Path(f"{made}.new")
        build(source, new)
        os.rename(new, made)
    return made


def _needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}: make interop")
    return found


def _build_cc(source: Path, made: Path) -> None:
    compiler, config = _needed("g++"), _needed("pkg-config")
    asked = [config, "--cflags", "--libs", "grpc++"]
    flags = subprocess.run(asked, capture_output=True, text=True, check=False)
    if flags.returncode:
        pytest.skip("needs libgrpc++-dev: make interop")
    command = [compiler, "-O1", "-std=c++17", str(source), "-o", str(made)]
    subprocess.run([*command, *flags.stdout.split()], check=True, timeout=280)


def _build_go(source: Path, made: Path) -> None:
    compiler = _needed("go")
    if not Path("/usr/share/gocode/src/google.golang.org/grpc").exists():
        pytest.skip("needs golang-google-grpc-dev: make interop")
    where = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": f"{made}.cache"}
    command = [compiler, "build", "-o", str(made), str(source)]
    subprocess.run(command, check=True, timeout=280, env={**os.environ, **where})
    shutil.rmtree(where["GOCACHE"])


def _class_path(*more: Path) -> str:
    names = ("grpc-", "netty-", "perfmark-", "opencensus-", "guava.", "failureaccess")
    jars = [file for file in _JARS.glob("*.jar") if file.name.startswith(names)]
    return os.pathsep.join(map(str, [*jars, *more]))


def _build_java(source: Path, made: Path) -> None:
    compiler = _needed("javac")
    if not all((_JARS / f"{name}.jar").exists() for name in ("grpc-netty", "perfmark-api")):
        pytest.skip("needs libgrpc-java and libperfmark-java: make interop")
    command = [compiler, "-cp", _class_path(), "-d", str(made), str(source)]
    subprocess.run(command, check=True, timeout=280)
