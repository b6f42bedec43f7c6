"""What `estimand migrate check` says of programs, and that it is true."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

import estimand as est
from estimand.cli.main import main
from estimand.compat.install import installed
from estimand.compat.removed import HINTS
from estimand.core.errors import InputError
from estimand.migrate.check import FileReport, Verdict, check_path, check_source
from estimand.migrate.hints import hint
from estimand.migrate.names import NameHome, Names
from estimand.migrate.uses import Target, find_uses

LEGACY = Path(__file__).parents[1] / "legacy"
SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"


@pytest.fixture(scope="module")
def names() -> Names:
    return Names()


def check(source: str, names: Names) -> FileReport:
    return check_source(textwrap.dedent(source), names=names)


def changes(report: FileReport) -> dict[int, str]:
    """What is to be changed, by line; of a line, all of it."""
    found: dict[int, str] = {}
    for one in report.findings:
        if one.verdict is Verdict.CHANGE:
            found[one.line] = found.get(one.line, "") + f"{one.text}: {one.advice}\n"
    return found


# What a name stands for


def paths(source: str) -> list[str]:
    return [use.target.path for use in find_uses(textwrap.dedent(source)).uses]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("import tensorflow as tf\ntf.a.b", "tensorflow.a.b"),
        ("import tensorflow.compat.v1 as tf\ntf.a", "tensorflow.compat.v1.a"),
        ("import tensorflow.compat.v1\ntensorflow.compat.v1.a", "tensorflow.compat.v1.a"),
        ("from tensorflow import keras as k\nk.a", "tensorflow.keras.a"),
        ("from tensorflow.contrib import layers\nlayers.a", "tensorflow.contrib.layers.a"),
        ("import tensorflow as tf\nflags = tf.flags\nflags.a", "tensorflow.flags.a"),
        ("import tensorflow as tf\ndef f():\n  return tf.a", "tensorflow.a"),
        ("def f():\n  import tensorflow as tf\n  return lambda x: tf.a", "tensorflow.a"),
    ],
)
def test_aliases_are_followed(source: str, path: str) -> None:
    assert paths(source)[-1] == path


@pytest.mark.parametrize(
    "inner",
    [
        "def f(tf):\n  return tf.nothing",
        "def f():\n  tf = object()\n  return tf.nothing",
        "g = lambda tf: tf.nothing",
        "try:\n  tf.nothing\nexcept AttributeError:\n  tf.nothing",
        "if hasattr(tf, 'nothing'):\n  tf.nothing",
        "if tf.__version__ < '2':\n  tf.nothing",
    ],
)
def test_other_things_of_the_same_name_and_what_is_only_tried_do_not_count(inner: str) -> None:
    assert "tensorflow.nothing" not in paths(f"import tensorflow as tf\n{inner}\n")


# Where it is found


@pytest.mark.parametrize(
    ("path", "v1", "found"),
    [
        ("tensorflow.data.Dataset", False, NameHome.THERE),
        ("tensorflow.placeholder", False, NameHome.NOWHERE),
        ("tensorflow.placeholder", True, NameHome.THERE),
        ("tensorflow.layers.dense", True, NameHome.SUPPLIED),
        ("tensorflow.layers.danse", True, NameHome.NOWHERE),
        ("tensorflow.estimator.ModeKeys.TRAIN", False, NameHome.SUPPLIED),
        ("tensorflow.estimator.BoostedTreesClassifier", False, NameHome.SUPPLIED),
        ("tensorflow.estimator.BoostedTreesEstimator", False, NameHome.NOWHERE),
        ("tensorflow.estimator.inputs.numpy_input_fn", True, NameHome.SUPPLIED),
        ("tensorflow.estimator.inputs.numpy_input_fn", False, NameHome.NOWHERE),
        ("tensorflow.contrib.training.HParams", True, NameHome.SUPPLIED),
        ("tensorflow.contrib.bayesflow", True, NameHome.NOWHERE),
        ("tensorflow.keras.layers.Dense", True, NameHome.THERE),
        ("tensorflow.keras.layers.DenseFeatures", False, NameHome.SUPPLIED),
        ("tensorflow.compat.v1.keras.layers.DenseFeatures", True, NameHome.SUPPLIED),
        ("tensorflow.keras.experimental.SequenceFeatures", False, NameHome.SUPPLIED),
        ("tensorflow.keras.experimental.WideDeepModel", False, NameHome.NOWHERE),
        ("tensorflow.keras.optimizers.legacy.Adam", False, NameHome.SUPPLIED),
    ],
)
def test_names_are_looked_up_in_what_the_file_gets(
    names: Names, path: str, v1: bool, found: NameHome
) -> None:
    assert names.find(Target(path, of_tf=True), v1) is found


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "from tensorflow_estimator.python.estimator.run_config import RunConfig",
            NameHome.SUPPLIED,
        ),
        ("from tensorflow.python.estimator.canned.head import _Head", NameHome.SUPPLIED),
        ("from tensorflow_estimator.python.estimator.canned import timeseries", NameHome.NOWHERE),
        ("from tensorflow.contrib.layers import fully_connected", NameHome.SUPPLIED),
        ("from tensorflow.python.framework.ops import Tensor", NameHome.SUPPLIED),
        ("from tensorflow.python.layers.core import Dense", NameHome.SUPPLIED),
        ("from tensorflow.contrib.layers import rev_block", NameHome.NOWHERE),
        ("from tensorflow.compat.v1.layers import dense", NameHome.SUPPLIED),
        ("from tensorflow.python.framework import ops", NameHome.THERE),
        ("from tensorflow.python.framework import nothing", NameHome.NOWHERE),
        ("from keras.layers import Dense", NameHome.THERE),
        ("from keras.layers import CuDNNLSTM", NameHome.NOWHERE),
    ],
)
def test_what_is_said_of_an_import_is_what_it_does(
    names: Names, statement: str, found: NameHome
) -> None:
    (use,) = find_uses(statement).uses
    assert names.find(use.target, False) is found
    with installed():
        if found is NameHome.NOWHERE:
            with pytest.raises(ImportError):
                exec(statement, {})
        else:
            exec(statement, {})


# Verdicts


def test_a_program_of_tensorflow_2_runs_as_it_is(names: Names) -> None:
    report = check("import tensorflow as tf\nimport estimand as est\ntf.data.Dataset\n", names)
    assert (report.verdict, report.v1) == (Verdict.AS_IT_IS, False)


def test_an_estimator_of_tensorflow_2_needs_install_only(names: Names) -> None:
    source = "import tensorflow as tf\ntf.estimator.RunConfig()\n"
    report = check(source, names)
    assert (report.verdict, report.v1) == (Verdict.RUN, False)
    assert "estimand.install()" in report.how
    assert check(f"import estimand\nestimand.install()\n{source}", names).verdict is (
        Verdict.AS_IT_IS
    )


def test_a_program_of_tensorflow_1_needs_estimand_run(names: Names) -> None:
    source = "import tensorflow as tf\ntf.estimator.RunConfig()\ntf.placeholder(tf.float32)\n"
    report = check(source, names)
    assert (report.verdict, report.v1) == (Verdict.RUN, True)
    with_install = check(f"import estimand\nestimand.install()\n{source}", names)
    assert with_install.verdict is Verdict.RUN  # which does not bring tf.placeholder


def test_what_is_gone_is_named_with_what_to_write(names: Names) -> None:
    report = check(
        """\
        import tensorflow as tf
        from tensorflow.contrib import layers, bayesflow
        tf.estimator.BoostedTreesEstimator([], 1)
        layers.rev_block(1)
        tf.keras.layers.CuDNNLSTM(3)
        tf.GraphKyes.LOSSES
        layers.l2_regularizer(0.1)
        """,
        names,
    )
    found = changes(report)
    assert found.keys() == {2, 3, 4, 5, 6}
    assert "contrib.bayesflow" in found[2]
    assert "est.GradientBoostedTreesClassifier" in found[3]
    assert "rev_block" in found[4]
    assert "tf.keras.layers.LSTM" in found[5]
    assert "GraphKeys" in found[6]


def test_idioms_of_keras_2_are_named(names: Names) -> None:
    report = check(
        """\
        import tensorflow as tf
        import re
        model = tf.keras.Sequential()
        adam = tf.train.AdamOptimizer()
        model.compile(optimizer=adam)
        model.compile(tf.train.GradientDescentOptimizer(0.1), loss="mse")
        optimizer = tf.keras.optimizers.Adam(lr=0.1, decay=1e-3, beta_1=0.9)
        print(optimizer.lr, model.optimizer.lr)
        model.fit_generator(None)
        re.compile("a")
        model.compile(optimizer="sgd", target_tensors=[])
        tf.keras.optimizers.SGD(learning_rate=0.1, momentum=0.9, clipnorm=1.0)
        """,
        names,
    )
    found = changes(report)
    assert found.keys() == {7, 8, 9, 11}  # `compile` takes what 4 and 6 make
    assert "learning_rate=..." in found[7] and "InverseTimeDecay" in found[7]
    assert found[8].count(".learning_rate") == 2
    assert "write .fit" in found[9]


def test_what_an_estimator_cannot_run_is_named(names: Names) -> None:
    report = check(
        """\
        import tensorflow as tf
        tf.contrib.tpu.TPUEstimator(None, use_tpu=True)
        tf.contrib.tpu.TPUEstimator(None, use_tpu=False)
        tf.estimator.Estimator(lambda: tf.train.shuffle_batch([1], 2, 3, 4))
        """,
        names,
    )
    found = changes(report)
    assert found.keys() == {2}
    assert "use_tpu=False" in found[2]


def test_what_python_and_pandas_have_dropped_is_named(names: Names) -> None:
    report = check(
        """\
        import pandas as pd
        import tensorflow as tf
        table = pd.read_csv("a.csv").as_matrix()
        def rows():
            while True:
                try:
                    yield next(table)
                except (StopIteration, tf.errors.OutOfRangeError):
                    raise
            raise StopIteration
        class Rows:
            def __next__(self):
                raise StopIteration
        """,
        names,
    )
    found = changes(report)
    assert found.keys() == {3, 9, 10}
    assert ".to_numpy()" in found[3] and "write return" in found[9]


def test_what_keras_refuses_is_what_is_named() -> None:
    with pytest.raises(ValueError, match="lr"):
        tf.keras.optimizers.Adam(lr=0.1)
    with pytest.warns(UserWarning, match="`decay` is no longer supported and will be ignored"):
        tf.keras.optimizers.Adam(decay=0.1)
    assert not hasattr(tf.keras.optimizers.Adam(), "lr")
    assert not hasattr(tf.keras.Model, "fit_generator")


def test_python_2_is_told(names: Names) -> None:
    found = changes(check("import tensorflow as tf\nprint 'a'\n", names))
    assert "Python 2" in found[2]


def test_remnants_of_python_2_are_named(names: Names) -> None:
    report = check(
        """\
        import tensorflow as tf
        x = tf.placeholder(tf.float32)
        import cPickle as pickle; from itertools import izip
        for i in xrange(3):
            print(map(int, "12")[i], counts.iteritems(), counts.keys()[0])
            if counts.has_key(i):
                raw_input("more?")
        """,
        names,
    )
    found = changes(report)
    assert found.keys() == {5, 6}
    assert "write .items()" in found[5] and "list(counts.keys())" in found[5]
    assert "i in counts" in found[6]
    by_run = {one.text: one for one in report.findings if one.verdict is Verdict.RUN}
    assert {"xrange", "raw_input", "map(...)[...]"} <= by_run.keys()
    assert "pickle" in by_run["import cPickle as pickle"].advice
    assert "from itertools import izip" in by_run
    assert "write range" in by_run["xrange"].advice
    # A file of TensorFlow 2 is given nothing of it.
    assert "xrange" in changes(check("import tensorflow as tf\nxrange(tf.rank(1))", names))[2]


def test_contrib_learn_runs(names: Names) -> None:
    report = check(
        """\
        import tensorflow as tf
        from tensorflow.contrib import learn
        from tensorflow.contrib.learn.python.learn.metric_spec import MetricSpec
        model = learn.SKCompat(learn.Estimator(model_fn=None))
        tf.contrib.learn.monitors.ValidationMonitor(input_fn=None)
        tf.contrib.learn.SVM("id")
        """,
        names,
    )
    assert changes(report).keys() == {6}


def test_what_hints_tell_to_write_is_there(names: Names) -> None:
    told = 0
    for text in HINTS.values():
        for name in re.findall(r"`((?:tf|est)\.[\w.]+)`", text):
            told += 1
            if name.startswith("est."):
                assert hasattr(est, name.removeprefix("est.")), name
            else:
                target = Target(name.replace("tf.", "tensorflow.", 1), of_tf=True)
                assert names.find(target, True) is not NameHome.NOWHERE, name
    assert told > 15
    assert hint("tensorflow.contrib.metrics.streaming_auc", names) == "`tf.metrics.auc`"


# Code that is run elsewhere


def test_programs_that_are_run_by_tests_are_said_to_run(names: Names) -> None:
    run_there = set(re.findall(r'run\(\s*"(\w+\.py)"', (LEGACY / "test_programs.py").read_text()))
    reports = {Path(one.path).name: one for one in check_path(LEGACY / "programs", names)}
    assert len(run_there) >= 4
    for name in run_there:
        assert reports[name].verdict is Verdict.RUN, changes(reports[name])


def test_snippets_of_notes_on_estimators(names: Names) -> None:
    if not SEEDS.is_dir():
        pytest.skip("the notes are not beside this repository")
    reports = []
    for file in sorted(SEEDS.glob("*.txt")):
        for snippet in re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL):
            if "tf." in snippet:
                report = check(f"import tensorflow as tf\n{textwrap.dedent(snippet)}", names)
                if "no Python 3" not in str(report.findings):
                    reports.append(report)
    wanted = sum(one.verdict is Verdict.CHANGE for one in reports)
    assert len(reports) > 15
    # They are tests in tests/legacy: only what Keras 3 has dropped is left to be changed.
    for report in reports:
        for text in changes(report).values():
            assert re.search(r"compile\(|\bK\.|keras\.|\((lr|decay)=", text), text
    assert wanted < len(reports) / 3


# The command


def run(*arguments: Any) -> Result:
    runner = CliRunner(env={"COLUMNS": "200"})
    return runner.invoke(main, ["migrate", "check", *map(str, arguments)])


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "old.py").write_text("import tensorflow as tf\ntf.contrib.bayesflow.entropy()\n")
    (tmp_path / "run.py").write_text("import tensorflow as tf\ntf.estimator.Estimator\n")
    (tmp_path / "plain.py").write_text("import os\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text("import tensorflow as tf\ntf.nothing\n")
    return tmp_path


def test_the_command_names_file_and_line_and_sums_up(code: Path) -> None:
    result = run(code)
    assert result.exit_code == 1
    assert f"{code / 'old.py'}:2: tf.contrib.bayesflow.entropy needs a change" in result.output
    assert "0 run as it is, 1 runs under `estimand run`, 1 needs a change" in result.output
    assert "1 without TensorFlow" in result.output


def test_the_command_ends_well_where_nothing_needs_a_change(code: Path) -> None:
    result = run(code / "run.py", "--all")
    assert result.exit_code == 0
    assert "run.py:2: tf.estimator.Estimator runs under `estimand run`" in result.output


def test_the_command_as_json(code: Path) -> None:
    answer = json.loads(run(code, "--json").stdout)
    assert answer["summary"] == {"as_it_is": 0, "run": 1, "change": 1}
    old = next(one for one in answer["files"] if one["path"].endswith("old.py"))
    assert [one["line"] for one in old["findings"] if one["verdict"] == "change"] == [2]


def test_a_path_without_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no Python files"):
        check_path(tmp_path)
    result = run(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere' does not exist" in result.output
