"""One kind of failure for both protocols: a canonical status code and a text.

>>> error = StatusError.of("NOT_FOUND", "Servable not found for request: Latest(m)")
>>> error.code, error.name, error.http
(5, 'NOT_FOUND', 404)
"""

from __future__ import annotations

from estimand.core.errors import EstimandError

MAX_TEXT = 1024
_SOONEST, _LATEST = 0.1, 30.0  # seconds, to try again
_TRUNCATED = "...TRUNCATED"

# The canonical codes in their order, each with the HTTP status that REST answers.
_CODES = (
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
)
NAMES = tuple(name for name, _ in _CODES)
HTTP = tuple(http for _, http in _CODES)
NUMBERS = {name: number for number, name in enumerate(NAMES)}


class StatusError(EstimandError, RuntimeError):
    """A request that is answered with an error status."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code if 0 < code < len(NAMES) else NUMBERS["UNKNOWN"]
        self.text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + _TRUNCATED
        self.retry_after: float | None = None  # seconds, of what may be tried again
        self.model = ""  # of a loaded model, once one was found for the request
        super().__init__(f"{self.name}: {self.text}")

    @classmethod
    def of(cls, name: str, text: str) -> StatusError:
        return cls(NUMBERS[name], text)

    @property
    def name(self) -> str:
        return NAMES[self.code]

    @property
    def http(self) -> int:
        return HTTP[self.code]

    def __reduce__(self) -> tuple[type[StatusError], tuple[int, str]]:
        return type(self), (self.code, self.text)


def invalid(text: str) -> StatusError:
    return StatusError.of("INVALID_ARGUMENT", text)


def not_found(text: str) -> StatusError:
    return StatusError.of("NOT_FOUND", text)


def failed_precondition(text: str) -> StatusError:
    return StatusError.of("FAILED_PRECONDITION", text)


def deadline_exceeded() -> StatusError:
    return StatusError.of("DEADLINE_EXCEEDED", "Deadline exceeded before the request was run.")


def overloaded(text: str, seconds: float = 0.0) -> StatusError:
    """For who should come again, after about so long."""
    error = StatusError.of("RESOURCE_EXHAUSTED", text)
    error.retry_after = min(max(seconds, _SOONEST), _LATEST)
    return error


def refused() -> StatusError:
    return StatusError.of(
        "UNAUTHENTICATED",
        "This server asks for a token. Send 'authorization: Bearer TOKEN' or 'x-api-key: TOKEN'.",
    )


def from_exception(error: BaseException) -> StatusError:
    """What a client is told of any exception; those of TensorFlow carry their own code."""
    if isinstance(error, StatusError):
        return error
    code = getattr(error, "error_code", None)  # tf.errors.OpError
    if isinstance(code, int):
        return StatusError(code, str(getattr(error, "message", error)))
    if isinstance(error, MemoryError):
        return StatusError.of("RESOURCE_EXHAUSTED", "Out of memory.")
    return StatusError.of("INTERNAL", f"{type(error).__name__}: {error}")
