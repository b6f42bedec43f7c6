"""What the process does: a job comes, its result goes, one after the other, until no more come.

Nothing here imports TensorFlow, but for jobs of tf.Examples: the process starts in a moment.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from estimand.serving import inflating
from estimand.serving.json import input as json_input
from estimand.serving.json import output as json_output
from estimand.serving.json.slots import PlainSignature, PlainSlot
from estimand.serving.status import StatusError, from_exception, invalid

_MARKS = (b",", b"[", b"{", b":")  # each value but the first follows one of them
_BYTES_OF_A_VALUE = 96  # about, of the most wasteful one: an empty list, and its place in another
_OUTSIDE_OF_VALUES = 256 * 2**20  # bytes


@dataclass(frozen=True)
class Budget:
    """What one body may become."""

    inflated_bytes: int
    values: int

    @property
    def process_bytes(self) -> int:
        """Beyond what the process has without a job."""
        arrays = 16 * self.values
        return _BYTES_OF_A_VALUE * self.values + arrays + 3 * self.inflated_bytes


class OverBudget(StatusError):
    """The body would become more than a budget allows: 413."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)

    @property
    def http(self) -> int:
        return 413


def over_budget(text: str) -> OverBudget:
    return OverBudget(8, text)


@dataclass(frozen=True)
class Reading:
    """A body of `:predict`, `:classify` or `:regress`."""

    action: str
    zipped: bool
    budget: Budget
    signatures: dict[str, PlainSignature]
    default_signature: str

    def size(self, body: Any) -> int:
        return len(body)

    def run(self, body: Any) -> tuple[str, Any, bool]:
        """The signature's name, the arrays (or the serialized Input), and whether rows came."""
        plain = inflated(body, self.budget.inflated_bytes) if self.zipped else bytes(body)
        check_values(plain, self.budget.values)
        document = json_input.parse(plain)
        name = json_input.signature_name(document)
        if self.action != "predict":
            from estimand.serving.json import examples as json_examples

            return name, json_examples.input_of(document).SerializeToString(), True
        wanted = name or self.default_signature
        if wanted not in self.signatures:
            raise invalid(f'Serving signature name: "{wanted}" not found in signature def')
        arrays, as_rows = json_input.predict_inputs(document, self.signatures[wanted], plain)
        return name, arrays, as_rows


@dataclass(frozen=True)
class Writing:
    """The answer of `:predict`."""

    slots: tuple[PlainSlot, ...]
    arrays: Sequence[np.ndarray]
    as_rows: bool

    def size(self, body: Any) -> int:
        return sum([array.nbytes for array in self.arrays])

    def run(self, body: Any) -> bytes:
        write = json_output.predictions if self.as_rows else json_output.outputs
        return write(self.slots, self.arrays)


def inflated(body: Any, most: int) -> bytes:
    """
    >>> inflated(zlib.compress(b"abc", wbits=31), 100)
    b'abc'
    """

    def too_large(_: int) -> OverBudget:
        return over_budget(f"The body is larger than {most} bytes.")

    try:
        return inflating.inflated(body, inflating.GZIP, most, too_large)
    except zlib.error:
        raise invalid("Failed to uncompress the gzipped request body.") from None


def check_values(body: bytes, most: int) -> None:
    """Before any of them is made.

    >>> check_values(b"[1, 2, 3]", 4)
    >>> check_values(b"[1, 2, 3]", 2)
    Traceback (most recent call last):
        ...
    estimand.serving.large_json.work.OverBudget: RESOURCE_EXHAUSTED: The body has up to 4 values...
    """
    count = 1
    if len(body) > most:  # else it cannot have as many
        count += sum(map(body.count, _MARKS))
    if count > most:
        raise over_budget(
            f"The body has up to {count} values, and rest_api_max_values is {most}. Send fewer "
            "rows at a time, or use gRPC."
        )


# ---------------------------------------------------------------- the wire

_HEAD = struct.Struct("<QI")  # bytes of the pickle, number of the buffers beside it
_SIZE = struct.Struct("<Q")


def send(end: IO[bytes], message: Any) -> None:
    """Arrays and `pickle.PickleBuffer`s go as they are, without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    end.write(_HEAD.pack(len(text), len(buffers)))
    end.write(text)
    for buffer in buffers:
        with buffer.raw() as raw:
            end.write(_SIZE.pack(raw.nbytes))
            end.write(raw)
    end.flush()


def receive(end: IO[bytes]) -> Any:
    """EOFError when nothing comes any more."""
    size, count = _HEAD.unpack(_exactly(end, _HEAD.size))
    text = _exactly(end, size)
    buffers = [_exactly(end, _SIZE.unpack(_exactly(end, _SIZE.size))[0]) for _ in range(count)]
    return pickle.loads(text, buffers=buffers)


def _exactly(end: IO[bytes], size: int) -> bytearray:
    message = bytearray(size)
    view, at = memoryview(message), 0
    while at < size:
        got = end.readinto(view[at : at + 2**24])  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        at += got
    return message


# ---------------------------------------------------------------- the process


def main() -> None:
    """Its only argument: how much memory it may take beyond what it has at first."""
    jobs = os.fdopen(os.dup(0), "rb", buffering=0)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not be taken for a result
    gc.disable()  # nothing here has cycles, and looking for them takes longer than the work
    _be_modest(int(sys.argv[1]))
    while True:
        try:
            job, body = receive(jobs)
        except EOFError:
            return
        try:
            result = job.run(body)
        except BaseException as error:
            result = _told(error)
        del job, body
        try:
            send(results, result)
        except BrokenPipeError:  # whoever asked is gone
            os._exit(0)
        del result


def _told(error: BaseException) -> StatusError:
    if isinstance(error, MemoryError):
        return over_budget("The body takes more memory than rest_api_max_values allows for.")
    return from_exception(error)


def _be_modest(most: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has none of it
        import resource

        os.nice(5)  # small requests go first
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115
        limit = pages * resource.getpagesize() + most + _OUTSIDE_OF_VALUES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    # Pickles name classes by their module, which must not be __main__.
    from estimand.serving.large_json.work import main as main_of_this

    main_of_this()
