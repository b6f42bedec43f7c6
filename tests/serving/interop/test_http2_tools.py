"""HTTP/2 itself, by nghttp2's tools and curl: prior knowledge, TLS, padding, windows, streams."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from tests.serving.running import Server, predict_request

PATH = "/tensorflow.serving.PredictionService/Predict"
HEADERS = ("content-type: application/grpc", "te: trailers")


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: make interop")
    return found


def run(name: str, *arguments: object, seconds: float = 60.0) -> bytes:
    command = [program(name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def headers(*more: str) -> list[str]:
    return [part for one in (*HEADERS, *more) for part in ("-H", one)]


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A request with gRPC's prefix."""
    request = predict_request("two_inputs", a=np.float32([2.0]), b=np.float32([3.0]))
    message = request.SerializeToString()
    file = tmp_path_factory.mktemp("http2") / "body"
    file.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    return file


def total(answer: bytes) -> float:
    """The one message of an answer."""
    assert answer[0] == 0
    assert len(answer) == 5 + int.from_bytes(answer[1:5], "big")
    found: float = predict_pb2.PredictResponse.FromString(answer[5:]).outputs["sum"].float_val[0]
    return found


@pytest.fixture(params=["plain", "tls"])
def url(request: pytest.FixtureRequest, plain: Server, secure: Server) -> str:
    if request.param == "tls":
        return f"https://localhost:{secure.port}{PATH}"
    return f"http://127.0.0.1:{plain.port}{PATH}"


def test_curl(url: str, keys: Path, body: Path, tmp_path: Path) -> None:
    how = ["--http2-prior-knowledge"]
    if url.startswith("https"):
        how = ["--http2", "--cacert", keys / "ca.crt"]  # h2 is agreed upon by ALPN
    quiet = ("-sS", "--noproxy", "*", "--max-time", 30)
    told = ("-D", tmp_path / "headers", "-o", tmp_path / "answer")
    run("curl", *quiet, *how, *told, *headers(), "--data-binary", f"@{body}", url)
    assert total((tmp_path / "answer").read_bytes()) == 5.0
    lines = (tmp_path / "headers").read_text().splitlines()
    assert lines[0].split() == ["HTTP/2", "200"]
    assert "grpc-status: 0" in lines


def test_curl_is_told_that_the_port_speaks_grpc(plain: Server) -> None:
    address = f"http://127.0.0.1:{plain.port}/"
    quiet = ("-sS", "--noproxy", "*", "--max-time", 30, "-o", "/dev/null", "-w", "%{http_code}")
    for more, status in ((["-d", "x"], b"415"), ([], b"405")):
        assert run("curl", *quiet, "--http2-prior-knowledge", *more, address) == status


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--padding=64"],
        ["--window-bits=10", "--connection-window-bits=16"],
        ["--header-table-size=0"],
        ["--header-table-size=8192", "--encoder-header-table-size=0"],
        ["--no-dep", "-m", "40", "--max-concurrent-streams=3"],
        ["-m", "40"],
    ],
    ids=lambda more: " ".join(one[:24] for one in more) or "usual",
)
def test_nghttp(url: str, body: Path, more: list[str]) -> None:
    assert statuses(url, body, *more) == [b"0"] * (40 if "-m" in more else 1)


def test_headers_in_several_frames(plain: Server, eager: Server, body: Path) -> None:
    """nghttp adds some 20 KB of them: only the second server allows so many."""
    for server, status in ((plain, b"8"), (eager, b"0")):
        url = f"http://127.0.0.1:{server.port}{PATH}"
        assert statuses(url, body, "--continuation") == [status]


def statuses(url: str, body: Path, *more: str) -> list[bytes]:
    shown = run("nghttp", "-v", "--no-verify-peer", *headers(), *more, "-d", body, url)
    return re.findall(rb"\) grpc-status: (\d+)", re.sub(rb"\x1b\[[\d;]*m", b"", shown))


def test_nghttp_reads_a_large_answer(url: str, tmp_path: Path) -> None:
    request = predict_request("bytes", image=[b"x" * (20 * 2**20)]).SerializeToString()
    file = tmp_path / "large"
    file.write_bytes(b"\0" + len(request).to_bytes(4, "big") + request)
    answer = run("nghttp", "--no-verify-peer", *headers(), "-d", file, url)
    found = predict_pb2.PredictResponse.FromString(answer[5:]).outputs["image_bytes"]
    assert found.string_val[0] == b"x" * (20 * 2**20)


def test_h2load(url: str, body: Path) -> None:
    """Many streams on several connections: all are answered."""
    shown = run("h2load", "-n", 3000, "-c", 6, "-m", 100, *headers(), "-d", body, url).decode()
    assert "3000 total, 3000 started, 3000 done, 3000 succeeded, 0 failed, 0 errored" in shown
    assert "status codes: 3000 2xx" in shown
