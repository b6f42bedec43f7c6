"""Writes oracle.json: what the programs do on tf.compat.v1.layers.

Run with tensorflow-cpu==2.15.1, in the root of the repository:

    python -m tests.compat.data.make_oracle
"""

import json
from pathlib import Path

import tensorflow as tf

from tests.compat.layer_programs import PROGRAMS, SPATIAL_PROGRAMS, run, signature


def main() -> None:
    layers = tf.compat.v1.layers
    programs = PROGRAMS | SPATIAL_PROGRAMS
    records = {name: run(layers, program) for name, program in programs.items()}
    public = {name: getattr(layers, name) for name in dir(layers) if not name.startswith("_")}
    records["signatures"] = {n: signature(f) for n, f in public.items() if callable(f)}
    lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in records.items()]
    Path(__file__).with_name("oracle.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
