"""Writes oracle.json: what the heads of tf.estimator do in the same cases.

Run with tensorflow-cpu==2.15.1, in the root of the repository:

    python -m tests.heads.data.make_oracle
"""

import json
from pathlib import Path

import tensorflow as tf

from tests.heads.head_cases import CASES, names_of, numbers_of, signatures_of


def main() -> None:
    records = {}
    for name, case in CASES.items():
        numbers = numbers_of(tf.estimator, case)
        records[name] = {**numbers, "names": names_of(tf.estimator, case)}
    records["signatures"] = signatures_of(tf.estimator)
    lines = [f"{json.dumps(name)}: {json.dumps(record)}" for name, record in records.items()]
    Path(__file__).with_name("oracle.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
