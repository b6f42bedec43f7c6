"""What can go wrong when a server is asked, each a built-in kind of error too."""

from __future__ import annotations

from estimand.core.errors import ConfigError, EstimandError

START_ONE = "Is one running there? estimand serve DIR starts one and says its addresses."
_RETRIED = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED"})


class RequestError(EstimandError, RuntimeError):
    """The server refused a request, or failed; `code` is the status it gave, `text` its words.

    >>> error = RequestError("INVALID_ARGUMENT", "input size does not match")
    >>> print(error)
    INVALID_ARGUMENT: input size does not match
    """

    def __init__(self, code: str, text: str, message: str | None = None) -> None:
        super().__init__(message or f"{code}: {text}")
        self.code = code
        self.text = text
        self.retry_after: float | None = None  # seconds, where the server named some
        # The model is on its way: worth asking again as long as there is time.
        self.is_loading = code == "UNAVAILABLE" and "still loading" in text

    @property
    def may_retry(self) -> bool:
        """Whether the same request may succeed a moment later."""
        # A message that is too large has the same code, and will be as large the next time.
        return self.code in _RETRIED and "larger than" not in self.text


class ServerUnreachableError(RequestError, ConnectionError):
    """Nobody answers at the address."""


class DeadlineError(RequestError, TimeoutError):
    """There was no answer within the time given."""


class ModelNotFoundError(RequestError, LookupError):
    """The server has no such model, or no such version that can answer."""


def closed_client() -> ConfigError:
    return ConfigError("The client is closed; make a new one.")
