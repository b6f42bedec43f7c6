"""Writes rnn_oracle.json: what the programs do on tf.compat.v1.nn.rnn_cell.

Run with tensorflow-cpu==2.15.1, in the root of the repository:

    python -m tests.compat.data.make_rnn_oracle
"""

import json
from pathlib import Path

import tensorflow as tf

from tests.compat.rnn_programs import PROGRAMS, run


def main() -> None:
    cells = tf.compat.v1.nn.rnn_cell
    records = {name: run(cells, program) for name, program in PROGRAMS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in records.items()]
    Path(__file__).with_name("rnn_oracle.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
