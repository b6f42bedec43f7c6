"""`estimand/__init__.py`: the list is true, complete and costs nothing until it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import estimand as est

REPOSITORY = Path(__file__).resolve().parents[1]


def run_python(program: str) -> str:
    """Output of a fresh interpreter, so that nothing is imported yet."""
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_every_public_name_resolves() -> None:
    broken = {}
    for name in est.__all__:
        try:
            getattr(est, name)
        except Exception as error:
            broken[name] = f"{type(error).__name__}: {error}"
    assert est.__all__
    assert not broken, "\n".join(f"est.{name}: {why}" for name, why in broken.items())


def test_dir_lists_every_public_name() -> None:
    assert set(est.__all__) <= set(dir(est))


def seen_by_type_checkers(module: ModuleType) -> dict[str, tuple[str | None, str]]:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    return {
        str(alias.asname): (statement.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    listed = {}
    for name, home in est._HOME.items():
        module, _, attribute = home.partition(":")
        listed[name] = (module, attribute) if attribute else tuple(module.rsplit(".", 1))
    assert listed
    assert seen_by_type_checkers(est) == listed


@pytest.mark.parametrize("package", ["experimental", "export", "inputs", "records", "serving"])
def test_type_checkers_see_those_of_other_lazy_packages_too(package: str) -> None:
    module = getattr(est, package)
    assert module._HOME and module.__all__ == dir(module)
    assert seen_by_type_checkers(module) == {
        name: (home, name) for name, home in module._HOME.items()
    }
    assert all(hasattr(module, name) for name in module.__all__)


def test_editors_show_the_arguments() -> None:
    pytest.importorskip("jedi")
    program = (  # in a process of its own, for jedi starts another one, which stays
        "import jedi\n"
        "for name in 'Estimator', 'inputs.csv_input_fn', 'experimental.stop_if_higher_hook':\n"
        "    script = jedi.Script(f'import estimand as est\\nest.{name}(')\n"
        "    (signature,) = script.get_signatures()\n"
        "    print(signature.params[1].name)"
    )
    assert run_python(program).split() == ["model_dir", "batch_size", "metric_name"]


def test_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="estimand has no public name 'Estimater'") as caught:
        est.Estimater  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("Estimater", est)


def test_import_does_not_load_tensorflow() -> None:
    program = "import sys, estimand; print('tensorflow' in sys.modules, 'numpy' in sys.modules)"
    assert run_python(program) == "False False"


def test_no_public_name_loads_more_of_keras_than_tensorflow_does() -> None:
    program = (
        "import sys, tensorflow, estimand\n"
        "before = {name for name in sys.modules if name.startswith('keras')}\n"
        "names = [getattr(estimand, name) for name in estimand.__all__]\n"
        "after = {name for name in sys.modules if name.startswith('keras')}\n"
        "print(len(names) > 0, sorted(after - before))"
    )
    assert run_python(program) == "True []"
