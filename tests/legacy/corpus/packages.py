"""The published packages whose own Estimator tests and programs `make corpus` runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A package, what it needs beside Estimand, and what of it is run.

    Attributes:
        name: what pip calls it.
        version: the release that is run.
        needs: what it imports, with versions; installed without their dependencies.
        tests: files and folders of its own tests, below the place where it is installed.
        program: instead of tests, a program of `programs/` here that uses the package as its
            documentation shows.
        keras: which Keras `tf.keras` is to be; None lets `estimand run` choose.
    """

    name: str
    version: str
    needs: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    program: str | None = None
    keras: int | None = None


_PROBABILITY = ("tensorflow-probability==0.25.0", "dm-tree==0.1.10", "decorator==5.3.1",
                "cloudpickle==3.1.2", "gast==0.7.0", "attrs==26.1.0")  # fmt: skip
_DATASETS = ("tensorflow-datasets==3.2.1", "tensorflow-metadata==1.21.0", "dill==0.4.1",
             "promise==2.3", "future==1.0.0", "tqdm==4.67.1")  # fmt: skip
_GAN = (*_PROBABILITY, *_DATASETS, "tensorflow-hub==0.16.1")
_OF_TENSOR2TENSOR = (*_DATASETS, "tensorflow-hub==0.16.1", "mesh-tensorflow==0.1.21",
                     "tensorflow-gan==2.1.0", "gym==0.14.0", "bz2file==0.98",
                     "tf-slim==1.1.0", "kfac==0.2.4", "gin-config",
                     "sympy", "mpmath", "Pillow", "scipy", "flask", "oauth2client", "httplib2",
                     "google-api-python-client", "pyglet", "pypng")  # fmt: skip

PACKAGES = (
    Package("adanet", "0.9.0", program="adanet_ensembles.py"),
    Package(
        "tensorflow-gan",
        "2.1.0",
        _GAN,
        ("tensorflow_gan/python/estimator", "tensorflow_gan/python/train_test.py"),
        keras=2,
    ),
    Package(
        "tensorflow-privacy",
        "0.8.12",
        (*_PROBABILITY, "dp-accounting==0.4.4", "mpmath==1.4.1", "immutabledict==4.3.1"),
        ("tensorflow_privacy/privacy/estimators",),
        keras=2,
    ),
    Package(
        "neural-structured-learning",
        "1.4.0",
        ("attrs==26.1.0",),
        ("neural_structured_learning/estimator",),
        keras=2,
    ),
    Package(
        "tensorflow-ranking",
        "0.5.5",
        program="ranking_groupwise.py",
        keras=2,
    ),
    Package("deepctr", "0.9.4", program="deepctr_click_rates.py"),
    Package(
        "OpenNMT-tf",
        "1.25.3",
        ("pyonmttok", "pyyaml", "rouge", "sacrebleu", "portalocker"),
        program="opennmt_reversing.py",
        keras=2,
    ),
    Package("bert-tensorflow", "1.0.4", ("six==1.17.0",), ("bert",)),
    Package(
        "tf-slim",
        "1.1.0",
        tests=(
            "tf_slim/layers",
            "tf_slim/training",
            "tf_slim/learning_test.py",
            "tf_slim/ops",
        ),
    ),
    Package(
        "tensor2tensor",
        "1.15.7",
        (*_PROBABILITY, *_OF_TENSOR2TENSOR),
        (
            "tensor2tensor/utils/trainer_lib_test.py",
            "tensor2tensor/utils/data_reader_test.py",
            "tensor2tensor/utils/metrics_test.py",
            "tensor2tensor/utils/optimize_test.py",
            "tensor2tensor/utils/checkpoint_compatibility_test.py",
            "tensor2tensor/models/basic_test.py",
            "tensor2tensor/models/lstm_test.py",
        ),
    ),
    Package(
        "recommenders",
        "1.1.1",
        program="recommenders_wide_deep.py",
    ),
    Package(
        "tapas-table-parsing",
        "0.0.1.dev0",
        (*_PROBABILITY, "tf-slim==1.1.0"),
        ("tapas/experiments/prediction_utils_test.py",),
    ),
    Package("tensorflow-hub", "0.12.0", program="hub_modules.py"),
    Package("mesh-tensorflow", "0.1.21", program="mesh_parts.py"),
    Package("easytransfer", "0.1.4", ("sentencepiece",), program="easytransfer_texts.py", keras=2),
)
