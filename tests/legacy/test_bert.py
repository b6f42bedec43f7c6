"""BERT's run_classifier.py, as bert-tensorflow has it on PyPI: trained, evaluated, asked.

The package is installed without its dependencies into a temporary directory, and its program is
run as it is by `estimand run`; only model, data and vocabulary are tiny.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import forked

pytestmark = pytest.mark.slow

WORDS = ["the", "a", "good", "bad", "movie", "film", "great", "awful"]
CONFIG = {
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 8,
    "initializer_range": 0.2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS) + 5,
}
FLAGS = {
    "task_name": "cola",
    "do_train": "true",
    "do_eval": "true",
    "do_predict": "true",
    "max_seq_length": 8,
    "train_batch_size": 8,
    "eval_batch_size": 4,
    "num_train_epochs": 2,
    "learning_rate": 0.01,
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bert")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(target), "bert-tensorflow==1.0.4"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode:
        pytest.skip(f"bert-tensorflow cannot be installed: {done.stderr.strip()[-200:]}")
    return target


def write_data(folder: Path) -> np.ndarray:
    """The same sentences to train on, to evaluate and to predict; their labels."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*special, *WORDS]) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    rows = [(1, "the movie good great"), (0, "the film awful bad"), (0, "a bad film")] * 4
    cola = "".join(f"id\t{label}\ta\t{text}\n" for label, text in rows)
    (folder / "train.tsv").write_text(cola)
    (folder / "dev.tsv").write_text(cola)
    test = "".join(f"{i}\t{text}\n" for i, (_, text) in enumerate(rows))
    (folder / "test.tsv").write_text(f"index\tsentence\n{test}")
    return np.array([label for label, _ in rows])


def test_run_classifier_evaluates_what_it_predicts(package: Path, tmp_path: Path) -> None:
    labels = write_data(tmp_path)
    paths = {
        "data_dir": tmp_path,
        "vocab_file": tmp_path / "vocab.txt",
        "bert_config_file": tmp_path / "config.json",
        "output_dir": tmp_path / "out",
    }
    arguments = [f"--{name}={value}" for name, value in {**FLAGS, **paths}.items()]
    program = package / "bert" / "run_classifier.py"
    done = forked.run(
        ["-m", "estimand", "run", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (tmp_path / "out" / "eval_results.txt").read_text().splitlines()
    results = {name: float(value) for name, value in (line.split(" = ") for line in lines)}
    predicted = np.loadtxt(tmp_path / "out" / "test_results.tsv", delimiter="\t")
    assert results["global_step"] == 3
    assert results["eval_accuracy"] == pytest.approx(np.mean(predicted.argmax(1) == labels))
    loss = -np.mean(np.log(predicted[np.arange(len(labels)), labels]))
    assert results["eval_loss"] == pytest.approx(loss, rel=1e-3)
    names = {name for name, _ in tf.train.list_variables(str(tmp_path / "out"))}
    assert "bert/encoder/layer_0/attention/self/query/kernel/adam_m" in names
