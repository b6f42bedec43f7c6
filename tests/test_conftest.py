"""What conftest.py does to every test: seeds it, looks for leaks, leaves some to `make full`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

LEAKY = {
    "variable LEAKED: None became '1'": """
        import os

        def test_it():
            os.environ["LEAKED"] = "1"
    """,
    "thread 'forgotten' still runs": """
        import threading

        def test_it():
            gate = threading.Event()
            threading.Thread(target=gate.wait, args=(3,), name="forgotten").start()
    """,
    "process * still runs: sleep 3": """
        import subprocess

        def test_it():
            global child
            child = subprocess.Popen(["sleep", "3"])
    """,
    "40 descriptors are still open: pipe*": """
        import os

        def test_it():
            for _ in range(20):
                os.pipe()
    """,
}


@pytest.fixture
def with_our_conftest(pytester: pytest.Pytester) -> pytest.Pytester:
    text = (Path(__file__).parent / "conftest.py").read_text()
    pytester.makeconftest(text.replace("SECONDS_TO_WIND_DOWN = 5.0", "SECONDS_TO_WIND_DOWN = 0.1"))
    return pytester


@pytest.mark.parametrize("message", LEAKY)
def test_a_leak_is_named(with_our_conftest: pytest.Pytester, message: str) -> None:
    with_our_conftest.makepyfile(LEAKY[message])
    result = with_our_conftest.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*{message}*"])


def test_cleaning_up_is_enough(with_our_conftest: pytest.Pytester) -> None:
    with_our_conftest.makepyfile(
        """
        import os
        import subprocess
        import threading

        def test_it(monkeypatch):
            for one in [end for _ in range(20) for end in os.pipe()]:
                os.close(one)
            monkeypatch.setenv("LEAKED", "1")
            thread = threading.Thread(target=print)
            thread.start()
            thread.join()
            subprocess.run(["true"], check=True)
        """
    )
    with_our_conftest.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_leaked_variable_does_not_reach_the_next_test(
    with_our_conftest: pytest.Pytester,
) -> None:
    with_our_conftest.makepyfile(
        """
        import os

        def test_leaks():
            os.environ["LEAKED"] = "1"

        def test_next():
            assert "LEAKED" not in os.environ
        """
    )
    with_our_conftest.runpytest_subprocess().assert_outcomes(passed=2, errors=1)


def test_of_many_parameters_some_are_left_to_make_full(with_our_conftest: pytest.Pytester) -> None:
    with_our_conftest.makepyfile(
        """
        import pytest

        @pytest.mark.sample(3)
        @pytest.mark.parametrize("number", range(7))
        def test_it(number):
            assert number % 3 == 0

        @pytest.mark.parametrize("number", range(2))
        def test_other(number):
            pass
        """
    )
    result = with_our_conftest.runpytest_subprocess("-m", "not full")
    result.assert_outcomes(passed=5, deselected=4)
    with_our_conftest.runpytest_subprocess("-m", "").assert_outcomes(passed=5, failed=4)


def test_what_a_test_draws_depends_on_nothing_but_its_name(
    with_our_conftest: pytest.Pytester,
) -> None:
    with_our_conftest.makepyfile(
        """
        import numpy, pathlib, random, secrets
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(number):
            drawn = [random.random(), numpy.random.rand(), secrets.randbits(31)]
            pathlib.Path(f"drawn_{number}").write_text(str(drawn))
        """
    )

    def drawn() -> list[str]:
        return [path.read_text() for path in sorted(with_our_conftest.path.glob("drawn_*"))]

    with_our_conftest.runpytest_subprocess().assert_outcomes(passed=3)
    first = drawn()
    assert len(set(first)) == 3
    with_our_conftest.runpytest_subprocess("-k", "2").assert_outcomes(passed=1, deselected=2)
    assert drawn() == first
