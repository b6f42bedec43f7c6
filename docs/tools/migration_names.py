"""Writes docs/migration_names.md: what becomes of each name of tf.estimator and its kin.

    python -m docs.tools.migration_names

The names are in `names/*.txt`: those of tf.estimator 1.15, 2.7 and 2.15 and of tf.contrib and
tf.feature_column 1.15. What becomes of each is asked of the package itself, as `estimand migrate`
asks it. A test says when the page is not current.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import Any

import estimand as est
from estimand.compat.removed import replacement
from estimand.migrate.hints import hint
from estimand.migrate.names import NameHome, Names, follow, is_missing
from estimand.migrate.uses import Target

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "migration_names.md"
NOTE = "<!-- Written by `python -m docs.tools.migration_names`; do not edit. -->"
# Where a name of tf.estimator may be in Estimand, best first.
HOMES = ("", "experimental.", "export.", "inputs.", "keras.")
INTRODUCTION = f"""# What becomes of each name

{NOTE}

Every name of `tf.estimator` (1.15, 2.7 and 2.15 together), `tf.feature_column` and `tf.contrib`
(1.15), and what becomes of it, with TensorFlow 2.21 and its Keras 3. "As it is" means: under
`estimand run`, or after `estimand.install()`, the old name works.
[`estimand migrate check`](migrate.md) answers the same for your own code, line by line.
"""


def listed(kind: str) -> list[str]:
    return (HERE / "names" / f"{kind}.txt").read_text().split()


@functools.cache
def names() -> Names:
    return Names()


def becomes(path: str) -> str:
    """One sentence: what becomes of a path below `tf`."""
    found = {
        names().find(Target(f"tensorflow.{path}", of_tf), v1)
        for of_tf, v1 in ((False, False), (True, True))
    }
    verdict = "gone" if found == {NameHome.NOWHERE} else "as it is"
    ours = public_name(path)
    instead = f"`{ours}`" if ours else replacement(path)
    if instead is None and verdict == "gone":
        instead = namesake(path)
    return f"{verdict}; {linked(instead)}" if instead else verdict


def namesake(path: str) -> str | None:
    """What has the same name elsewhere in TensorFlow; names that only look alike do not count."""
    said = hint(f"tensorflow.{path}", names())
    return said if said.endswith("mind its arguments") else None


def linked(text: str) -> str:
    """Names of documents as links: `docs/legacy.md` as seen from this page."""
    return re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", text)


def public_name(path: str) -> str | None:
    """The name that new code writes: `est.…`."""
    root, _, below = path.partition(".")
    if root not in ("estimator", "feature_column", "keras"):
        return None
    last = below.rpartition(".")[2]
    homes = ("feature_column.",) if root == "feature_column" else HOMES
    if root == "keras" and last != "model_to_estimator":
        homes = ("feature_column.",)
    for home in homes:
        value: Any = follow(est, f"{home}{last}")
        if not is_missing(value):
            return f"est.{home}{last}"
    return None


def table(paths: list[str]) -> list[str]:
    rows = [f"| `tf.{path}` | {becomes(path)} |" for path in paths]
    return ["| name | what becomes of it |", "| --- | --- |", *rows, ""]


def summary(kind: str) -> str:
    found = [becomes(path) for path in listed(kind)]
    works = sum(one.startswith("as it is") for one in found)
    named = sum(one.startswith("gone; ") for one in found)
    return f"| {len(found)} | {works} | {named} | {len(found) - works - named} |"


def contrib() -> list[str]:
    """A table for each part of contrib of which something is left; the others in one sentence."""
    lines, nothing = [], []
    for part, paths in itertools.groupby(listed("contrib"), key=lambda path: path.split(".")[1]):
        below = [path for path in paths if path.count(".") > 1] or [f"contrib.{part}"]
        if all(becomes(path) == "gone" for path in below):
            nothing.append(f"`tf.contrib.{part}` ({len(below)})")
        else:
            lines += [f"### tf.contrib.{part}", "", *table(below)]
    left = "Nothing takes the place of these, with the number of their names: "
    return [*lines, "### Gone altogether", "", left + ", ".join(nothing) + ".", ""]


def page() -> str:
    counts = ["| | names | as they are | something in their place | gone |", "| --- " * 5 + "|"]
    for kind in ("estimator", "feature_column", "contrib"):
        counts.append(f"| `tf.{kind}` {summary(kind)}")
    lines = [
        INTRODUCTION,
        *counts,
        "",
        "## tf.estimator",
        "",
        *table(listed("estimator")),
        "## tf.feature_column",
        "",
        *table(listed("feature_column")),
        "## tf.contrib",
        "",
        *contrib(),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
