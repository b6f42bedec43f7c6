"""Addresses and settings of a client, before anybody is asked."""

from __future__ import annotations

import pytest

import estimand as est
from estimand.core.errors import ConfigError
from estimand.serving.client.address import Address


@pytest.mark.parametrize(
    ("address", "protocol", "found"),
    [
        ("h:9", None, ("grpc", False, "h", 9, "")),
        ("h", None, ("grpc", False, "h", 8500, "")),
        ("h", "rest", ("rest", False, "h", 8501, "")),
        ("https://h/models/", None, ("rest", True, "h", 443, "/models")),
        ("grpcs://h:1", None, ("grpc", True, "h", 1, "")),
        ("[::1]:7", None, ("grpc", False, "::1", 7, "")),
        ("unix:/run/m", None, ("grpc", False, "unix:/run/m", 0, "")),
    ],
)
def test_addresses(address: str, protocol: str | None, found: tuple) -> None:
    made = Address.parse(address, protocol)
    assert (made.protocol, made.tls, made.host, made.port, made.prefix) == found


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"address": "h:99999"}, "is no address"),
        ({"address": "ftp://h"}, "is no address"),
        ({"address": "http://h", "protocol": "grpc"}, "Leave one of the two out"),
        ({"address": "h", "protocol": "soap"}, "Use 'grpc' or 'rest'"),
        ({"address": "h:1/path"}, "gRPC has no path"),
        ({"address": "h", "ca_file": "x"}, "tls=True"),
        ({"address": "https://h", "cert_file": "x"}, "needs both"),
        ({"address": "https://h", "ca_file": "/no/such"}, "cannot be used"),
        ({"address": "grpcs://h", "ca_file": "/no/such"}, "cannot be read"),
        ({"address": "h", "timeout": 0}, "seconds above 0"),
        ({"address": "h", "api_key": "a\nb"}, "characters that cannot be sent"),
    ],
)
def test_settings_that_cannot_be_used(given: dict, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        est.serving.Client(**given)
