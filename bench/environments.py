"""Which Python runs which contestant.

`project` is the environment that runs the benchmark (Estimand and Keras live in it). The others
are virtual environments of their own, because their TensorFlow, or torch, differs. They lie in
`bench/.venvs`, or in the folder that BENCH_VENVS names; `bench/setup.py` makes them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent

PROJECT = "project"
UPSTREAM = "upstream"
TORCH = "torch"
WEB = "web"
JAX = "jax"

# What pip installs there; the project's own environment comes from pyproject.toml.
REQUIREMENTS = {
    UPSTREAM: ["tensorflow-cpu==2.15.1", "tensorflow-estimator==2.15.0"],
    TORCH: ["torch==2.13.0", "lightning", "numpy"],
    JAX: ["jax==0.7.2"],
    WEB: ["tensorflow-cpu==2.21.0", "keras", "litserve==0.2.19", "fastapi", "orjson", "uvicorn"],
}
# The large import that every contestant of an environment needs.
FRAMEWORK = {
    PROJECT: "tensorflow",
    UPSTREAM: "tensorflow",
    TORCH: "torch",
    JAX: "jax",
    WEB: "numpy",  # servers are processes of their own
}


def folder() -> Path:
    """Where the virtual environments are."""
    return Path(os.environ.get("BENCH_VENVS") or BENCH / ".venvs")


def interpreter(environment: str) -> Path | None:
    """The Python of an environment; None where it has not been made."""
    if environment == PROJECT:
        return Path(sys.executable)
    python = folder() / environment / "bin" / "python"
    return python if python.exists() else None
