"""Machines of a network that can be told to fail: namespaces, each with a cable to one switch.

    network = Network(["chief", "worker"])
    network.delay(0.05); network.lose(0.05); network.cut("worker"); network.mend("worker")

The cables are TUN devices, and the switch is a process that hands on the packets, late or not at
all: what `tc netem` does, which not every kernel has. TCP is that of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import heapq
import ipaddress
import itertools
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence

_TUNSETIFF = 0x400454CA  # of <linux/if_tun.h>, as the next two
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_CLONE_NEWNET = 0x40000000  # of <sched.h>
_NUMBERS = itertools.count()


def is_permitted() -> bool:
    """Whether this process may make namespaces and devices, and has the tool for it."""
    try:
        Network(["alone"]).close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def enter(namespace: str) -> None:
    """For the thread that calls, and what it starts."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the namespace {namespace} cannot be entered")


class Network:
    """`hosts` have the addresses 10.213.0.1, 10.213.0.2, and so on."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.addresses = {host: f"10.213.0.{i}" for i, host in enumerate(hosts, 1)}
        mark = f"e{os.getpid()}n{next(_NUMBERS)}"
        self.namespaces = {host: f"{mark}h{i}" for i, host in enumerate(hosts)}
        self._made: list[str] = []
        cables: list[int] = []
        try:
            for host, namespace in self.namespaces.items():
                cables.append(_tun(namespace))
                _ip("netns", "add", namespace)
                self._made.append(namespace)
                _ip("link", "set", namespace, "netns", namespace)
                address = f"{self.addresses[host]}/24"
                _ip("-n", namespace, "address", "add", address, "dev", namespace)
                for device in ("lo", namespace):
                    _ip("-n", namespace, "link", "set", device, "up")
            self._switch = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, cables)],
                pass_fds=cables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        except BaseException:
            self._remove()
            raise
        finally:
            for cable in cables:
                os.close(cable)

    def delay(self, seconds: float) -> None:
        """How long each packet takes."""
        self._tell({"delay": seconds})

    def lose(self, part: float) -> None:
        """Which part of all packets is lost."""
        self._tell({"loss": part})

    def cut(self, host: str) -> None:
        self._tell({"cut": self.addresses[host]})

    def mend(self, host: str) -> None:
        self._tell({"mend": self.addresses[host]})

    def _tell(self, command: dict[str, object]) -> None:
        assert self._switch.stdin is not None and self._switch.stdout is not None
        self._switch.stdin.write(json.dumps(command) + "\n")
        assert self._switch.stdout.readline() == "done\n"

    def close(self) -> None:
        assert self._switch.stdin is not None and self._switch.stdout is not None
        self._switch.stdin.close()
        self._switch.wait()
        self._switch.stdout.close()
        self._remove()

    def _remove(self) -> None:
        for namespace in self._made:
            _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, stderr=subprocess.PIPE)


def _tun(name: str) -> int:
    """A device that is there as long as the descriptor is open."""
    cable = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(cable, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(cable)
        raise
    return cable


class Switch:
    """Hands on packets of IP version 4 to the cable of their destination."""

    def __init__(self, cables: Sequence[int]) -> None:
        first = int(ipaddress.IPv4Address("10.213.0.1"))
        self._cables = {(first + i).to_bytes(4, "big"): cable for i, cable in enumerate(cables)}
        self._delay, self._loss = 0.0, 0.0
        self._cut: set[bytes] = set()
        self._under_way: list[tuple[float, int, int, bytes]] = []
        self._count = itertools.count()
        self._chance = random.Random(1)

    def run(self) -> None:
        poll = select.poll()
        for number in (0, *self._cables.values()):
            poll.register(number, select.POLLIN)
        while True:
            for number, _ in poll.poll(self._milliseconds()):
                if number:
                    self._take(number)
                elif not self._obey():
                    return
            self._deliver()

    def _obey(self) -> bool:
        line = sys.stdin.readline()
        if not line:
            return False
        command = json.loads(line)
        self._delay = command.get("delay", self._delay)
        self._loss = command.get("loss", self._loss)
        if "cut" in command:
            self._cut.add(ipaddress.IPv4Address(command["cut"]).packed)
        if "mend" in command:
            self._cut.discard(ipaddress.IPv4Address(command["mend"]).packed)
        print("done", flush=True)
        return True

    def _take(self, cable: int) -> None:
        packet = os.read(cable, 65536)
        source, destination = packet[12:16], packet[16:20]
        to = self._cables.get(destination)  # none for what is sent to all
        if to is None or {source, destination} & self._cut or self._chance.random() < self._loss:
            return
        due = time.monotonic() + self._delay
        heapq.heappush(self._under_way, (due, next(self._count), to, packet))

    def _milliseconds(self) -> float | None:
        if not self._under_way:
            return None
        return max(0.0, self._under_way[0][0] - time.monotonic()) * 1000

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            *_, to, packet = heapq.heappop(self._under_way)
            try:
                os.write(to, packet)
            except OSError as error:
                if error.errno not in (errno.EIO, errno.EAGAIN):  # it is down, or full
                    raise


if __name__ == "__main__":
    Switch([int(number) for number in sys.argv[1:]]).run()
