"""One tree of exceptions.

Every error raised on purpose is an `EstimandError`. Each also inherits from the built-in type
that `tf.estimator` raised at the same place, so old `except ValueError:` clauses keep working.

>>> issubclass(ConfigError, ValueError) and issubclass(ConfigError, EstimandError)
True
"""

from __future__ import annotations


class EstimandError(Exception):
    """Root of everything this package raises on purpose."""


class ConfigError(EstimandError, ValueError):
    """A `RunConfig`, `TF_CONFIG` or hyperparameter that cannot be used."""


class SpecError(EstimandError, ValueError):
    """An `EstimatorSpec`, `TrainSpec`, `EvalSpec` or export output with an unusable value."""


class SpecTypeError(EstimandError, TypeError):
    """An `EstimatorSpec`, `TrainSpec`, `EvalSpec` or export output with a value of a wrong type."""


class InputError(EstimandError, ValueError):
    """What an `input_fn` returned cannot be turned into batches."""


class ModelFnError(EstimandError, ValueError):
    """A `model_fn` has a wrong signature, or returned something that is not a usable spec."""


class UnknownKeyError(EstimandError, KeyError):
    """A dict has no such key: features, params, metrics, signatures.

    >>> str(UnknownKeyError("There is no feature 'agee'."))
    "There is no feature 'agee'."
    """

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would quote it


class HeadError(EstimandError, ValueError):
    """A head was made with, or given, something it cannot use: labels, logits, weights."""


class HeadTypeError(EstimandError, TypeError):
    """A head was given something of a wrong type."""


class CheckpointError(EstimandError, ValueError):
    """A checkpoint is missing, incomplete, or does not fit the model."""


class NoCheckpointError(CheckpointError):
    """There is no trained model where one is needed."""


class CheckpointWriteError(EstimandError, OSError):
    """A checkpoint could not be written: disk full, permission, vanished directory."""


class ExportWriteError(EstimandError, OSError):
    """An exported model could not be written: permission, disk full, a file in the way."""


class ConversionError(EstimandError, ValueError):
    """An exported model cannot be had in the form that was asked for."""


class NoModelError(EstimandError, FileNotFoundError):
    """There is no exported model where one is to be loaded from."""


class ModelDirBusyError(EstimandError, RuntimeError):
    """Another process is training in the same `model_dir`."""


class ModelBusyError(EstimandError, RuntimeError):
    """Another call in this process uses the same model, in a way that allows no second one."""


class BatchError(EstimandError, RuntimeError):
    """A job of `est.batch.predict` is not complete; calling it again goes on with it."""


class ClusterError(EstimandError, RuntimeError):
    """The processes of a cluster did not find each other, or one of them was lost."""


class WarmStartError(EstimandError, ValueError):
    """Warm-starting was asked for in a way that cannot be carried out."""


class FeatureColumnError(EstimandError, ValueError):
    """A feature column that cannot be used, or features that do not fit their columns."""


class MissingExtraError(EstimandError, ImportError):
    """An optional dependency is needed; the message says which command installs it.

    >>> print(MissingExtraError("reading parquet", "parquet", "pyarrow"))
    reading parquet needs 'pyarrow', which is not installed. Run: pip install 'estimand[parquet]'
    """

    def __init__(self, purpose: str, extra: str, package: str | None = None) -> None:
        self.purpose = purpose
        self.extra = extra
        self.package = package or extra
        super().__init__(
            f"{purpose} needs {self.package!r}, which is not installed. "
            f"Run: pip install 'estimand[{extra}]'",
            name=self.package,
        )

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        # Exceptions pickle by replaying `args`, which here is the finished message.
        return type(self), (self.purpose, self.extra, self.package)
