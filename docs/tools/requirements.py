"""Prints what an extra of pyproject.toml needs, and nothing of what the package itself needs.

python docs/tools/requirements.py docs
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

if __name__ == "__main__":
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    print("\n".join(extras[sys.argv[1]]))
