"""Certificates that are exchanged, broken or too old, while others ask."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from estimand.serving import Client, Retries, ServerUnreachableError
from estimand.serving.access import certificates
from tests.serving.attacks.conftest import ATTACKED, FRONTS
from tests.serving.attacks.watching import peak_memory
from tests.serving.certificates import write_authority, write_certificate
from tests.serving.running import Server, workers_of

CONFIG = 'server_key: "tls.key" server_cert: "tls.crt" custom_ca: "clients.crt" client_verify: true'
TRIES = 8  # connections that all have to see the same, whichever worker takes them
GROWTH = 64 * 2**20


class Secured:
    """A server, the folder that its certificates lie in, and an authority's folder beside it."""

    def __init__(self, folder: Path, models: Path, *flags: str) -> None:
        self.keys = folder / "issued"
        self.shown = folder / "tls"
        for path in (self.keys, self.shown):
            path.mkdir(parents=True)
        for name in ("ca", "other"):
            write_authority(self.keys, name)
        for name in ("first", "second", "mine"):
            write_certificate(self.keys, name)
        write_certificate(self.keys, "late", days=0)
        write_certificate(self.keys, "theirs", "other")
        self.show("first")
        self.put("ca.crt", "clients.crt")
        (self.shown / "tls.pbtxt").write_text(CONFIG)
        self.server = Server(
            folder / "log",
            "--model_name=two_inputs",
            f"--model_base_path={models / 'two_inputs'}",
            f"--ssl_config_file={self.shown / 'tls.pbtxt'}",
            f"--rest_api_ssl_config_file={self.shown / 'tls.pbtxt'}",
            *flags,
        )

    def put(self, issued: str, name: str) -> None:
        """Whole at once, as those who renew certificates do."""
        shutil.copy(self.keys / issued, self.shown / "temp")
        (self.shown / "temp").rename(self.shown / name)

    def show(self, name: str) -> None:
        self.put(f"{name}.key", "tls.key")
        self.put(f"{name}.crt", "tls.crt")

    def wait_until_seen(self) -> None:
        """Every worker looks again after so long, whichever connections it gets."""
        time.sleep(certificates._SECONDS_BETWEEN_LOOKS + 0.1)

    @property
    def addresses(self) -> tuple[str, str]:
        server = self.server
        return f"grpcs://localhost:{server.port}", f"https://localhost:{server.rest_port}"

    def client(self, address: str, name: str = "mine") -> Client:
        return Client(
            address,
            ca_file=str(self.keys / "ca.crt"),
            cert_file=str(self.keys / f"{name}.crt"),
            key_file=str(self.keys / f"{name}.key"),
            retries=Retries(attempts=1),
            timeout=20,
        )

    def certificate(self, port: int) -> bytes:
        """What a new connection is shown; nothing where nobody listens yet."""
        context = ssl.create_default_context(cafile=self.keys / "ca.crt")
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.load_cert_chain(self.keys / "mine.crt", self.keys / "mine.key")
        with contextlib.suppress(OSError):
            plain = socket.create_connection(("127.0.0.1", port), timeout=20)
            with plain, context.wrap_socket(plain) as secure:
                return secure.getpeercert(binary_form=True) or b""
        return b""

    def shows(self, name: str) -> bool:
        """On both ports, whoever answers there."""
        wanted = ssl.PEM_cert_to_DER_cert((self.keys / f"{name}.crt").read_text())
        ports = (self.server.port, self.server.rest_port)
        return all(self.certificate(port) == wanted for port in ports for _ in range(TRIES))

    def believes(self, name: str) -> bool:
        try:
            return all(self.asks(address, name) for address in self.addresses for _ in range(TRIES))
        except ServerUnreachableError:
            return False

    def asks(self, address: str, name: str) -> bool:
        with self.client(address, name) as client:
            return client.models() == ["two_inputs"]

    def said(self, address: str, name: str) -> str:
        with self.client(address, name) as client, pytest.raises(ServerUnreachableError) as caught:
            client.models()
        return str(caught.value)


@pytest.fixture(scope="module", params=ATTACKED)
def secured(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp(request.param)
    made = Secured(folder, attacked_models, *FRONTS[request.param])
    try:
        made.server.wait_until(lambda: "ready in" in made.server.log.read_text())
        made.server.wait_until(lambda: made.shows("first"))
        yield made
    finally:
        ended = made.server.stop()
    assert ended == 0


@pytest.fixture
def others(secured: Secured) -> Iterator[None]:
    """Clients who were connected before, and are answered after, with no growth of the server."""

    def ask(client: Client, a: float) -> None:
        found = client.predict("two_inputs", {"a": np.float32([a]), "b": np.float32([1.0])})
        assert found["sum"].tolist() == [a + 1.0]

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(secured.client(one)) for one in secured.addresses]
        for client in clients:
            ask(client, 1.0)
        memory = stack.enter_context(peak_memory(secured.server.process.pid))
        yield
        for client in clients:
            ask(client, 2.0)
        assert memory.growth < GROWTH


def test_a_new_certificate_is_shown_to_new_connections(secured: Secured, others: None) -> None:
    for name in ("second", "first"):
        secured.show(name)
        secured.server.wait_until(lambda name=name: secured.shows(name))


@pytest.mark.parametrize("spoil", ["another key", "nonsense", "missing"])
def test_files_that_cannot_be_used_change_nothing(
    secured: Secured, others: None, spoil: str
) -> None:
    server = secured.server
    before = len(server.log.read_text())
    if spoil == "another key":
        secured.put("second.key", "tls.key")
    elif spoil == "nonsense":
        (secured.shown / "tls.crt").write_text("-----BEGIN nothing-----")
    else:
        (secured.shown / "tls.crt").unlink()

    def is_told() -> bool:
        assert secured.shows("first")
        return "The certificates stay as they were" in server.log.read_text()[before:]

    server.wait_until(is_told)
    secured.show("second")
    server.wait_until(lambda: secured.shows("second"))
    secured.show("first")
    server.wait_until(lambda: secured.shows("first"))


def test_clients_of_an_authority_that_was_taken_away_are_refused(
    secured: Secured, others: None
) -> None:
    assert secured.believes("mine")
    assert not secured.believes("theirs")
    secured.put("other.crt", "clients.crt")
    secured.wait_until_seen()
    assert secured.believes("theirs")
    for address in secured.addresses:
        told = secured.said(address, "mine")
        assert "do not believe a client's certificate: give one that its custom_ca has" in told
    secured.put("ca.crt", "clients.crt")
    secured.wait_until_seen()
    assert secured.believes("mine")


def test_a_client_whose_certificate_has_expired_is_told_so(secured: Secured, others: None) -> None:
    for address in secured.addresses:
        told = secured.said(address, "late")
        assert "late.crt, is past its end: have it renewed." in told


def test_clients_say_that_the_servers_certificate_has_expired(
    secured: Secured, others: None
) -> None:
    secured.show("late")
    secured.wait_until_seen()
    for address in secured.addresses:
        told = secured.said(address, "mine")
        assert told.endswith("The server's certificate is past its end: have it renewed.")
    secured.show("first")
    secured.wait_until_seen()


@pytest.mark.slow
@pytest.mark.full  # each starts three workers, which import TensorFlow
@pytest.mark.parametrize("spoil", ["tls.crt", "tls.key", "tls.pbtxt"])
def test_a_worker_that_is_replaced_while_the_files_are_broken_shows_the_last_good_ones(
    attacked_models: Path, tmp_path: Path, spoil: str
) -> None:
    made = Secured(tmp_path, attacked_models, *FRONTS["workers"])
    server = made.server
    try:
        server.wait_until(lambda: made.shows("first"))
        made.show("second")  # which is not what the first workers started with
        server.wait_until(lambda: made.shows("second"))
        made.wait_until_seen()
        (made.shown / spoil).write_text("nonsense")
        victim, other = workers_of(server)
        os.kill(victim, signal.SIGKILL)
        os.kill(other, signal.SIGSTOP)  # whoever answers now is the new one
        server.wait_until(lambda: made.shows("second"))
        assert made.believes("mine")
        os.kill(other, signal.SIGCONT)
    finally:
        ended = server.stop()
    assert ended == 0
