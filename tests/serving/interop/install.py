"""Installs the clients that the lean back end is tried with, as far as this machine lets it.

`python tests/serving/interop/install.py FOLDER`: npm's packages go into the folder; Debian's only
as root. What is missing is named, and its tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_DEBIAN = {
    "curl": "curl",
    "nghttp": "nghttp2-client",
    "g++": "g++",
    "pkg-config": "pkg-config",
    "node": "nodejs",
    "npm": "npm",
    "go": "golang-go",
    "javac": "default-jdk-headless",
}
_FILES = {
    "/usr/share/gocode/src/google.golang.org/grpc": "golang-google-grpc-dev",
    "/usr/share/java/grpc-netty.jar": "libgrpc-java",
    "/usr/share/java/netty-all.jar": "libnetty-java",
    "/usr/share/java/perfmark-api.jar": "libperfmark-java",
    "/usr/share/java/guava.jar": "libguava-java",
}


def main(folder: str) -> None:
    packages = [package for program, package in _DEBIAN.items() if shutil.which(program) is None]
    packages += [package for file, package in _FILES.items() if not Path(file).exists()]
    if not _runs("pkg-config", "--exists", "grpc++"):
        packages.append("libgrpc++-dev")
    if packages and not _installed(packages):
        print(f"Not installed (apt-get install {' '.join(packages)}): their tests are skipped.")
    if not (Path(folder) / "node_modules/@grpc/grpc-js").exists():
        Path(folder).mkdir(exist_ok=True)
        if not _runs(
            "npm", "install", "--no-audit", "--no-fund", "--prefix", folder, "@grpc/grpc-js"
        ):
            print("Not installed (npm install @grpc/grpc-js): its tests are skipped.")


def _installed(packages: list[str]) -> bool:
    if not shutil.which("apt-get") or os.geteuid():
        return False
    install = ("apt-get", "install", "-y", "--no-install-recommends", *packages)
    return _runs(*install) or (_runs("apt-get", "update") and _runs(*install))


def _runs(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


if __name__ == "__main__":
    main(sys.argv[1])
