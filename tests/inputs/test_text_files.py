"""text_input_fn: lines, classes, and lines that are not text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimand.core.errors import InputError
from estimand.inputs import text_input_fn
from tests.inputs.reading import batches, call, read_fault, skipped


def lines(path: Any, **options: Any) -> list[bytes]:
    found = batches(call(text_input_fn(path, **options), mode="eval"))
    return [line for features, _ in found for line in features["text"]]


texts = st.lists(st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), max_size=9))


@settings(max_examples=25)
@given(texts)
def test_any_lines_are_read_as_python_reads_them(tmp_path_factory: Any, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "t.txt"
    path.write_text("\n".join(["first", *texts]), encoding="utf-8")
    expected = [line.encode() for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert lines(path) == expected


def test_first_lines_comments_and_compression(tmp_path: Path) -> None:
    path = tmp_path / "t.txt.gz"
    path.write_bytes(gzip.compress(b"title\n\n% note\none\ntwo\n"))
    assert lines(path, skip_lines=1, comment="%") == [b"one", b"two"]


def test_name_of_the_feature(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("one\n")
    given = call(text_input_fn(tmp_path / "t.txt", feature_name="line"), mode="eval")
    assert batches(given) == [({"line": [b"one"]}, None)]


@pytest.fixture
def two_classes(tmp_path: Path) -> dict[str, Any]:
    for name in ("neg", "pos"):
        for part in range(2):
            rows = [f"{name} {part} {i}" for i in range(50)]
            (tmp_path / f"{name}{part}.txt").write_text("\n".join(rows))
    return {name: str(tmp_path / f"{name}*.txt") for name in ("pos", "neg")}


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_classes_of_a_dict_are_numbered_in_its_order(
    two_classes: dict[str, Any], mode: str
) -> None:
    found = batches(call(text_input_fn(two_classes, 20), mode=mode), 10)
    pairs = [
        pair for features, labels in found for pair in zip(features["text"], labels, strict=True)
    ]
    assert len(set(pairs)) == 200
    assert all((text.split()[0] == b"neg") == label for text, label in pairs)


def test_training_mixes_the_classes(two_classes: dict[str, Any]) -> None:
    read = text_input_fn(two_classes, 20, shuffle_buffer_size=30)
    [(_, labels)] = batches(call(read), 1)
    assert set(labels) == {0, 1}


BROKEN = b"one\n\ntwo\nna\xefve\nthree\n\xff\n"


def test_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(BROKEN)
    fault = read_fault(call(text_input_fn(tmp_path / "t.txt"), mode="eval"))
    assert isinstance(fault, InputError)
    assert "t.txt, line 4 is not UTF-8: byte 0xef at position 3" in str(fault)
    assert "iconv" in str(fault) and "on_error='skip'" in str(fault)


def test_lines_that_are_not_utf8_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(BROKEN)
    given = call(text_input_fn(path, on_error="skip"), mode="eval")
    assert batches(given) == [({"text": [b"one", b"two", b"three"]}, None)]
    [said] = skipped(given)
    assert said.startswith(f"Skipped 2 of 5 lines of {path}: first {path}, line 4 is not UTF-8")


def test_cut_file_is_an_error_though_its_lines_are_fine(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(30_000)))
    (tmp_path / "t.txt.gz").write_bytes(whole[:-20])
    fault = read_fault(call(text_input_fn(tmp_path / "t.txt.gz"), mode="eval"))
    assert "t.txt.gz: Compressed file ended before" in str(fault)


def test_cut_file_that_was_put_right_is_read(tmp_path: Path) -> None:
    whole = gzip.compress(b"one\n")
    path = tmp_path / "t.txt.gz"
    path.write_bytes(whole[:-4])
    given = call(text_input_fn(path), mode="eval")
    with pytest.raises(tf.errors.OpError):
        batches(given)
    path.write_bytes(whole)
    assert lines(path) == [b"one"]


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="skip_lines must be a number from 0, given: -1"):
        text_input_fn("x", skip_lines=-1)
    with pytest.raises(InputError, match="an empty dict of files"):
        text_input_fn({})(mode="eval")
    with pytest.raises(InputError, match="given as a path or a pattern, given: 3"):
        text_input_fn([3])(mode="eval")
