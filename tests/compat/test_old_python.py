"""What Python has dropped, for code that still uses it."""

from __future__ import annotations

import base64
import collections
import inspect
import threading
import time

import pytest

from estimand.compat.install import installed
from estimand.compat.old_python import getargspec


def test_names_are_there_while_installed_and_gone_after() -> None:
    before = hasattr(inspect, "getargspec"), hasattr(collections, "Mapping")
    with installed():
        assert isinstance({}, collections.Mapping)  # type: ignore[attr-defined]
        spec = inspect.getargspec(lambda features, mode, **more: None)  # type: ignore[attr-defined]
        assert spec.args == ["features", "mode"] and spec.keywords == "more"
        assert time.clock() <= time.clock()  # type: ignore[attr-defined]
        assert threading.main_thread().isAlive()  # type: ignore[attr-defined]
        assert base64.encodestring(b"a") == b"YQ==\n"  # type: ignore[attr-defined]
    assert not hasattr(threading.Thread, "isAlive")
    assert before == (hasattr(inspect, "getargspec"), hasattr(collections, "Mapping"))


def test_getargspec_refuses_what_it_cannot_tell() -> None:
    def keyword_only(x, *, y):  # type: ignore[no-untyped-def]
        del x, y

    with pytest.raises(ValueError, match=r"keyword-only.*getfullargspec"):
        getargspec(keyword_only)
