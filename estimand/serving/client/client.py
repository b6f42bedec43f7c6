"""A client of model servers: ours, and TensorFlow Serving's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from estimand.core.errors import ConfigError, InputError, MissingExtraError
from estimand.core.interpreter.closing import Closing
from estimand.serving.client import retry as client_retry
from estimand.serving.client.address import Address, Security
from estimand.serving.client.errors import ModelNotFoundError, RequestError
from estimand.serving.client.retry import Retries
from estimand.serving.client.values import (
    RemoteSignature,
    SignatureAddress,
    VersionInfo,
    VersionStatus,
    is_frame,
    joined_outputs,
    names_of_outputs,
    to_examples,
    to_frame,
    to_inputs,
)

Answer = TypeVar("Answer")
_MOST_KNOWN = 256
_STATUS_SECONDS = 2.0
# With these, what we know of the model may be out of date.
_PERHAPS_STALE = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND"})


class Choice(TypedDict, total=False):
    """Which version and signature of a model, and how long it may take."""

    version: int | None
    label: str | None
    signature: str | None
    timeout: float | None


class Client(Closing):
    """Asks one server. May be used by several threads, and as a context manager.

    `address` is `host:port` (gRPC) or `http://host:port` (REST); `protocol` may say which. TLS is
    on with `https://`, `grpcs://` or `tls=True`. `timeout` is the time for one call in seconds,
    with all its repetitions; `retries` says how often a busy or absent server is asked again.

    Args:
      address: host:port for gRPC, http(s)://… for REST, unix:PATH for a socket.
      protocol: "grpc" or "rest", where the address does not say.
      timeout: seconds for one call, with all its repetitions.
      retries: how often a busy or absent server is asked again.
      tls: whether to encrypt, where the address does not say.
      ca_file: certificates of the authorities to believe.
      cert_file: the client's own certificate, for mutual TLS.
      key_file: its key.
      api_key: sent as a bearer token.

    >>> client = Client("http://localhost:8501")
    >>> client
    Client('http://localhost:8501')
    >>> client.predict("half", {"x": [1.0]})  # doctest: +SKIP
    {'y': array([2.5], dtype=float32)}
    >>> client.close()
    """

    def __init__(
        self,
        address: str,
        protocol: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        tls: bool | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self.address = Address.parse(address, protocol, tls)
        security = Security(self.address.tls, ca_file, cert_file, key_file, api_key).check()
        self._timeout = _checked_timeout(timeout)
        self._retries = retries or Retries()
        self._transport = _transport(self.address, security)
        self._known: dict[SignatureAddress, VersionInfo] = {}
        self._lock = threading.Lock()

    def predict(
        self,
        model: str,
        inputs: Any,
        *,
        version: int | None = None,
        label: str | None = None,
        signature: str | None = None,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """What the model answers: arrays by name, or a DataFrame if a DataFrame was given.

        `inputs` is a dict of arrays, the array itself if the model has one input, a DataFrame, or
        a list of rows (dicts). Rows become tf.Examples if that is what the model takes. Values
        are converted to the model's types where nothing is lost. `outputs` chooses some.
        """
        which = SignatureAddress(model, version, label, signature)

        def ask(known: VersionInfo, left: float) -> Any:
            called = known.choose(model, signature)
            arrays = to_inputs(called, inputs, known)
            wanted = names_of_outputs(called, outputs)
            return joined_outputs(
                called, self._transport.predict(which, arrays, wanted, called, left)
            )

        answer = self._with_known(which, ask, timeout)
        return to_frame(answer, inputs) if is_frame(inputs) else answer

    def classify(self, model: str, examples: Any, **choice: Unpack[Choice]) -> Any:
        """For each example, its classes as (label, score).

        `examples` is a list of dicts of features, of tf.train.Examples or of serialized ones, or
        a DataFrame; then the answer is one with the best `label` and its `score`. `version`,
        `label`, `signature` and `timeout` are as in `predict`.
        """
        rows = self._infer(self._transport.classify, model, examples, choice)
        if not is_frame(examples):
            return rows
        best = [
            max(row, key=lambda labelled: labelled[1], default=("", float("nan"))) for row in rows
        ]
        columns = {
            "label": [labelled[0] for labelled in best],
            "score": [labelled[1] for labelled in best],
        }
        return type(examples)(columns, index=examples.index)

    def regress(self, model: str, examples: Any, **choice: Unpack[Choice]) -> Any:
        """One number for each example, as an array; or a DataFrame with the column `value`."""
        values = self._infer(self._transport.regress, model, examples, choice)
        return (
            type(examples)({"value": values}, index=examples.index)
            if is_frame(examples)
            else values
        )

    def status(
        self, model: str, *, version: int | None = None, timeout: float | None = None
    ) -> list[VersionStatus]:
        """The state of each version, newest first, and why one failed to load."""
        which = SignatureAddress(model, version)
        ends = self._ends(timeout)
        return self._call(which, lambda left: self._transport.status(which, left), ends)

    def metadata(
        self,
        model: str,
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, RemoteSignature]:
        """The signatures by name."""
        which = SignatureAddress(model, version, label)
        ends = self._ends(timeout)
        return self._call(which, lambda left: self._transport.metadata(which, left), ends)

    def features(
        self,
        model: str,
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """What the tf.Examples of a model hold; empty if it takes none, or the server says not."""
        return dict(
            self._learn(SignatureAddress(model, version, label), self._ends(timeout)).features
        )

    def models(self, *, timeout: float | None = None) -> list[str]:
        """The names of all models. TensorFlow Serving does not tell: NotImplementedError."""
        ends = self._ends(timeout)
        try:
            told = self._call(None, lambda left: self._transport.describe(None, left), ends)
        except NotImplementedError:
            raise NotImplementedError(
                f"The server at {self.address} does not list its models; only ours does."
            ) from None
        return list(told["models"])

    def close(self) -> None:
        self._transport.close()

    def __repr__(self) -> str:
        return f"Client({str(self.address)!r})"

    # ------------------------------------------------------------ calls

    def _ends(self, timeout: float | None) -> float:
        return time.monotonic() + (self._timeout if timeout is None else _checked_timeout(timeout))

    def _infer(
        self, call: Callable[..., Any], model: str, examples: Any, choice: Mapping[str, Any]
    ) -> Any:
        which = SignatureAddress(
            model, **{name: choice[name] for name in choice if name != "timeout"}
        )

        def ask(known: VersionInfo, left: float) -> Any:
            return call(which, to_examples(examples, known.features), left)

        return self._with_known(which, ask, choice.get("timeout"))

    def _call(
        self, which: SignatureAddress | None, attempt: Callable[[float], Answer], ends: float
    ) -> Answer:
        def watched(left: float) -> Answer:
            try:
                return attempt(left)
            except RequestError as error:
                if which is not None and error.code == "NOT_FOUND":
                    error.is_loading = self._is_loading(which)
                raise

        try:
            return client_retry.call(watched, ends, self._retries)
        except RequestError as error:
            if which is None or error.code != "NOT_FOUND":
                raise
            raise self._not_found(which, error) from error

    def _with_known(
        self,
        which: SignatureAddress,
        ask: Callable[[VersionInfo, float], Answer],
        timeout: float | None,
    ) -> Answer:
        """Ask with what is known of the model; if that seems to be out of date, once more."""
        ends = self._ends(timeout)
        key = SignatureAddress(which.model, which.version, which.label)
        known = self._known.get(key)
        if known is not None:
            try:
                return self._call(which, lambda left: ask(known, left), ends)
            except (InputError, RequestError) as error:
                if isinstance(error, RequestError) and error.code not in _PERHAPS_STALE:
                    raise
                fresh = self._learn(key, ends)
                if fresh == known:
                    raise
        else:
            fresh = self._learn(key, ends)
        return self._call(which, lambda left: ask(fresh, left), ends)

    def _learn(self, which: SignatureAddress, ends: float) -> VersionInfo:
        def describe(left: float) -> dict[str, Any]:
            try:
                return self._transport.describe(which, left).get("features", {})
            except NotImplementedError:
                return {}

        signatures = self._call(which, lambda left: self._transport.metadata(which, left), ends)
        features = {}
        if any(signature.takes_examples for signature in signatures.values()):
            features = self._call(which, describe, ends)
        known = VersionInfo(signatures, features)
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[which] = known
        return known

    def _is_loading(self, which: SignatureAddress) -> bool:
        try:
            versions = self._transport.status(
                SignatureAddress(which.model, which.version), _STATUS_SECONDS
            )
        except RequestError:
            return False
        return any(
            version.state in ("START", "LOADING") and not version.error for version in versions
        )

    def _not_found(self, which: SignatureAddress, error: RequestError) -> RequestError:
        """With what there is instead."""
        seconds = min(self._timeout, _STATUS_SECONDS)
        text = f"There is no model {which.model!r} at {self.address}."
        try:
            versions = self._transport.status(SignatureAddress(which.model), seconds)
        except RequestError:
            versions = []
        if versions:
            asked = "version" if which.version is None else f"version {which.version}"
            states = "; ".join(map(str, versions))
            text = f"Model {which.model!r} has no {asked} that can answer. It has {states}."
        else:
            try:
                names = self._transport.describe(None, seconds)["models"]
                text += f" It serves: {', '.join(map(repr, names)) or 'nothing'}."
            except (NotImplementedError, RequestError):
                pass
        return ModelNotFoundError(error.code, error.text, text)


def _checked_timeout(seconds: float) -> float:
    if not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise ConfigError(f"timeout={seconds!r}: give a number of seconds above 0.")
    return float(seconds)


def _transport(address: Address, security: Security) -> Any:
    try:
        if address.protocol == "rest":
            from estimand.serving.client.rest import RestTransport

            return RestTransport(address, security)
        from estimand.serving.client.grpc import GrpcTransport

        return GrpcTransport(address, security)
    except ImportError as error:
        package = "grpcio" if error.name == "grpc" else "tensorflow-serving-api"
        raise MissingExtraError("asking a model server", "serve", package) from error
