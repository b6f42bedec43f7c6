"""docs/migration_names.md says of each old name what the package really does with it."""

from __future__ import annotations

from docs.tools import migration_names
from docs.tools.migration_names import becomes, listed


def test_page_is_current() -> None:
    said = "It is not current; run: make docs-write"
    assert migration_names.PAGE.read_text() == migration_names.page(), said


def test_every_name_of_tf_estimator_has_something() -> None:
    assert [path for path in listed("estimator") if becomes(path) == "gone"] == []
    assert len(listed("estimator")) > 90


def test_verdicts_are_those_of_the_package() -> None:
    assert becomes("estimator.DNNClassifier") == "as it is; `est.DNNClassifier`"
    assert becomes("contrib.layers.fully_connected") == "as it is"
    replaced = "gone; perhaps `tf.dequantize`; mind its arguments"
    assert becomes("contrib.quantization.dequantize") == replaced
    assert becomes("contrib.ffmpeg.decode_audio") == "gone"


def test_a_name_that_only_looks_alike_is_no_replacement() -> None:
    assert becomes("contrib.cluster_resolver.SlurmClusterResolver") == "gone"
