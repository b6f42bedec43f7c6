"""Writes docs/api: a page for each group of public names, from what the package really has.

    python -m docs.tools.api_pages

mkdocstrings puts signatures and docstrings into the pages when the site is built. What is
TensorFlow's own is described in `tensorflow_names.py`. A test says when the pages are not current.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import estimand as est
from docs.tools import tensorflow_names

API = Path(__file__).resolve().parents[1] / "api"

# Page -> its title, the public names on it, and the modules whose members are on it.
GROUPS: dict[str, tuple[str, str, str]] = {
    "estimator": (
        "Estimator",
        "Estimator EstimatorSpec ModeKeys RunConfig HParams TrainSpec EvalSpec train_and_evaluate "
        "evaluate_all add_metrics minimize WarmStartSettings VocabInfo Experiment join_cluster "
        "install",
        "learn_runner compat",
    ),
    "canned": (
        "Canned models",
        "LinearClassifier LinearRegressor LinearEstimator DNNClassifier DNNRegressor DNNEstimator "
        "DNNLinearCombinedClassifier DNNLinearCombinedRegressor DNNLinearCombinedEstimator "
        "BaselineClassifier BaselineRegressor BaselineEstimator RNNClassifier RNNEstimator KMeans "
        "KNeighborsClassifier KNeighborsRegressor RandomForestClassifier RandomForestRegressor "
        "GradientBoostedTreesClassifier GradientBoostedTreesRegressor",
        "",
    ),
    "heads": (
        "Heads",
        "Head BinaryClassHead MultiClassHead MultiLabelHead RegressionHead PoissonRegressionHead "
        "LogisticRegressionHead HingeHead MultiHead SequentialHeadWrapper",
        "heads",
    ),
    "inputs": ("Input functions", "", "inputs"),
    "feature_column": (
        "Feature columns",
        "classifier_parse_example_spec regressor_parse_example_spec",
        "feature_column",
    ),
    "records": ("TFRecord files", "", "records"),
    "hooks": (
        "Hooks",
        "every CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook "
        "GlobalStepWaiterHook LoggingTensorHook NanLossDuringTrainingError NanTensorHook "
        "ProfilerHook SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook "
        "SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook",
        "hooks early_stopping",
    ),
    "export": (
        "Exporting and loading",
        "load_model explain BestExporter LatestExporter FinalExporter StepsExporter Exporter",
        "export",
    ),
    "batch": ("Batch prediction", "", "batch beam"),
    "serving": ("Serving", "", "serving"),
    "keras": ("Keras and fine-tuning", "", "keras fine_tuning"),
    "report": ("Report", "", "report"),
    "tuning": ("Tuning", "", "tuning"),
    "tracking": ("Trackers", "", "tracking"),
    "sklearn": ("scikit-learn", "", "sklearn"),
    "experimental": ("Experimental", "", "experimental"),
    "errors": ("Errors", "", "errors"),
}
TENSORFLOW = tensorflow_names.OTHERS | tensorflow_names.HOOKS | tensorflow_names.COLUMNS
NOTE = "<!-- Written by `python -m docs.tools.api_pages`; do not edit. -->\n"
# Modules without a list of their own: what of them is public.
MEMBERS = {"compat": ["v1"], "heads": None}


def members(module: str) -> list[str]:
    """The public names of a public module."""
    listed = MEMBERS.get(module)
    if listed is not None:
        return listed
    found = getattr(est, module)
    if module == "errors":
        names = [name for name, value in vars(found).items() if inspect.isclass(value)]
        return [name for name in names if issubclass(getattr(found, name), Exception)]
    return list(found.__all__)


def entries(group: str) -> Iterator[tuple[str, Any]]:
    """Path below `est` and value of everything on a page, each thing once."""
    _, names, modules = GROUPS[group]
    seen: set[int] = set()
    listed = names.split() + [
        f"{module}.{name}" for module in modules.split() for name in members(module)
    ]
    for path in listed:
        value: Any = est
        for part in path.split("."):
            value = getattr(value, part)
        if id(value) not in seen:
            seen.add(id(value))
            yield path, value


def is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("estimand")


def anchor(path: str, value: Any) -> str:
    if is_ours(value) and path.rpartition(".")[2] not in TENSORFLOW:
        return f"{value.__module__}.{value.__qualname__}"
    return f"est.{path}"


def section(path: str, value: Any) -> str:
    name = path.rpartition(".")[2]
    if isinstance(value, ModuleType):
        summary = inspect.cleandoc(value.__doc__ or "").partition("\n")[0]
        return f"## `est.{path}` {{ #est.{path} }}\n\n{summary}\n"
    if name in TENSORFLOW:
        return of_tensorflow(path, value)
    if not is_ours(value):
        raise ValueError(f"est.{path} is not of estimand: describe it in tensorflow_names.py.")
    return (
        f"::: {value.__module__}.{value.__qualname__}\n"
        f"    options:\n      heading: est.{path}\n      toc_label: {name}\n"
    )


def of_tensorflow(path: str, value: Any) -> str:
    name = path.rpartition(".")[2]
    sentence, example = TENSORFLOW[name]
    program = textwrap.dedent(example).strip()
    imports = ["import numpy as np"] if "np." in program else []
    imports += ["import tensorflow as tf"] if "tf." in program else []
    head = "\n".join(imports) + "\n\n" if imports else ""
    space = "\n" if not program.startswith("class ") else "\n\n"
    return (
        f"## `est.{path}` {{ #est.{path} }}\n\n```text\n{name}{signature(value)}\n```\n\n"
        f"{sentence}\n\n```python\n{head}import estimand as est\n{space}{program}\n```\n"
    )


def signature(value: Any) -> str:
    """The arguments; functions as defaults by their names, which have no address in them."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return "()"
    given = []
    for one in found.parameters.values():
        if one.default is inspect.Parameter.empty:
            given.append(str(one.replace(annotation=inspect.Parameter.empty)))
        else:
            default = getattr(one.default, "__name__", None) or repr(one.default)
            given.append(f"{one.name}={default}")
    return f"({', '.join(given)})"


def page(group: str) -> str:
    title, _, modules = GROUPS[group]
    parts = [f"# {title}\n", NOTE]
    for module in modules.split():
        summary = inspect.cleandoc(getattr(est, module).__doc__ or "").partition("\n")[0]
        parts.append(f"<span id='est.{module}'></span>`est.{module}`: {decapitalized(summary)}\n")
    parts += [section(path, value) for path, value in entries(group)]
    return "\n".join(parts)


def summary(path: str, value: Any) -> str:
    """The first line of its docstring, or the first sentence of what is said of it here."""
    name = path.rpartition(".")[2]
    if name in TENSORFLOW:
        return TENSORFLOW[name][0].partition(". ")[0].removesuffix(".").replace("|", "\\|")
    first = inspect.cleandoc(value.__doc__ or "").partition("\n")[0].removesuffix(".")
    return decapitalized(first) if isinstance(value, ModuleType) else first


def decapitalized(sentence: str) -> str:
    text = sentence.partition(": ")[2] if sentence.startswith("`est.") else sentence
    return text[:1].lower() + text[1:]


def index() -> str:
    lines = ["# API reference\n", NOTE]
    lines.append("Everything public, by `import estimand as est`. Nothing else is promised.\n")
    for group, (title, _, modules) in GROUPS.items():
        lines.append(f"## [{title}]({group}.md)\n")
        lines += ["| name | what it is |", "| --- | --- |"]
        for module in modules.split():
            what = summary(module, getattr(est, module))
            lines.append(f"| [`est.{module}`]({group}.md#est.{module}) | the module: {what} |")
        for path, value in entries(group):
            link = f"[`est.{path}`]({group}.md#{anchor(path, value)})"
            lines.append(f"| {link} | {summary(path, value)} |")
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """The text of each page, by the name of its file."""
    return {"index.md": index(), **{f"{group}.md": page(group) for group in GROUPS}}


if __name__ == "__main__":
    for name, text in pages().items():
        (API / name).write_text(text)
