"""MLflow: runs, and exported models that `mlflow.pyfunc` loads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from estimand.core.errors import MissingExtraError
from estimand.tracking.tracker import FAILED, FINISHED, INTERRUPTED

_STATUS = {FINISHED: "FINISHED", FAILED: "FAILED", INTERRUPTED: "KILLED"}
_MODEL_FILE = "saved_model.pb"
_LONGEST_PARAM = 6000


class MLflow:
    """Runs on a tracking server of MLflow, or in a SQLite file.

    Exported models are logged with the signature of their SavedModel; `mlflow.pyfunc.load_model`
    loads them, and they answer DataFrames and dicts of arrays. Those that take tf.Examples answer
    DataFrames and lists of dicts, which MLflow does not check.

    Args:
      tracking_uri: `http://host:5000`, `sqlite:///runs/mlflow.db`; None: what the environment says.
      experiment: its name; it is made if there is none.
      registered_name: also make the model a version of this name in the registry.

    >>> import estimand as est
    >>> tracker = est.tracking.MLflow("http://localhost:5000", "census", registered_name="census")
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        experiment: str = "Default",
        registered_name: str | None = None,
    ) -> None:
        self.tracking_uri = tracking_uri
        self.experiment = experiment
        self.registered_name = registered_name
        self._client: Any = None
        self._run = ""

    def start(self, run_id: str | None, name: str) -> str:
        mlflow = _mlflow()
        self._client = mlflow.MlflowClient(self.tracking_uri, self.tracking_uri)
        if run_id is not None and _exists(self._client, run_id):
            self._client.update_run(run_id, status="RUNNING")
            self._run = run_id
            return run_id
        experiment = self._client.get_experiment_by_name(self.experiment)
        where = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(self.experiment)
        )
        self._run = self._client.create_run(where, run_name=name).info.run_id
        return self._run

    def params(self, values: Mapping[str, Any]) -> None:
        # A parameter cannot be changed: a run that goes on keeps those it has.
        there = self._client.get_run(self._run).data.params
        for name, value in values.items():
            if name not in there:
                self._client.log_param(self._run, name, str(value)[:_LONGEST_PARAM])

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        self._client.log_batch(
            self._run, [Metric(name, value, now, step) for name, value in values.items()]
        )

    def artifact(self, path: str, name: str) -> None:
        if not os.path.exists(os.path.join(path, _MODEL_FILE)):
            self._client.log_artifact(self._run, path, name)
            return
        self._log_model(path, name)

    def end(self, status: str) -> None:
        self._client.set_terminated(self._run, _STATUS[status])

    def _log_model(self, path: str, name: str) -> None:
        """As files of the run: so the registry and `runs:/ID/name` both find it."""
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, name)
            save_model(path, target)
            self._client.log_artifacts(self._run, target, name)
        if self.registered_name is None:
            return
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(self.registered_name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        source = f"{self._client.get_run(self._run).info.artifact_uri}/{name}"
        self._client.create_model_version(self.registered_name, source, self._run)


def save_model(export: str, path: str) -> None:
    """An export as a folder that `mlflow.pyfunc.load_model` loads."""
    from estimand.core.version import __version__
    from estimand.export.loaded.loading import load_model

    mlflow = _mlflow()
    with load_model(export) as model:
        signature = _signature(model.default, takes_rows=bool(model.features))
    mlflow.pyfunc.save_model(
        path,
        loader_module="estimand.tracking.mlflow",
        data_path=export,
        signature=signature,
        pip_requirements=[f"estimand=={__version__}"],
    )


def _load_pyfunc(data_path: str) -> _Loaded:
    """What MLflow calls to load a model; the name is its own."""
    return _Loaded(data_path)


class _Loaded:
    """A loaded export, asked in MLflow's way."""

    def __init__(self, path: str) -> None:
        from estimand.export.loaded.loading import load_model

        self._model = load_model(path)

    def predict(self, model_input: Any, params: Any = None) -> dict[str, np.ndarray]:
        """The default signature's answers, by name; rows are a DataFrame or a list of dicts."""
        if hasattr(model_input, "columns"):
            inputs = self._model.default.inputs
            if list(inputs) != ["examples"] and set(inputs) == set(model_input.columns):
                model_input = {name: _column(model_input[name]) for name in inputs}
        return self._model(model_input)


def _column(values: Any) -> np.ndarray:
    """Also of lists, one for each row."""
    return np.array(values.tolist())


def _signature(signature: Any, takes_rows: bool) -> Any:
    """Types and shapes of a SavedModel's signature, as MLflow has them.

    One that takes tf.Examples has no inputs to check: MLflow would refuse rows of its features,
    some of which may be missing.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def schema(infos: Mapping[str, Any]) -> Any:
        return Schema(
            [
                TensorSpec(_dtype(info.dtype), _shape(info.shape), name)
                for name, info in infos.items()
            ]
        )

    is_text = [info.dtype == "string" for info in signature.inputs.values()] == [True]
    inputs = None if takes_rows and is_text else schema(signature.inputs)
    return ModelSignature(inputs=inputs, outputs=schema(signature.outputs))


def _dtype(name: str) -> np.dtype:
    return np.dtype(object) if name == "string" else np.dtype(name)


def _shape(shape: tuple[int | None, ...] | None) -> tuple[int, ...]:
    return (-1,) if shape is None else tuple(-1 if size is None else size for size in shape)


def _exists(client: Any, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id).info.lifecycle_stage == "active"
    except MlflowException:
        return False


def _mlflow() -> Any:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError as error:
        raise MissingExtraError("tracking with MLflow", "mlflow") from error
    return mlflow
