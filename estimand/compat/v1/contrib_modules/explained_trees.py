"""`experimental_predict_with_explanations` and `experimental_feature_importances`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from estimand.canned.forest import explanations
from estimand.canned.forest.table import Column, noted_columns
from estimand.core.errors import ConfigError
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator

_COLUMN = "estimand_column_{}"


class ExplainedTrees:
    """What boosted trees of TensorFlow 1 tell of themselves."""

    def experimental_feature_importances(self: Any, normalize: bool = False) -> dict[str, float]:
        """How much the splits by each feature lowered the loss, the largest first."""
        columns = noted_columns(self._folder_of_model())
        return explanations.importances(self.ydf_model(), columns, normalize=normalize)

    def experimental_predict_with_explanations(
        self: Any,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yields what `predict` does and, of each row, `bias` and `dfc`.

        `dfc` has the contribution of each feature: to the probability of class 1, or to the
        number that is predicted. Together with `bias` they are the prediction.
        """
        if (self._n_classes or 2) > 2:
            raise ConfigError(
                "experimental_predict_with_explanations takes classifiers of 2 classes, and "
                f"regressors; this one has {self._n_classes}. Of more classes "
                "est.explain(model, rows, method='shapley') tells."
            )
        model = self.ydf_model()
        columns: list[Column] = []

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            spec = self.model_fn(features, labels, mode, config)
            columns[:], values = self._columns(features)
            seen = {_COLUMN.format(i): value for i, value in enumerate(values)}
            return EstimatorSpec(mode, predictions={**spec.predictions, **seen})

        beside = Estimator(model_fn, self.model_dir, self.config)
        batches = beside.predict(
            input_fn, None, hooks, checkpoint_path, yield_single_examples=False
        )
        for batch in batches:
            table = [batch.pop(_COLUMN.format(i)) for i in range(len(columns))]
            explained = explanations.explain(
                model, columns, table, as_probability=self._n_classes is not None
            )
            kept = {k: v for k, v in batch.items() if predict_keys is None or k in predict_keys}
            for row, told in enumerate(explained.rows()):
                yield {**{key: values[row] for key, values in kept.items()}, **told}
