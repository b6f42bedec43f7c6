"""Is a line of text English or Python? A recurrent network over its words.

The data are on every machine: the documentation and the code of Python's standard library. The
vocabulary is the words that occur most often in the lines to train on; all others share a few
buckets.

    python examples/text_rnn.py [--model_dir DIR] [--max_steps N]
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import random
import re
import tempfile
import textwrap

import tensorflow as tf

import estimand as est

ENGLISH, PYTHON = 0, 1


def lines() -> list[tuple[str, int]]:
    """Lines of docstrings, and as many of code, in random order."""
    prose, code = [], []
    for name in ("email", "json", "logging", "unittest", "concurrent/futures"):
        folder = os.path.join(os.path.dirname(collections.__file__), "..", name)
        for file in sorted(os.listdir(folder)):
            if file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8") as source:
                    text = source.read()
                documented = _docstrings(text)
                prose += [line for one in documented for line in one.splitlines()]
                code += [line for line in text.splitlines() if line not in "\n".join(documented)]
    rows = [(line.strip(), ENGLISH) for line in prose] + [(line.strip(), PYTHON) for line in code]
    rows = sorted({row for row in rows if len(row[0].split()) > 2 and "#" not in row[0]})
    random.Random(0).shuffle(rows)
    return rows


def _docstrings(text: str) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [ast.get_docstring(n) for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]
    return [textwrap.dedent(one) for one in found if one]


def words(line: str) -> list[str]:
    """Words alone: brackets and commas would make it too easy."""
    return re.findall(r"[a-z]+", line.lower()) or ["?"]


def read(rows: list[tuple[str, int]]):
    """An input function of these lines; each is a row of a ragged tensor of words."""

    def input_fn(mode: str) -> tf.data.Dataset:
        table = tf.ragged.constant([words(line) for line, _ in rows])
        data = tf.data.Dataset.from_tensor_slices((table, [kind for _, kind in rows]))
        if mode == est.ModeKeys.TRAIN:
            data = data.shuffle(len(rows)).repeat()
        return data.ragged_batch(64).map(lambda row, kind: ({"words": row.to_sparse()}, kind))

    return input_fn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=400)
    args = parser.parse_args()
    model_dir = args.model_dir or tempfile.mkdtemp(prefix="text-")

    rows = lines()
    training, unseen = rows[:-500], rows[-500:]
    often = collections.Counter(word for line, _ in training for word in words(line))
    vocabulary = [word for word, _ in often.most_common(500)]
    column = est.feature_column.sequence_categorical_column_with_vocabulary_list(
        "words", vocabulary, num_oov_buckets=20
    )
    classifier = est.RNNClassifier(
        [est.feature_column.embedding_column(column, 16)],
        units=[16],
        cell_type="gru",
        optimizer="Adam",
        label_vocabulary=None,
        model_dir=model_dir,
        config=est.RunConfig(tf_random_seed=1),
    )
    classifier.train(read(training), max_steps=args.max_steps)
    metrics = classifier.evaluate(read(unseen))
    print(f"{metrics['accuracy']:.0%} of {len(unseen)} unseen lines are told right, for example:")
    for (line, _), answer in zip(unseen[:8], classifier.predict(read(unseen[:8])), strict=True):
        print(f"  {answer['probabilities'][PYTHON]:4.0%} Python: {json.dumps(line[:70])}")


if __name__ == "__main__":
    main()
