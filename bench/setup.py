"""Make the virtual environments of the peers: python bench/setup.py [upstream] [torch] [jax] [web].

tf.estimator 2.15 needs Python 3.11 or older, so one is looked for.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

import environments


def python_3_11() -> str:
    """A Python 3.11, the newest that has all the peers."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        sys.exit(
            "The peers need Python 3.11, and there is no python3.11 on the PATH. Install it, or "
            "leave them out: bench/run.py works with the environments it finds."
        )
    return found


def make(name: str) -> None:
    if environments.interpreter(name) is not None:
        print(f"{name}: already there ({environments.folder() / name})")
        return
    target = environments.folder() / name
    print(f"{name}: installing {' '.join(environments.REQUIREMENTS[name])} into {target} ...")
    subprocess.run([python_3_11(), "-m", "venv", str(target)], check=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    try:
        subprocess.run([*pip, *environments.REQUIREMENTS[name]], check=True)
    except (subprocess.CalledProcessError, KeyboardInterrupt):
        shutil.rmtree(target, ignore_errors=True)  # a half-made one would pass for ready
        sys.exit(f"{name}: pip failed; nothing was left behind.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the virtual environments of the peers.")
    known = list(environments.REQUIREMENTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(known)}")
    names = parser.parse_args().names or known
    unknown = set(names) - set(known)
    if unknown:
        parser.error(f"no such environment: {', '.join(sorted(unknown))}; known: {known}")
    for name in names:
        make(name)


if __name__ == "__main__":
    main()
