"""Where the corpus began: requests of each kind, right ones and wrong ones.

`python -m tests.serving.fuzz.seeds` writes those that are not there. What fuzzing found lies
beside them: `make fuzz FUZZ=--keep` adds inputs that go new ways.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Iterator

import hpack

from estimand.serving.lean import frames
from tests.serving import fuzzing
from tests.serving.fuzz.changing import CORPUS, METHODS
from tests.serving.lean.test_fuzz import conversation

_EACH = 40


def grpc_seeds(random_: random.Random) -> Iterator[bytes]:
    for _ in range(_EACH):
        path, body = fuzzing.grpc_case(random_)
        yield bytes([METHODS.index(path)]) + body


def http2_seeds(random_: random.Random) -> Iterator[bytes]:
    for _ in range(_EACH // 2):
        yield bytes([2 | random_.randrange(4) << 2]) + b"".join(conversation(random_))
    for path in (b"/echo", b"/quick", b"/watch", b"/slow", b"/none"):
        headers = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
            (b"content-type", b"application/grpc"), (b"te", b"trailers"),
            (b"grpc-timeout", b"5S"), (b"grpc-encoding", b"gzip"), (b"key-bin", b"AAE"),
        ]  # fmt: skip
        block = hpack.Encoder().encode(headers)
        squeezed = gzip.compress(b"abc", 1, mtime=0)
        message = b"\1" + len(squeezed).to_bytes(4, "big") + squeezed
        parts = [(1, 4, 1, block), (0, 1, 1, message), (8, 0, 0, b"\0\0\1\0"), (6, 0, 0, bytes(8))]
        framed = (bytes((k, f, s)) + len(p).to_bytes(2, "big") + p for k, f, s, p in parts)
        yield b"\3" + b"".join(framed)
        halves = [(1, 0, 1, block[:9]), (9, 4, 1, block[9:]), (0, 9, 1, b"\2" + message + b"\0\0")]
        framed = (bytes((k, f, s)) + len(p).to_bytes(2, "big") + p for k, f, s, p in halves)
        yield b"\3" + b"".join(framed)
    yield b"\1" + frames.PREFACE


def http1_seeds(random_: random.Random) -> Iterator[bytes]:
    for _ in range(_EACH // 2):
        yield bytes([random_.randrange(4)]) + fuzzing.http_case(random_)
    for _ in range(_EACH // 2):
        path, body, headers = fuzzing.rest_case(random_)
        lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        yield b"\0" + "\r\n".join([*lines, "", ""]).encode() + body
    for start in (
        "GET /",
        "GET /monitoring/status.json",
        "OPTIONS *",
        "CONNECT x:1",
        "HEAD /livez",
    ):
        yield f"\0{start} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    body = '{"instances": [1.0]}'
    ask = f"POST /v1/models/half_plus_two:predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
    yield f"\0{ask}\r\n{body}{ask}\r\n{body}".encode()
    yield f"\0{ask}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n{body}".encode()
    yield f"\0{ask}Expect: 100-continue\r\n\r\n{body}".encode()


def json_seeds(random_: random.Random) -> Iterator[bytes]:
    for _ in range(_EACH):
        _, body, headers = fuzzing.rest_case(random_)
        if "Content-Encoding" not in headers:
            yield bytes([random_.randrange(6)]) + body
    for value in ("NaN", "-Inf", "1e400", "1" * 30, '"\\ud800"', '"\\u00e9\\/"', '{"b64": "aGk="}'):
        yield f'\1{{"instances": [{value}]}}'.encode()
    rows = {"examples": [{"x": 1.5, "s": "t", "n": [1, 2]}], "context": {"c": {"b64": "aGk="}}}
    yield b"\0" + json.dumps(rows).encode()
    yield b"\1\xef\xbb\xbf" + b'{"inputs": {"a": [1], "b": [2]}} and more'


def config_seeds(random_: random.Random) -> Iterator[bytes]:
    for policy in ("", "latest { num_versions: 2 }", "all {}", "specific { versions: [1, 2] }"):
        yield (
            "\0model_config_list { config { name: 'm' base_path: '/models/m' model_platform: "
            f"'tensorflow' model_version_policy {{ {policy} }} "
            "version_labels { key: 'stable' value: 1 } logging_config { sampling_config "
            "{ sampling_rate: 0.5 } log_collector_config { type: 'x' filename_prefix: 'y' } } } }"
        ).encode()
    yield b"\0custom_model_config { type_url: 'x' value: 'y' }"
    yield b'\0model_config_list: { config: { name: "m", base_path: "file:///m" } }  # more'
    yield b"\2max_batch_size { value: 8 } allowed_batch_sizes: [1, 8]"
    yield b"\3server_key: 'k' server_cert: 'c' client_verify: true custom_ca: 'a'"
    yield b"\4prometheus_config { enable: true path: '/metrics' }"


SEEDS = {
    "grpc": grpc_seeds,
    "http2": http2_seeds,
    "http1": http1_seeds,
    "json": json_seeds,
    "config": config_seeds,
}


def main() -> None:
    for kind, make in SEEDS.items():
        folder = CORPUS / kind
        folder.mkdir(parents=True, exist_ok=True)
        for body in make(random.Random(kind)):
            if len(body) <= 8192:
                (folder / hashlib.sha256(body).hexdigest()[:16]).write_bytes(body)


if __name__ == "__main__":
    main()
