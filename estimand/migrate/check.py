"""One verdict per use, per file, per code base."""

from __future__ import annotations

import ast
import enum
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from estimand.compat import detection, old_numpy, old_python
from estimand.core.errors import InputError
from estimand.migrate import python2
from estimand.migrate.hints import hint
from estimand.migrate.idioms import find_idioms
from estimand.migrate.names import NameHome, Names
from estimand.migrate.uses import Target, Use, find_uses

_SKIPPED_FOLDERS = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
_INSTALLS = re.compile(r"(^|;)\s*(estimand|est)\.install\(|run_script\(", re.MULTILINE)


class Verdict(enum.Enum):
    """What has to be done for something to run, the most work last."""

    AS_IT_IS = "runs as it is"
    RUN = "runs under `estimand run`"
    CHANGE = "needs a change"


@dataclass(frozen=True)
class Finding:
    """What is to be said of one line."""

    line: int
    text: str
    verdict: Verdict
    advice: str = ""


@dataclass
class FileReport:
    """What is to be said of one file."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    # Whether `estimand run` gives it TensorFlow 1.
    v1: bool = False

    @property
    def verdict(self) -> Verdict:
        verdicts = {finding.verdict for finding in self.findings}
        return next((v for v in reversed(Verdict) if v in verdicts), Verdict.AS_IT_IS)

    @property
    def how(self) -> str:
        """What has to be done beside changes."""
        if self.verdict is Verdict.AS_IT_IS:
            return "nothing"
        line = "from estimand.compat.v1.view import tf" if self.v1 else "estimand.install()"
        return f"estimand run, or in the program: {line}"

    @property
    def uses_tensorflow(self) -> bool:
        return bool(self.findings)

    def count(self, verdict: Verdict) -> int:
        return sum(finding.verdict is verdict for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "path": self.path,
            "verdict": self.verdict.name.lower(),
            "tensorflow": 1 if self.v1 else 2,
            "how": self.how,
            "findings": [
                {
                    "line": finding.line,
                    "name": finding.text,
                    "verdict": finding.verdict.name.lower(),
                    "advice": finding.advice,
                }
                for finding in self.findings
            ],
        }


def check_path(path: str | os.PathLike[str], names: Names | None = None) -> list[FileReport]:
    """Read a file, or all Python files below a directory, and say what has to be done."""
    names = names or Names()
    files = list(python_files(os.fspath(path)))
    if not files:
        raise InputError(f"{os.fspath(path)!r} has no Python files (*.py) to be checked.")
    return [_check_file(file, names) for file in files]


def check_source(source: str, path: str = "<source>", names: Names | None = None) -> FileReport:
    """Read a program and say what has to be done, line by line.

    >>> report = check_source('''
    ... import tensorflow as tf
    ... forest = tf.estimator.BoostedTreesEstimator([], 1)
    ... ''')
    >>> [(one.line, one.text) for one in report.findings if one.verdict is Verdict.CHANGE]
    [(3, 'tf.estimator.BoostedTreesEstimator')]
    """
    names = names or Names()
    report = FileReport(path)
    try:
        source_uses = find_uses(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        text = f"no Python 3: {getattr(error, 'msg', error)}"
        python2 = any(word in text for word in ("parentheses", "octal", "multiple exception"))
        advice = "it is Python 2: convert it, as 2to3 did" if python2 else "mend it first"
        report.findings.append(Finding(line, text, Verdict.CHANGE, advice))
        return report
    report.v1 = wants_v1(source, names)
    in_place = _INSTALLS.search(source) is not None
    findings = {_judged(use, report.v1, in_place, names) for use in source_uses.uses}
    findings |= {
        Finding(idiom.line, idiom.text, Verdict.CHANGE, idiom.advice)
        for idiom in find_idioms(source_uses, names)
    }
    findings |= set(_of_numpy(source)) | set(_of_python(source))
    findings |= set(_of_python2(source_uses.tree, report.v1))
    report.findings = sorted(findings, key=lambda finding: (finding.line, finding.text))
    return report


def _of_numpy(source: str) -> Iterator[Finding]:
    """What NumPy has dropped: `estimand run` gives it back to the files of the program."""
    advice = "NumPy has dropped it; estimand migrate fix rewrites it"
    for line, name in old_numpy.old_names(source):
        yield Finding(line, f"np.{name}", Verdict.RUN, advice)
    for line, function, argument in old_numpy.old_arguments(source):
        yield Finding(line, f"np.{function}({argument}=...)", Verdict.RUN, advice)


def _of_python(source: str) -> Iterator[Finding]:
    """What Python has dropped: `estimand run` and `install()` give it back."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            today = old_python.written_today(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and len(node.names) == 1:
            today = old_python.written_today(f"{node.module}.{node.names[0].name}")
        else:
            continue
        if today:
            advice = f"Python has dropped it; today: {today}"
            yield Finding(node.lineno, ast.unparse(node), Verdict.RUN, advice)


def _of_python2(tree: ast.Module, v1: bool) -> Iterator[Finding]:
    """What is left of Python 2: some of it `estimand run` gives to files of TensorFlow 1."""
    for one in python2.remnants(tree):
        verdict = Verdict.RUN if one.given_back and v1 else Verdict.CHANGE
        yield Finding(one.node.lineno, one.text, verdict, one.advice)


def wants_v1(source: str, names: Names) -> bool:
    """Whether `estimand run` would give the file TensorFlow 1."""
    return any(
        not name.startswith("keras.")
        and names.find(Target(f"tensorflow.{name}", of_tf=True), True) is not NameHome.NOWHERE
        and not names.has_attribute(name)
        for name in detection.names_of_tensorflow(source)
    )


def python_files(path: str) -> Iterator[str]:
    """The file itself, or those below a directory, without what others have written."""
    if os.path.isfile(path):
        yield path
        return
    if not os.path.isdir(path):
        raise InputError(f"There is no file or directory {path!r} to be checked.")
    for folder, inside, files in os.walk(path):
        inside[:] = sorted(
            name for name in inside if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        )
        yield from (os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))


def summary(reports: list[FileReport]) -> Counter[Verdict]:
    """How many files of each verdict; those without TensorFlow do not count."""
    return Counter(report.verdict for report in reports if report.uses_tensorflow)


def _check_file(path: str, names: Names) -> FileReport:
    try:
        with open(path, encoding="utf-8-sig") as file:
            source = file.read()
    except (OSError, UnicodeDecodeError) as error:
        finding = Finding(1, "cannot be read", Verdict.CHANGE, str(error))
        return FileReport(path, [finding])
    return check_source(source, path, names)


def _judged(use: Use, v1: bool, in_place: bool, names: Names) -> Finding:
    answer = names.find(use.target, v1)
    if answer is NameHome.NOWHERE:
        advice = f"instead: {hint(use.target.path, names)}"
        return Finding(use.line, use.text, Verdict.CHANGE, advice)
    if (answer is NameHome.SUPPLIED and not in_place) or (v1 and _only_v1(use, names)):
        return Finding(use.line, use.text, Verdict.RUN)
    return Finding(use.line, use.text, Verdict.AS_IT_IS)


def _only_v1(use: Use, names: Names) -> bool:
    below = use.target.path.partition(".")[2]
    return use.target.of_tf and not names.has_attribute(below)
