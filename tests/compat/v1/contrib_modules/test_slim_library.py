"""Where tf_slim is installed, the parts of contrib that live on in it are found in contrib."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.compat.v1 import contrib


@pytest.fixture
def tf_slim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A small one."""
    package = tmp_path / "tf_slim"
    (package / "nets").mkdir(parents=True)
    (package / "layers").mkdir()
    (package / "__init__.py").write_text("arg_scope = 'scope of tf_slim'\n")
    (package / "nets" / "__init__.py").write_text("from tf_slim.nets import vgg\n")
    (package / "nets" / "vgg.py").write_text("vgg_16 = 16\n")
    (package / "layers" / "__init__.py").write_text("rev_block = flatten = 'of tf_slim'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    before = {name: sys.modules.pop(name) for name in _loaded()}
    yield
    for name in _loaded():
        del sys.modules[name]
    sys.modules.update(before)


def _loaded() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "tf_slim"]


@pytest.mark.usefixtures("tf_slim")
def test_slim_is_the_library() -> None:
    modules = contrib.modules()
    slim = modules["tensorflow.contrib.slim"]
    assert slim.arg_scope == "scope of tf_slim"
    assert slim.nets.vgg.vgg_16 == 16
    assert modules["tensorflow.contrib.slim.nets.vgg"].vgg_16 == 16
    assert slim.python.slim.nets.vgg.vgg_16 == 16


@pytest.mark.usefixtures("tf_slim")
def test_layers_have_what_is_written_here_first() -> None:
    layers = contrib.modules()["tensorflow.contrib.layers"]
    assert layers.rev_block == "of tf_slim"
    assert layers.flatten != "of tf_slim"
    with pytest.raises(AttributeError, match="has no attribute 'bow_decoder'"):
        layers.bow_decoder  # noqa: B018


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf_slim", None)
    slim = contrib.modules()["tensorflow.contrib.slim"]
    with pytest.raises(AttributeError, match=r"no attribute 'train_step'.*pip install tf-slim"):
        slim.learning.train_step  # noqa: B018
