"""Estimators as models of scikit-learn: `Classifier` and `Regressor`.

They take arrays and DataFrames, and go where scikit-learn's own models go: into pipelines,
`cross_val_score`, `GridSearchCV`. scikit-learn is imported when this module is.
"""

from estimand.core.errors import MissingExtraError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtraError("est.sklearn", "sklearn", "scikit-learn") from error

from estimand.sklearn.models import Classifier as Classifier
from estimand.sklearn.models import Regressor as Regressor

__all__ = ["Classifier", "Regressor"]
