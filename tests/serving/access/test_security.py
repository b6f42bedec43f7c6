"""TLS, mutual TLS and tokens on every face; what a request can never name."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    model_management_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from estimand.core.errors import ConfigError
from estimand.serving import Client, RequestError, Retries
from estimand.serving.access import auth
from estimand.serving.access.auth import Tokens
from estimand.serving.access.tls import TlsSettings
from estimand.serving.flags import Flags
from estimand.serving.lifecycle.config import ModelSettings, check_base_paths
from estimand.serving.process.addresses import address_lines
from estimand.serving.rest import routes as rest_routes
from estimand.serving.status import StatusError
from tests.serving.certificates import write_authority, write_certificate
from tests.serving.running import Server, predict_request

TOKEN = "0123456789abcdef"


# ---------------------------------------------------------------- certificates


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, certificates by it for the server and a client, and one of a stranger."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ca", "stranger"):
        write_authority(folder, name)
    for name in ("server", "client"):
        write_certificate(folder, name)
    return folder


def ssl_config(**changes: str) -> str:
    fields = {
        "server_key": '"server.key"',
        "server_cert": '"server.crt"',
        "custom_ca": '"ca.crt"',
        "client_verify": "true",
    } | changes
    return "\n".join(f"{name}: {value}" for name, value in fields.items() if value)


# ---------------------------------------------------------------- a server with all of it


@pytest.fixture(scope="module", params=["grpcio", "lean"])
def secure(
    request: pytest.FixtureRequest,
    models: Path,
    keys: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """Mutual TLS on gRPC, TLS on REST, tokens on both."""
    folder = tmp_path_factory.mktemp(request.param)
    (keys / "mutual.pbtxt").write_text(ssl_config())
    (keys / "rest.pbtxt").write_text(ssl_config(custom_ca="", client_verify=""))
    (folder / "tokens").write_text(f"# shop\n{TOKEN}\n")
    running = Server(
        folder / "log",
        "--model_name=m",
        f"--model_base_path={models / 'half_plus_two'}",
        f"--grpc_backend={request.param}",
        f"--ssl_config_file={keys / 'mutual.pbtxt'}",
        f"--rest_api_ssl_config_file={keys / 'rest.pbtxt'}",
        f"--auth_tokens_file={folder / 'tokens'}",
        "--enable_reload_config_rpc=false",
        "--rest_api_header_timeout_seconds=1",
    )
    running.url = lambda path: f"https://localhost:{running.rest_port}{path}"
    running.http.trust_env = False  # a bundle of the environment would win
    running.http.verify = str(keys / "ca.crt")
    running.tokens = folder / "tokens"
    try:
        running.wait_until_ready()  # without a token: probes have none
        yield running
    finally:
        assert running.stop() == 0


def channel(server: Server, keys: Path, client: str | None = "client") -> grpc.Channel:
    def read(name: str) -> bytes:
        return (keys / name).read_bytes()

    own = (read(f"{client}.key"), read(f"{client}.crt")) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(read("ca.crt"), *own)
    return grpc.secure_channel(f"localhost:{server.port}", credentials)


def predict(server: Server, keys: Path, client: str | None, *metadata: tuple[str, str]) -> float:
    with channel(server, keys, client) as to:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(to)
        request = predict_request("m", x=np.float32([2.0]))
        answer = stub.Predict(request, timeout=20, metadata=metadata)
    return answer.outputs["y"].float_val[0]


def test_known_clients_with_a_token_are_answered(secure: Server, keys: Path) -> None:
    assert predict(secure, keys, "client", ("authorization", f"Bearer {TOKEN}")) == 3.0
    assert predict(secure, keys, "client", ("x-api-key", TOKEN)) == 3.0
    for headers in ({"Authorization": f"bearer {TOKEN}"}, {"X-Api-Key": TOKEN}):
        body = {"instances": [2.0]}
        answer = secure.post("/v1/models/m:predict", body, headers=headers)
        assert answer.json() == {"predictions": [3.0]}
    assert secure.get("/v1/models/m", auth=("me", TOKEN)).ok  # as a browser asks


def test_our_client_brings_its_certificate_and_token(secure: Server, keys: Path) -> None:
    own = {"cert_file": str(keys / "client.crt"), "key_file": str(keys / "client.key")}
    for address in (f"grpcs://localhost:{secure.port}", f"https://localhost:{secure.rest_port}"):
        trusted = {"ca_file": str(keys / "ca.crt"), **own}
        with Client(address, api_key=TOKEN, **trusted) as client:
            assert client.predict("m", [2.0])["y"].tolist() == [[3.0]]
            assert client.models() == ["m"]
        once = Retries(attempts=1)
        with (
            Client(address, retries=once, **trusted) as client,
            pytest.raises(RequestError, match="UNAUTHENTICATED: This server asks for a token"),
        ):
            client.models()
        stranger = {"ca_file": str(keys / "stranger.crt"), **own}
        with (
            Client(address, retries=once, api_key=TOKEN, **stranger) as client,
            pytest.raises(ConnectionError, match=r"TLS|handshake"),
        ):
            client.models()


@pytest.mark.parametrize("client", [None, "stranger"])
def test_grpc_clients_that_the_authority_does_not_know_are_refused(
    secure: Server, keys: Path, client: str | None
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(secure, keys, client, ("x-api-key", TOKEN))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    "metadata", [(), ("authorization", "Bearer wrong-token"), ("authorization", TOKEN)]
)
def test_grpc_without_a_token_is_unauthenticated(
    secure: Server, keys: Path, metadata: tuple[str, str]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        predict(secure, keys, "client", *([metadata] if metadata else []))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "x-api-key: TOKEN" in caught.value.details()


def test_rest_without_a_token_is_401(secure: Server) -> None:
    for path in ("/v1/models/m", "/", "/monitoring/prometheus/metrics", "/nothing"):
        answer = secure.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="')
        assert "authorization: Bearer TOKEN" in answer.json()["error"]
    assert secure.post("/v1/models/m:predict", {"instances": [1.0]}).status_code == 401
    assert secure.get("/livez").ok
    assert secure.get("/readyz").ok


def test_health_needs_no_token(secure: Server, keys: Path) -> None:
    with channel(secure, keys) as to:
        stub = health_pb2_grpc.HealthStub(to)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=20).status == 1


def test_plain_text_gets_nothing_from_ports_with_tls(secure: Server) -> None:
    with pytest.raises(requests.RequestException):
        requests.get(f"http://127.0.0.1:{secure.rest_port}/livez", timeout=5)
    with grpc.insecure_channel(f"127.0.0.1:{secure.port}") as to, pytest.raises(grpc.RpcError):
        health_pb2_grpc.HealthStub(to).Check(health_pb2.HealthCheckRequest(), timeout=5)


def test_a_reload_by_call_can_be_forbidden(secure: Server, keys: Path) -> None:
    with channel(secure, keys) as to, pytest.raises(grpc.RpcError) as caught:
        stub = model_service_pb2_grpc.ModelServiceStub(to)
        request = model_management_pb2.ReloadConfigRequest()
        stub.HandleReloadConfigRequest(request, timeout=20, metadata=[("x-api-key", TOKEN)])
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_names_of_models_lead_nowhere_on_disk(secure: Server) -> None:
    for name in ("..%2F..%2Fetc", "%2Fetc%2Fpasswd", "m%00", "..", "half_plus_two%2F00000123"):
        answer = secure.get(f"/v1/models/{name}/metadata", headers={"X-Api-Key": TOKEN})
        assert answer.status_code in (400, 404)
        assert "error" in answer.json()


def test_tokens_are_exchanged_without_a_restart(secure: Server) -> None:
    before = secure.tokens.read_text()
    try:
        secure.tokens.write_text("another-token\n")
        secure.wait_until(
            lambda: secure.get("/v1/models/m", headers={"X-Api-Key": "another-token"}).ok
        )
        assert secure.get("/v1/models/m", headers={"X-Api-Key": TOKEN}).status_code == 401
    finally:
        secure.tokens.write_text(before)
    secure.wait_until(lambda: secure.get("/v1/models/m", headers={"X-Api-Key": TOKEN}).ok)


# ---------------------------------------------------------------- files that cannot be used


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"server_key": ""}, "server_key is missing"),
        ({"server_cert": '"nothing.crt"'}, "server_cert is neither PEM nor the path"),
        ({"custom_ca": ""}, "client_verify is set without custom_ca"),
        ({"server_key": '"client.key"'}, "cannot be used"),
        ({"server_key": '"-----BEGIN nonsense"'}, "cannot be used"),
        ({"unknown": "1"}, "Error parsing text-format tensorflow.serving.SSLConfig"),
    ],
)
def test_tls_settings_that_cannot_be_used(keys: Path, changes: dict[str, str], told: str) -> None:
    config = keys / "bad.pbtxt"
    config.write_text(ssl_config(**changes))
    with pytest.raises(ConfigError, match=told):
        TlsSettings.read(str(config))


def test_keys_may_stand_in_the_file_itself_and_are_not_shown(keys: Path) -> None:
    config = keys / "inline.pbtxt"

    def quoted(name: str) -> str:
        return '"' + (keys / name).read_text().replace("\n", "\\n") + '"'

    config.write_text(ssl_config(server_key=quoted("server.key"), server_cert=quoted("server.crt")))
    settings = TlsSettings.read(str(config))
    assert settings.context().verify_mode is ssl.CERT_REQUIRED
    assert "PRIVATE" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# nothing\n\n", "has no token"),
        ("short\n", "line 1: a token has 8 or more"),
        ("# comment\nwith a space\n", "line 2: a token has 8 or more"),
    ],
)
def test_files_of_tokens_that_cannot_be_used(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(ConfigError, match=told):
        Tokens(str(tmp_path / "tokens"))


def test_a_file_of_tokens_that_turns_bad_changes_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(auth, "_SECONDS_BETWEEN_LOOKS", 0.0)
    file = tmp_path / "tokens"
    file.write_text(TOKEN)
    tokens = Tokens(str(file))
    for spoil in (lambda: file.write_text("bad"), lambda: os.unlink(file)):
        spoil()
        assert tokens.allow([("x-api-key", TOKEN)])
    assert not tokens.allow([("x-api-key", "bad")])


def test_a_header_that_is_no_token_is_refused_whatever_it_is() -> None:
    tokens = Tokens.__new__(Tokens)
    tokens._next_look, tokens._digests = float("inf"), (b"x" * 32,)
    for value in (b"", b"Bearer", b"Basic !!!", b"Basic " + b"a" * 9999, b"\xff\xfe", b"Digest x"):
        assert not tokens.allow([(b"authorization", value)])
    assert not tokens.allow([])


# ---------------------------------------------------------------- what is said


def test_the_start_says_who_can_connect() -> None:
    assert "Only this machine can connect" in address_lines(Flags())[-1]
    open_to_all = address_lines(Flags(host="0.0.0.0", rest_api_port=1))
    assert open_to_all[-1].startswith("Whoever reaches this machine can use gRPC and REST.")
    assert not any("grpcio" in line for line in open_to_all)
    with_grpcio = address_lines(Flags(host="0.0.0.0", grpc_backend="grpcio"))
    assert any("--grpc_backend=lean" in line for line in with_grpcio)
    with_tokens = address_lines(Flags(host="0.0.0.0", auth_tokens_file="t"))
    assert with_tokens[-1] == "Tokens cross the network in clear text over gRPC: no TLS."
    safe = Flags(host="0.0.0.0", auth_tokens_file="t", ssl_config_file="s")
    assert address_lines(safe) == [
        "gRPC: 0.0.0.0:8500 (TLS)",
        "Reload by gRPC: models from any directory, by whoever has a token",
    ]


def test_the_start_says_what_callers_can_have_loaded() -> None:
    def line(**changes) -> str:
        flags = Flags(**changes)
        return next(line for line in address_lines(flags, SETTINGS) if line.startswith("Reload"))

    told = "Reload by gRPC: models from"
    assert line() == f"{told} /models/m. For others: --reload_config_base_path=DIR"
    assert line(reload_config_base_path=("/a", "/b", "/c")).startswith(f"{told} /a, /b, /c and 1")
    assert line(auth_tokens_file="t") == f"{told} any directory, by whoever has a token"
    assert not any("Reload" in one for one in address_lines(Flags(enable_reload_config_rpc=False)))
    assert not any("Reload" in one for one in address_lines(Flags(port=0, rest_api_port=1)))


# ---------------------------------------------------------------- where models may lie

SETTINGS = {"m": ModelSettings("m", "/models/m")}


@pytest.mark.parametrize(
    ("path", "allowed", "may"),
    [
        ("{base}/m", ["{base}/m"], True),
        ("{base}/m/", ["{base}/m"], True),
        ("{base}/m/inner", ["{base}/m"], True),
        ("{base}/m", ["/"], True),
        ("{base}/linked", ["{base}/m"], True),
        ("{base}/m", ["{base}/linked"], True),
        ("{base}/m2", ["{base}/m"], False),
        ("{base}", ["{base}/m"], False),
        ("{base}/m/../other", ["{base}/m"], False),
        ("{base}/m/out", ["{base}/m"], False),
        ("{base}/m/out/deeper", ["{base}/m"], False),
        ("{base}/m", [], False),
        ("gs://bucket/m/1", ["gs://bucket/m"], True),
        ("gs://bucket/m/../other", ["gs://bucket/m"], False),
        ("gs://bucket2/m", ["gs://bucket"], False),
        ("gs://bucket/m", ["/"], False),
        ("file:///etc", ["{base}/m"], False),
    ],
)
def test_a_caller_names_models_below_what_was_named_at_the_start(
    tmp_path: Path, path: str, allowed: list[str], may: bool
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "m")
    (tmp_path / "m" / "out").symlink_to("/etc")
    asked = {"m": ModelSettings("m", path.format(base=tmp_path))}
    places = [one.format(base=tmp_path) for one in allowed]
    if may:
        check_base_paths(asked, places)
    else:
        with pytest.raises(StatusError, match=r"PERMISSION_DENIED: Model m has base_path .*DIR"):
            check_base_paths(asked, places)


def test_routes_keep_a_name_in_one_piece() -> None:
    assert rest_routes.find("GET", "/v1/models/..%2Fm").model == "../m"  # a key, never a path
