"""Who is connected, and from where: one address cannot have all connections.

>>> connection_limits = ConnectionLimits(limit=4)
>>> [connection_limits.admit(("10.0.0.1", port)) is not None for port in range(6)]
[True, True, True, True, False, False]
>>> [connection_limits.admit(("10.0.0.2", port)) is not None for port in range(4)]
[True, True, False, False]
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections import Counter
from typing import Any

log = logging.getLogger("estimand.serving")

MOST = 10_000
_KEPT = 32  # connections, for clients of this machine
_FILES_BESIDE = 128 + _KEPT  # descriptors that models, logs, probes and workers need
_FEW = 1000
_LOOPBACK = bytes(8)  # the network of ::1


class ConnectionLimits:
    """One address may have `limit` connections; several share twice as many, so that there is
    always room for one that has none: each may have as many as are still free. A few more are kept
    for clients of this machine (probes, proxies); and all networks of one site together may not
    have all of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._by_address: Counter[Any] = Counter()
        self._by_site: Counter[bytes] = Counter()

    def admit(self, peer: Any) -> Any:
        """What `release` has to be given; None for one that may not come. `peer` is what the socket
        names so; the clients of a UNIX socket are one."""
        address = _address(peer[0]) if isinstance(peer, tuple) and peer else ""
        theirs = self._by_address[address]
        free = 2 * self._limit - self._count
        if _is_local(address):
            free += _KEPT
        if theirs >= min(self._limit, free) or self._site_has_enough(address):
            return None
        self._add(address, 1)
        return address

    def release(self, address: Any) -> None:
        if address is None:
            return
        self._add(address, -1)

    def _site_has_enough(self, address: Any) -> bool:
        if not isinstance(address, bytes) or _is_local(address):
            return False
        return self._by_site[_site(address)] >= self._limit + self._limit // 2

    def _add(self, address: Any, number: int) -> None:
        self._count += number
        _add(self._by_address, address, number)
        if isinstance(address, bytes):
            _add(self._by_site, _site(address), number)


def _add(counter: Counter[Any], key: Any, number: int) -> None:
    counter[key] += number
    if not counter[key]:
        del counter[key]


def _is_local(address: Any) -> bool:
    """
    >>> [_is_local(_address(host)) for host in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1")]
    [True, True, True, False]
    """
    return not address or address == _LOOPBACK or (address[:4] == "127.")


def _site(network: bytes) -> bytes:
    """The 48 bits that a site is given; with it come 65,536 networks."""
    return network[:6]


def _address(host: str) -> Any:
    """Of IPv6, the network: each client has as many addresses in it as it likes.

    >>> _address("10.0.0.1") == _address("::ffff:10.0.0.1"), _address("::1") == _address("::2")
    (True, True)
    """
    if ":" not in host:
        return host
    with contextlib.suppress(ValueError):
        number = ipaddress.IPv6Address(host.partition("%")[0])
        return str(number.ipv4_mapped) if number.ipv4_mapped else number.packed[:8]
    return host


def most_connections() -> int:
    """Of one address, within what the system lets this process open, which is made as much as can
    be."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return MOST
    most = min(MOST, max(16, (soft - _FILES_BESIDE) // 2))
    if most < _FEW:
        log.warning(
            "One address may have %d connections: %d files may be open here. For more: ulimit -n",
            most,
            soft,
        )
    return most
