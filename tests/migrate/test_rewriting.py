"""`estimand migrate fix`: the same program, for the versions of today."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from estimand.cli.main import main
from estimand.migrate.check import Verdict, check_source
from estimand.migrate.names import Names
from estimand.migrate.rewriting import rewritten


@pytest.fixture(scope="module")
def names() -> Names:
    return Names()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.astype(np.float) # ä", "x.astype(float) # ä"),
        ("y = 'ä', np.int, np.zeros(2, np.object)", "y = 'ä', int, np.zeros(2, object)"),
        ("np.product(x) + np.Inf - np.NaN", "np.prod(x) + np.inf - np.nan"),
        ("np.reshape(x, newshape=(2, 3))", "np.reshape(x, shape=(2, 3))"),
        (
            "np.quantile(x, 0.5, interpolation='lower')",
            "np.quantile(x, 0.5, method='lower')",
        ),
        ("def f(float): return np.float(1)", "def f(float): return np.float(1)"),
        ("np.bool, np.float32, other.float", "np.bool, np.float32, other.float"),
        ("import pandas; t.as_matrix()", "import pandas; t.to_numpy()"),
        ("import pandas; t.as_matrix(['a'])", "import pandas; t.as_matrix(['a'])"),
        ("import time; time.clock()", "import time; time.perf_counter()"),
        (
            "import collections; isinstance(x, collections.Mapping)",
            "import collections; isinstance(x, collections.abc.Mapping)",
        ),
        ("[unicode(i) for i in xrange(3)]", "[str(i) for i in range(3)]"),
        ("isinstance(x, basestring)", "isinstance(x, (str, bytes))"),
        ("from six.moves import xrange\nxrange(3)", "from six.moves import xrange\nxrange(3)"),
        ("d.iteritems(), six.iteritems(d)", "d.items(), six.iteritems(d)"),
        ("import inspect; inspect.getargspec(f)", "import inspect; inspect.getargspec(f)"),
        ("tf.keras.optimizers.Adam(lr=0.1)", "tf.keras.optimizers.Adam(learning_rate=0.1)"),
        (
            "tf.keras.optimizers.legacy.Adam(lr=0.1)",
            "tf.keras.optimizers.legacy.Adam(lr=0.1)",
        ),
        (
            "o = tf.keras.optimizers.SGD(0.1)\nprint(o.lr, model.optimizer.lr)",
            "o = tf.keras.optimizers.SGD(0.1)\n"
            "print(o.learning_rate, model.optimizer.learning_rate)",
        ),
        (
            "tf.keras.Model().fit_generator(g, steps_per_epoch=3)",
            "tf.keras.Model().fit(g, steps_per_epoch=3)",
        ),
        (
            "tf.keras.Model().fit_generator(g, workers=3)",
            "tf.keras.Model().fit_generator(g, workers=3)",
        ),
        ("tf.keras.layers.CuDNNLSTM(3)", "tf.keras.layers.LSTM(3)"),
        ("this is no Python", "this is no Python"),
    ],
)
def test_what_is_rewritten(names: Names, before: str, after: str) -> None:
    head = "import numpy as np\nimport tensorflow as tf\n"
    assert rewritten(head + before, names) == head + after


SCRIPT = '''\
"""Trains."""
from __future__ import print_function
import sys
import tensorflow as tf

def main():
    tf.estimator.DNNClassifier([2], [])

if __name__ == "__main__":
    main()
'''


def test_a_script_gets_install_before_tensorflow(names: Names) -> None:
    after = rewritten(SCRIPT, names)
    assert "import sys\nimport estimand; estimand.install()" in after
    assert check_source(after, names=names).verdict is Verdict.AS_IT_IS
    assert rewritten(after, names) == after
    module = SCRIPT.partition("if __name__")[0]
    assert rewritten(module, names) == module
    of_version_1 = SCRIPT.replace("tf.estimator.DNN", "tf.placeholder(tf.estimator.DNN")
    assert "install" not in rewritten(of_version_1.replace("[], [])", "[], []))"), names)


def test_the_command_shows_first_and_writes_when_it_is_told(tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text("import numpy as np\nx = np.float(1)\n")
    program.chmod(0o755)
    (tmp_path / "new.py").write_text("x = 1\n")
    shown = CliRunner().invoke(main, ["migrate", "fix", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "-x = np.float(1)\n+x = float(1)\n" in shown.output
    assert "1 of 2 files would be changed" in shown.output
    assert "np.float" in program.read_text()
    done = CliRunner().invoke(main, ["migrate", "fix", str(tmp_path), "--write"])
    assert "1 of 2 files changed" in done.output
    assert program.read_text() == "import numpy as np\nx = float(1)\n"
    assert program.stat().st_mode & 0o777 == 0o755


def test_what_numpy_has_dropped_is_found_and_runs_under_estimand_run(names: Names) -> None:
    source = textwrap.dedent(
        """\
        import numpy as np
        x = np.zeros(3, np.float)
        np.reshape(x, newshape=(3, 1))
        """
    )
    report = check_source(source, names=names)
    found = {one.line: (one.text, one.verdict) for one in report.findings}
    assert found[2] == ("np.float", Verdict.RUN)
    assert found[3] == ("np.reshape(newshape=...)", Verdict.RUN)
