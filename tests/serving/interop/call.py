"""Calls a gRPC method with bytes, by grpcio: `library=sync` or `asyncio`. See callers.py."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import grpc

GIVEN: dict[str, list[str]] = defaultdict(list)
for argument in sys.argv[1:]:
    key, _, value = argument.partition("=")
    GIVEN[key].append(value)


def number(name: str) -> int:
    return int(GIVEN[name][0]) if GIVEN[name] else 0


CALLS = number("calls") or 1
BODIES = [Path(file).read_bytes() for file in GIVEN["request"]]
answers: list[set[bytes]] = [set() for _ in BODIES]
message = ""


def channel(package: Any) -> Any:
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_retries", 0),
    ]
    if GIVEN["keepalive"]:
        options.append(("grpc.keepalive_time_ms", number("keepalive")))
        options.append(("grpc.keepalive_permit_without_calls", 1))
        options.append(("grpc.http2.max_pings_without_data", 0))
    compression = grpc.Compression.Gzip if GIVEN["gzip"] else None
    more = {"options": options, "compression": compression}
    address = GIVEN["address"][0]
    if not GIVEN["ca"]:
        return package.insecure_channel(address, **more)
    trusted = grpc.ssl_channel_credentials(Path(GIVEN["ca"][0]).read_bytes())
    return package.secure_channel(address, trusted, **more)


def arguments() -> dict[str, Any]:
    pairs = [one.partition(":")[::2] for one in GIVEN["metadata"]]
    metadata = [(k, v.encode() if k.endswith("-bin") else v) for k, v in pairs]
    timeout = number("timeout") / 1000 if GIVEN["timeout"] else None
    return {"metadata": metadata, "timeout": timeout}


def failed(error: Any) -> int:
    global message
    message = error.details() or ""
    return int(error.code().value[0])


# ---------------------------------------------------------------- threads


def in_threads() -> list[int]:
    with channel(grpc) as to:
        kind = to.unary_stream if GIVEN["stream"] else to.unary_unary
        ask = kind(GIVEN["path"][0])
        if not GIVEN["pause"]:
            return [ended(i, one) for i, one in enumerate([begun(ask, i) for i in range(CALLS)])]
        codes = []
        for i in range(CALLS):
            codes.append(ended(i, begun(ask, i)))
            time.sleep(number("pause") / 1000)
        return codes


def begun(ask: Any, i: int) -> Any:
    body = BODIES[i % len(BODIES)]
    call = ask(body, **arguments()) if GIVEN["stream"] else ask.future(body, **arguments())
    if GIVEN["cancel"]:
        threading.Timer(number("cancel") / 1000, call.cancel).start()
    return call


def ended(i: int, call: Any) -> int:
    try:
        if GIVEN["stream"]:
            for count, answer in enumerate(call, 1):
                answers[i % len(BODIES)].add(answer)
                if count == number("stream"):
                    call.cancel()
        else:
            answers[i % len(BODIES)].add(call.result())
    except grpc.FutureCancelledError:
        return failed(call)
    except grpc.RpcError as error:
        return failed(error)
    return 0


# ---------------------------------------------------------------- asyncio


async def in_the_loop() -> list[int]:
    async with channel(grpc.aio) as to:
        kind = to.unary_stream if GIVEN["stream"] else to.unary_unary
        ask = kind(GIVEN["path"][0])
        if not GIVEN["pause"]:
            return await asyncio.gather(*(awaited(ask, i) for i in range(CALLS)))
        codes = []
        for i in range(CALLS):
            codes.append(await awaited(ask, i))
            await asyncio.sleep(number("pause") / 1000)
        return codes


async def awaited(ask: Any, i: int) -> int:
    call = ask(BODIES[i % len(BODIES)], **arguments())
    if GIVEN["cancel"]:
        asyncio.get_running_loop().call_later(number("cancel") / 1000, call.cancel)
    try:
        if GIVEN["stream"]:
            count = 0
            async for answer in call:
                count += 1
                answers[i % len(BODIES)].add(answer)
                if count == number("stream"):
                    call.cancel()
        else:
            answers[i % len(BODIES)].add(await call)
    except grpc.RpcError as error:
        return failed(error)
    except asyncio.CancelledError:
        return int((await call.code()).value[0])
    return 0


def main() -> None:
    codes = asyncio.run(in_the_loop()) if GIVEN["library"] == ["asyncio"] else in_threads()
    out = Path(GIVEN["out"][0])
    for index, found in enumerate(answers):
        for k, answer in enumerate(sorted(found)):
            (out / f"{index}.{k}").write_bytes(answer)
    (out / "message").write_text(message)
    print("codes", *codes)


if __name__ == "__main__":
    main()
