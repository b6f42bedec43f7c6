"""The calls of a connection: requests become whole, handlers run, answers go to the sender."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from estimand.serving.access.request_memory import ConnectionShare, LargeRequest
from estimand.serving.lean import frames, messages
from estimand.serving.lean.early_answers import EarlyAnswers
from estimand.serving.lean.frames import Code
from estimand.serving.lean.headers import HEAD, OK_TRAILERS, RequestHead, trailers
from estimand.serving.lean.messages import PREFIX_SIZE
from estimand.serving.lean.sending import Sender
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Stream, Streaming
from estimand.serving.status import StatusError, from_exception, refused

log = logging.getLogger("estimand.serving")

_INFLATED_IN_THE_LOOP = 16_384  # compressed bytes; more would hold up the others
_COST_OF_A_STREAM = 1024  # bytes, about


class Calls:
    def __init__(self, shared: Shared, sender: Sender) -> None:
        self._shared = shared
        self._memory = shared.memory
        self._share = ConnectionShare()
        self._limits = shared.limits
        self._loop = shared.loop
        self._sender = sender
        self.streams: dict[int, Stream] = {}
        self.early = EarlyAnswers(shared.limits, self._end_early)

    # ------------------------------------------------------------ the request arrives

    def open(self, stream: Stream) -> None:
        self.streams[stream.id] = stream
        stream.calls = self
        head = stream.request_head
        if head.refusal is not None:
            self._refuse(stream, head.refusal)
        elif not self._is_admitted(head):
            self.fail(stream, refused())
        elif self._sender.unsent > self._limits.unsent_bytes:
            text = f"{self._sender.unsent} bytes of answers wait for this client to take them."
            self.fail(stream, StatusError.of("RESOURCE_EXHAUSTED", text))
        else:
            if head.timeout is not None:
                stream.deadline = self._loop.time() + head.timeout
                stream.timer = self._loop.call_at(stream.deadline, self._late, stream)
            if stream.ended:
                self.data(stream, b"", True)
            else:
                self._hold_or_fail(stream, _COST_OF_A_STREAM)

    def _is_admitted(self, head: RequestHead) -> bool:
        """Before any of the request itself is looked at, or waited for."""
        admission = self._shared.admission
        if admission is None or head.method.is_open:
            return True
        # Clients send the same headers again and again: they are judged once, until others may ask.
        current = admission.current()
        if head.allowed_by is not current:
            if not admission.allow(head.headers):
                return False
            head.allowed_by = current
        return True

    def _hold_or_fail(self, stream: Stream, size: int) -> None:
        try:
            self._hold(stream, size)
        except StatusError as error:
            self.fail(stream, error)

    def _hold(self, stream: Stream, size: int) -> None:
        stream.held += size
        self._memory.hold(size)

    def takes_at_once(self, head: RequestHead, size: int) -> bool:
        """Whether nothing stands against `start` with a message of this size."""
        return (
            head.refusal is None
            and head.timeout is None
            and head.method.start is not None
            and size <= self._limits.message_bytes
            and self._sender.unsent <= self._limits.unsent_bytes
            and self._is_admitted(head)
        )

    def start(self, stream: Stream, body: bytes) -> None:
        """A request that came whole."""
        self.streams[stream.id] = stream
        stream.calls = self
        stream.request_head.method.start(body, None, stream)

    def data(self, stream: Stream, payload: bytes | bytearray, is_last: bool) -> None:
        """A part of the request; what comes after a refusal is passed over."""
        if stream.trailers is not None:
            self.early.came(stream, len(payload))
            return
        try:
            if stream.body is not None:
                stream.body += payload
                self._progress(stream, len(payload))
                if not is_last:
                    return
                payload, stream.body = stream.body, None
            elif not is_last:
                stream.body = bytearray(payload)
                self._progress(stream, len(payload))
                return
            compressed = self._is_compressed(stream, payload)
            body = bytes(memoryview(payload)[PREFIX_SIZE:])
            if stream.deadline is not None and self._loop.time() >= stream.deadline:
                raise _too_late()
        except StatusError as error:
            self.fail(stream, error)
        else:
            start = stream.request_head.method.start
            if start is not None and not compressed:
                start(body, stream.deadline, stream)
            else:
                stream.task = self._loop.create_task(self._run(stream, body, compressed))

    def _is_compressed(self, stream: Stream, payload: bytes | bytearray) -> bool:
        """Judges a whole request on the way."""
        size = len(payload)
        if size < PREFIX_SIZE:
            raise StatusError.of("INTERNAL", "The request has no message.")
        if messages.size_of(payload, self._limits.message_bytes) != size:
            raise messages.not_one(payload)
        return payload[0] != 0 and messages.is_compressed(payload[0], stream.request_head.encoding)

    def _progress(self, stream: Stream, grown: int) -> None:
        """Judge an unfinished request, and open its window if there is room for more of it."""
        body, large_request, limits = stream.body, stream.large_request, self._limits
        assert body is not None
        stream.touched = min(self._shared.now, stream.touched + grown / limits.bytes_per_second)
        if large_request is None:
            self._hold(stream, grown)
        else:
            self._memory.came(large_request, grown)
        if len(body) < PREFIX_SIZE:
            return
        if not stream.expected:
            stream.expected = messages.size_of(body, limits.message_bytes)
        missing = stream.expected - len(body)
        if missing < 0:
            raise messages.not_one(body)
        if missing > stream.window_in:
            self._ask_for_room(stream, missing)

    def _ask_for_room(self, stream: Stream, missing: int) -> None:
        large_request = stream.large_request
        if large_request is None:
            large_request = stream.large_request = _StreamedRequest(self, stream, self._share)
            self._memory.enter(large_request, missing, stream.window_in)
        elif large_request.asks or stream.window_in > large_request.last_piece // 2:
            return
        large_request.last_piece = min(
            missing - stream.window_in, large_request.next_piece(self._memory.limit)
        )
        self._memory.ask(large_request, large_request.last_piece)

    def may_send(self, stream: Stream, size: int) -> None:
        stream.touched = self._shared.now
        stream.window_in += size
        self._sender.put(frames.window_update(stream.id, size))

    # ------------------------------------------------------------ the answer

    async def _run(self, stream: Stream, body: bytes, compressed: bool) -> None:
        head = stream.request_head
        try:
            if compressed:
                body = await self._inflated(body, head.encoding)
            if head.method.start is not None:
                stream.task = None  # nothing to cancel any more
                head.method.start(body, stream.deadline, stream)
                return
            answer: Any = head.method.call(body, stream.deadline, head.metadata)
            if isinstance(head.method, Streaming):
                await self._stream(stream, answer)
            else:
                message = await answer
                stream.task = None
                self.answer(stream, message)
        except asyncio.CancelledError:
            stream.task = None
            self.fail(stream, StatusError.of("CANCELLED", "The call was cancelled."))
            raise
        except Exception as error:
            status = from_exception(error)
            if status is not error and status.name == "INTERNAL":
                log.exception("a gRPC call failed")
            stream.task = None
            self.fail(stream, status)

    def answer(self, stream: Stream, message: bytes) -> None:
        if not stream.gone and stream.trailers is None:
            gzip = self._limits.compress and stream.request_head.gzip
            self._sender.answer(stream, message, gzip)

    async def _inflated(self, body: bytes, encoding: bytes) -> bytes:
        arguments = body, encoding, self._limits.message_bytes
        if len(body) <= _INFLATED_IN_THE_LOOP:
            return messages.inflated(*arguments)
        return await self._loop.run_in_executor(None, messages.inflated, *arguments)

    async def _stream(self, stream: Stream, answers: AsyncIterator[bytes]) -> None:
        async for message in answers:
            if stream.gone:
                return
            if self._sender.unsent > self._limits.unsent_bytes:
                raise StatusError.of("RESOURCE_EXHAUSTED", "The client does not take the answers.")
            self._sender.message(stream, messages.prefixed(message))
        if not stream.gone:
            stream.task = None
            self._sender.end(stream, OK_TRAILERS if stream.head_is_sent else HEAD + OK_TRAILERS)

    def fail(self, stream: Stream, error: StatusError) -> None:
        if stream.gone or stream.trailers is not None:
            return
        block = trailers(error)
        self._refuse(stream, block if stream.head_is_sent else HEAD + block)

    def _refuse(self, stream: Stream, block: bytes) -> None:
        stream.body = None
        if stream.ended:
            self._sender.end(stream, block)
            return
        stream.trailers = block
        self._let_go(stream)
        self.early.wait(stream, self._loop.time())

    def _end_early(self, stream: Stream) -> None:
        assert stream.trailers is not None
        self._sender.end(stream, stream.trailers)

    def _late(self, stream: Stream) -> None:
        if stream.trailers is not None:  # the answer is there, but is not taken
            self.drop(stream)
            self._sender.put(frames.reset(stream.id, Code.CANCEL))
            return
        self.fail(stream, _too_late())

    # ------------------------------------------------------------ the end

    def end_streaming(self, error: StatusError) -> None:
        """Calls that would never end by themselves."""
        for stream in list(self.streams.values()):
            if isinstance(stream.request_head.method, Streaming):
                self.fail(stream, error)

    def drop(self, stream: Stream) -> None:
        """Nobody waits for the answer."""
        self._sender.drop(stream)
        self.forget(stream)

    def drop_all(self) -> None:
        for stream in list(self.streams.values()):
            self.drop(stream)

    def forget(self, stream: Stream) -> None:
        """Its last frame is sent, or none may be."""
        stream.gone = True
        del self.streams[stream.id]
        self.early.drop(stream)
        self._let_go(stream)

    def _let_go(self, stream: Stream) -> None:
        """Of all that it has, and that runs for it."""
        if stream.timer is not None:
            stream.timer.cancel()
        if stream.task is not None:
            stream.task.cancel()
        if stream.held:
            self._memory.release(stream.held)
            stream.held = 0
        if stream.large_request is not None:
            self._memory.leave(stream.large_request)
            stream.large_request = None


def _too_late() -> StatusError:
    return StatusError.of("DEADLINE_EXCEEDED", "Deadline Exceeded")


class _StreamedRequest(LargeRequest):
    """One that does not fit into a stream's first window."""

    __slots__ = ("_calls", "_stream", "last_piece")

    def __init__(self, calls: Calls, stream: Stream, share: ConnectionShare) -> None:
        super().__init__(share)
        self._calls = calls
        self._stream = stream
        self.last_piece = 0

    def may_send(self, size: int) -> None:
        self._calls.may_send(self._stream, size)

    def is_too_slow(self) -> None:
        text = "The request came too slowly while others waited for the memory it had."
        self._calls.fail(self._stream, StatusError.of("RESOURCE_EXHAUSTED", text))
