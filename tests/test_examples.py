"""Every example runs as its docstring says."""

import os
import pathlib

import pytest

from tests import forked

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))
SHORTER = {
    "census_wide_deep.py": ["--max_steps", "60"],
    "demo.py": ["--max_steps", "50"],
    "digits.py": ["--max_steps", "60"],
    "keras_model.py": ["--max_steps", "60"],
    "legacy_iris.py": ["--max_steps", "60"],
    "multi_task.py": ["--max_steps", "60"],
    "kmeans.py": ["--max_steps", "60"],
    "text_rnn.py": ["--max_steps", "40"],
    "transfer_learning.py": ["--max_steps", "60"],
    "recommender.py": ["--max_steps", "60"],
}
# Run as a cluster of processes, as their docstrings say.
LAUNCHED = {"recommender.py": ["-m", "estimand", "launch", "--ps", "1", "--workers", "1"]}
EXPECTED = {
    "census_wide_deep.py": "On 4000 unseen people",
    "multi_task.py": "Evaluation of both tasks on unseen visits",
    "demo.py": "The server has ended with 0.",
    "digits.py": "Evaluation on 360 unseen digits",
    "keras_model.py": "the Keras model loaded from it",
    "legacy_iris.py": "batch_normalization/moving_mean",
    "debug_eagerly.py": "first prediction",
    "kmeans.py": "of the images lie in a heap of their own digit",
    "text_rnn.py": "of 500 unseen lines are told right",
    "transfer_learning.py": "edges and shapes kept",
    "recommender.py": "chief: 60 steps",
    "embedding_servable.py": "REST: nearest to cat: dog",
}


def test_there_are_examples_and_each_says_what_it_shows() -> None:
    assert {e.name for e in EXAMPLES} == set(EXPECTED)


def examples() -> list[object]:
    """Of those that train a model make test has some, and none of a cluster."""
    full = {*LAUNCHED, "census_wide_deep.py", "keras_model.py", "text_rnn.py", "multi_task.py"}
    marks = {name: [pytest.mark.full] for name in full}
    return [pytest.param(e, marks=marks.get(e.name, ()), id=e.name) for e in EXAMPLES]


@pytest.mark.slow
@pytest.mark.parametrize("example", examples())
def test_example_runs(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = forked.run(
        [*LAUNCHED.get(example.name, []), example, *SHORTER.get(example.name, [])],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[example.name] in done.stdout
    assert "Traceback" not in done.stderr
