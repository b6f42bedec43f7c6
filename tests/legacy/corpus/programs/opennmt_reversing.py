"""OpenNMT-tf learns to reverse short sentences, as its command `onmt-main` would have it."""

import os
import random
import sys

from opennmt.models import catalog
from opennmt.runner import Runner

folder = os.path.abspath(sys.argv[1])
os.makedirs(folder, exist_ok=True)
words = [f"w{number}" for number in range(20)]
generator = random.Random(0)


def write(name, lines):
    with open(os.path.join(folder, name), "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return os.path.join(folder, name)


def sentences(kind, count):
    made = [[generator.choice(words) for _ in range(4)] for _ in range(count)]
    source = write(f"{kind}.src", map(" ".join, made))
    return source, write(f"{kind}.tgt", (" ".join(reversed(line)) for line in made))


vocabulary = write("vocabulary", ["<blank>", "<s>", "</s>", *words])
train_source, train_target = sentences("train", 200)
eval_source, eval_target = sentences("eval", 20)
config = {
    "model_dir": os.path.join(folder, "model"),
    "data": {
        "train_features_file": train_source,
        "train_labels_file": train_target,
        "eval_features_file": eval_source,
        "eval_labels_file": eval_target,
        "source_words_vocabulary": vocabulary,
        "target_words_vocabulary": vocabulary,
    },
    "params": {"optimizer": "AdamOptimizer", "learning_rate": 0.002, "beam_width": 2},
    "train": {"batch_size": 16, "save_checkpoints_steps": 20, "train_steps": 40},
    "eval": {"batch_size": 10, "eval_delay": 0, "exporters": "last"},
    "infer": {"batch_size": 10},
}
runner = Runner(catalog.NMTSmall(), config, seed=1)
runner.train_and_evaluate()
answers = os.path.join(folder, "answers.txt")
runner.infer(eval_source, predictions_file=answers)
with open(answers) as file:
    assert len(file.readlines()) == 20
exports = os.path.join(config["model_dir"], "export", "latest")
assert [name for name in os.listdir(exports) if name.isdigit()]
