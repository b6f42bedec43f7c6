"""Programs written for TensorFlow 1, run unchanged by `estimand run`, each in its own process."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from estimand.engine.events import read_scalars
from tests import forked

PROGRAMS = Path(__file__).parent / "programs"


def run(program: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
    done = forked.run(["-m", "estimand", "run", *options, PROGRAMS / program, *arguments])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def variables(model_dir: Path) -> set[str]:
    return {name for name, _ in tf.train.list_variables(str(model_dir))}


def test_sessions_savers_and_iterators(tmp_path: Path) -> None:
    assert "all done True" in run("sessions.py", "--dataDir", str(tmp_path))


@pytest.mark.parametrize("program", ["datasets.py", "graphs.py", "keras_guide.py"])
def test_snippets_of_guides(program: str, tmp_path: Path) -> None:
    assert "all done" in run(program, str(tmp_path))


def test_a_hook_feeds_the_iterator_of_the_input_function(tmp_path: Path) -> None:
    assert "all done" in run("fed_iterators.py", str(tmp_path))


def test_requests_that_wait_in_a_generator_are_answered_one_by_one(tmp_path: Path) -> None:
    assert "all done" in run("fast_predict.py", str(tmp_path))


def test_boosted_trees_explain_their_answers(tmp_path: Path) -> None:
    pytest.importorskip("ydf")
    assert "all done" in run("titanic_explained.py", str(tmp_path))


def test_a_hook_feeds_each_batch(tmp_path: Path) -> None:
    assert "all done" in run("seq2seq_fed.py", str(tmp_path))


def test_layers_of_contrib_an_export_and_a_predictor(tmp_path: Path) -> None:
    assert "all done" in run("click_rates.py", str(tmp_path))
    names = {"mlp0/weights", "bn_0/gamma", "bn_0/moving_mean", "OptimizeLoss/learning_rate"}
    assert names <= variables(tmp_path)


def test_eager_execution_of_contrib(tmp_path: Path) -> None:
    assert "all done" in run("eager.py", str(tmp_path))
    (events,) = (tmp_path / "logs").iterdir()
    found = {
        event.step: float(tf.make_ndarray(value.tensor))
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    assert found == {5: pytest.approx(0.2), 10: pytest.approx(0.1)}


@pytest.mark.parametrize("arguments", [[], ["--runner"]], ids=["experiment", "learn_runner"])
def test_an_experiment_trains_and_evaluates(arguments: list[str], tmp_path: Path) -> None:
    run("experiment.py", f"--save_dir={tmp_path}", *arguments, options=("--v1",))
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-20")
    assert {"block1_conv1/kernel", "block1_conv1_bn/moving_mean"} <= variables(tmp_path)
    evaluations = [folder for folder in tmp_path.iterdir() if folder.name.startswith("eval")]
    assert [step for step, _ in read_scalars(str(evaluations[0]))["accuracy"]][-1] == 20


def test_a_program_on_tpu_estimator_runs_without_tpu(tmp_path: Path) -> None:
    run("bert_style.py", f"--output_dir={tmp_path}", "--iterations_per_loop", "5")
    assert {"bert/LayerNorm/gamma", "bert/dense/kernel/Adam_1", "output_weights"} <= variables(
        tmp_path
    )


def test_the_exit_code_of_a_program_is_that_of_the_command(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text("import sys\nsys.exit(7)\n")
    assert forked.run(["-m", "estimand", "run", program]).returncode == 7


def test_a_module_runs_as_with_python_m(tmp_path: Path) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(
        "import tensorflow as tf\nimport numpy as np\n"
        "STEP = tf.train.get_or_create_global_step\nZEROS = np.zeros(2, np.float)\n"
    )
    (package / "task.py").write_text(
        "import sys\nfrom trainer import model\nimport tensorflow as tf\n"
        "print(__name__, sys.argv[1:], tf.estimator.Estimator.__module__.split('.')[0])\n"
    )
    command = ["-m", "estimand", "run", "-m", "trainer.task", "--job-dir", "x"]
    done = forked.run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "__main__ ['--job-dir', 'x'] estimand"
    missing = forked.run(["-m", "estimand", "run", "-m", "trainer.tusk"], cwd=tmp_path)
    assert missing.returncode and "There is no module 'trainer.tusk'" in missing.stderr
