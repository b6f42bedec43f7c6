"""csv_input_fn: what it reads, against pandas; types, defaults, order, shares."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from estimand.core.errors import InputError
from estimand.inputs import csv_input_fn, permutation
from tests.inputs.reading import batches, call

TABLE = 'age,name,score,rich\n31,Ann,0.5,0\n47,"Bo, the old",1e3,1\n5,,-7.25,0\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def rows(path: Any, mode: str = "eval", **options: Any) -> dict[str, list[Any]]:
    """All rows of one epoch, column by column, the label among them."""
    found: dict[str, list[Any]] = {}
    for features, labels in batches(call(csv_input_fn(path, **options), mode=mode)):
        columns = dict(features) | ({} if labels is None else {"(label)": labels})
        for name, values in columns.items():
            found.setdefault(name, []).extend(values)
    return found


def ids(found: list[Any]) -> list[int]:
    return [i for features, _ in found for i in features["id"]]


def as_pandas_reads(path: Path, **options: Any) -> dict[str, list[Any]]:
    frame = pd.read_csv(path, keep_default_na=False, na_values=[], **options)
    return {
        name: [v.encode() if isinstance(v, str) else v for v in frame[name].tolist()]
        for name in frame.columns
    }


# ------------------------------------------------------------------ values


def test_columns_types_and_values_are_those_pandas_reads(table: Path) -> None:
    assert rows(table) == as_pandas_reads(table)


def test_label_is_taken_out_of_the_features(table: Path) -> None:
    found = rows(table, label_name="rich")
    assert found.pop("(label)") == [0, 1, 0]
    assert "rich" not in found


def test_thousand_random_rows_equal_pandas(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "i": random.integers(-(2**40), 2**40, 1000),
            "f": random.normal(size=1000).astype(np.float32),
            "s": [f'a "{i}", b' for i in random.integers(0, 50, 1000)],
        }
    )
    frame.to_csv(tmp_path / "r.csv", index=False)
    found = rows(tmp_path / "r.csv", batch_size=77)
    assert found["i"] == frame["i"].tolist()
    assert found["f"] == frame["f"].tolist()
    assert found["s"] == [text.encode() for text in frame["s"]]


fields = st.text(st.characters(blacklist_characters="\r\n\0", codec="utf-8"), max_size=8)


@settings(max_examples=25)
@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=5))
def test_any_text_written_by_python_is_read_back(tmp_path_factory: Any, texts: Any) -> None:
    path = tmp_path_factory.mktemp("texts") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([("a", "b"), *texts])
    found = rows(path, column_defaults={"a": tf.string, "b": tf.string})
    assert found["a"] == [a.encode() for a, _ in texts]
    assert found["b"] == [b.encode() for _, b in texts]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_blank_lines_and_a_byte_order_mark_make_no_difference(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf" + end.join(["a,b", "1,x", "", "2,y", ""]).encode())
    assert rows(path) == {"a": [1, 2], "b": [b"x", b"y"]}


def test_byte_order_mark_without_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf1,x\n2,y\n")
    assert rows(path, header=False) == {"column_0": [1, 2], "column_1": [b"x", b"y"]}


def test_comments_also_before_the_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# made by hand\na,b\n1,2\n# 3,4\n#\n5,6\n")
    assert rows(path, comment="#") == as_pandas_reads(path, comment="#")


def test_other_separator_and_quotes_that_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a\tb\n1\t5" pipe\n')
    found = rows(path, field_delim="\t", use_quote_delim=False)
    assert found == {"a": [1], "b": [b'5" pipe']}


def test_compressed_by_its_ending_beside_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x\n2\n3\n"))
    assert rows(str(tmp_path / "*.csv*")) == {"x": [1, 2, 3]}


def test_zlib_when_said(tmp_path: Path) -> None:
    import zlib

    (tmp_path / "a.csv").write_bytes(zlib.compress(b"x\n1\n2\n"))
    assert rows(tmp_path / "a.csv", compression="ZLIB") == {"x": [1, 2]}


def test_files_of_a_list_come_in_its_order(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"x\n{name}\n")
    paths = [tmp_path / "c.csv", str(tmp_path / "[ab].csv")]
    assert rows(paths) == {"x": [b"c", b"a", b"b"]}


# ------------------------------------------------------------------ columns


def test_selected_columns_by_name_and_by_position(table: Path) -> None:
    assert list(rows(table, select_columns=["score", "age"])) == ["age", "score"]
    assert list(rows(table, select_columns=[3, 0])) == ["age", "rich"]


def test_names_for_files_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,2\n3,4\n")
    found = rows(tmp_path / "t.csv", header=False, column_names=["a", "b"])
    assert found == {"a": [1, 3], "b": [2, 4]}


def test_names_in_place_of_the_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    assert rows(tmp_path / "t.csv", column_names=["a", "b"]) == {"a": [1], "b": [2]}


def spec(path: Path, **options: Any) -> dict[str, tf.DType]:
    features, _ = call(csv_input_fn(path, **options), mode="eval").element_spec
    return {name: leaf.dtype for name, leaf in features.items()}


def test_types_are_inferred_from_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"i,f,s,big,empty\n1,2,3,{2**63},\n-2,.5,x,1,\n")
    assert spec(path) == {
        "i": tf.int64,
        "f": tf.float32,
        "s": tf.string,
        "big": tf.float32,
        "empty": tf.string,
    }


def test_broken_rows_say_nothing_about_types(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\nend of file\n")
    assert spec(path) == {"a": tf.int64, "b": tf.int64}


def test_few_texts_among_numbers_are_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"{n},w{n}\n" for n in range(40))
    (tmp_path / "t.csv").write_text(f"weight,word\n{rows}oops,w\n")
    csv_input_fn(tmp_path / "t.csv")(mode="train")
    csv_input_fn(tmp_path / "t.csv", column_defaults={"weight": str})(mode="train")
    [(logger, _, message)] = caplog.record_tuples
    assert logger == "estimand"
    assert "column 'weight' is read as text, because 1 of its first 41 values" in message
    assert "('oops')" in message
    assert "column_defaults={'weight': tf.float32}" in message


def test_given_types_win_over_inferred_ones(table: Path) -> None:
    wanted = {"age": float, "score": tf.float64, "rich": str, "name": np.str_}
    assert spec(table, column_defaults=wanted) == {
        "age": tf.float32,
        "score": tf.float64,
        "rich": tf.string,
        "name": tf.string,
    }


def test_defaults_as_a_list_like_make_csv_dataset(table: Path) -> None:
    defaults = [tf.int32, "nobody", tf.constant([0.0]), tf.constant([], tf.int64)]
    found = rows(table, column_defaults=defaults)
    assert found["name"] == [b"Ann", b"Bo, the old", b"nobody"]
    assert spec(table, column_defaults=defaults)["age"] == tf.int32


MISSING = "i,f,s\n1,0.5,x\n,NA,\n"


def test_defaults_stand_for_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(MISSING)
    found = rows(path, na_value="NA", column_defaults={"i": -1, "f": 9.5, "s": "none"})
    assert found == {"i": [1, -1], "f": [0.5, 9.5], "s": [b"x", b"none"]}


def test_one_default_for_all_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(MISSING)
    found = rows(path, na_value="NA", numeric_default=0)
    assert found == {"i": [1, 0], "f": [0.5, 0.0], "s": [b"x", b""]}
    found = rows(path, na_value="NA", numeric_default=math.nan)
    assert found["i"][0] == 1.0 and math.isnan(found["i"][1])


# ------------------------------------------------------------------ order


@pytest.fixture
def numbered(tmp_path: Path) -> str:
    """300 rows in three files, among them one with several blocks' worth of blank lines."""
    for part in range(3):
        lines = [str(100 * part + i) for i in range(100)]
        (tmp_path / f"part{part}.csv").write_text("id\n" + "\n".join(lines) + "\n" * (part * 900))
    return str(tmp_path / "part*.csv")


def test_evaluation_reads_once_in_order_and_training_for_ever_in_another(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=50)
    once = batches(call(read, mode="eval"))
    assert ids(once) == list(range(300))
    shuffled = ids(batches(call(read, mode="train"), 12))
    for epoch in (shuffled[:300], shuffled[300:]):
        assert sorted(epoch) == list(range(300)) and epoch != list(range(300))
    assert shuffled[:300] != shuffled[300:]


def test_batches_of_endless_input_have_a_known_size(numbered: str) -> None:
    given = call(csv_input_fn(numbered, batch_size=7), mode="train")
    assert given.element_spec[0]["id"].shape == [7]


def test_what_is_said_wins_over_the_mode(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=100, shuffle=False, num_epochs=2)
    found = batches(call(read, mode="train"))
    assert ids(found) == 2 * list(range(300))


def test_shuffling_mixes_files(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=30, shuffle_buffer_size=60)
    [(first, _)] = batches(call(read, mode="train"), 1)
    assert len({i // 100 for i in first["id"]}) > 1


def test_seed_fixes_the_order(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=300, seed=5)
    assert batches(call(read), 2) == batches(call(read), 2)


def test_epochs_in_blocks_give_the_batches_of_epochs_in_rows(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=70, seed=5, shuffle_buffer_size=40)

    def five_epochs() -> list[Any]:
        return batches(call(read, mode="train"), 21)

    with permutation.in_order(2):
        in_rows = five_epochs()
    assert five_epochs() == in_rows


def test_nothing_is_tuned_where_there_is_nothing_to_tune(numbered: str) -> None:
    assert call(csv_input_fn(numbered)).dataset.options().autotune.enabled is False


def test_smaller_last_batch_is_left_out_when_asked(numbered: str) -> None:
    read = csv_input_fn(numbered, batch_size=70, drop_remainder=True)
    sizes = [len(features["id"]) for features, _ in batches(call(read, mode="eval"))]
    assert sizes == [70] * 4


@pytest.mark.parametrize("pipelines", [2, 3, 4])
def test_shares_of_input_pipelines_are_disjoint_and_complete(numbered: str, pipelines: int) -> None:
    shares = []
    for i in range(pipelines):
        context = tf.distribute.InputContext(pipelines, i, pipelines)
        given = call(csv_input_fn(numbered), mode="eval", input_context=context)
        shares.append(ids(batches(given)))
    assert sorted(i for share in shares for i in share) == list(range(300))
    assert all(shares)


# ------------------------------------------------------------------ wrong arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, given: 0"),
        ({"num_epochs": -1}, "num_epochs must be None or an integer of at least 0, given: -1"),
        ({"shuffle": "yes"}, "shuffle must be True, False or None .*given: 'yes'"),
        ({"on_error": "ignore"}, "on_error must be 'raise' .* or 'skip' .*given: 'ignore'"),
        ({"field_delim": "||"}, r"field_delim must be one character, given: '\|\|'"),
    ],
)
def test_wrong_argument_is_told_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        csv_input_fn("no.csv", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_name": "rick"}, "label_name names 'rick', which is not a column.*'age', 'name'"),
        ({"select_columns": ["age", "x"]}, "select_columns names 'x'"),
        ({"select_columns": [0, 4]}, "positions from 0 to 3, given: .0, 4."),
        ({"column_defaults": {"x": 0, "y": 1}}, "'x', 'y', which are not columns"),
        ({"column_defaults": [0, 1]}, "2 items for 4 columns .age, name, score, rich."),
        ({"column_defaults": {"age": tf.uint8}}, "'age' cannot be read as uint8.*float32, float64"),
        ({"column_defaults": {"age": [1, 2]}}, r"column_defaults\['age'\] must be a type"),
        ({"column_names": ["a"]}, "1 names .a., but the first line of .* has 4 fields"),
        ({"column_names": list("aabc")}, "columns have the same name: 'a'"),
        ({"compression": "BZIP"}, "compression must be None .*given: 'BZIP'"),
        ({"select_columns": ["age"], "label_name": "rich"}, "label_name names 'rich'"),
    ],
)
def test_argument_that_does_not_fit_the_files(
    table: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        csv_input_fn(table, **options)(mode="eval")
