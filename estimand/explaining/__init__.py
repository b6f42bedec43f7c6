"""What a model's answers rest on: `explain`, for exports and estimators.

`asking.py` makes of either a function of columns, `explain.py` asks it with changed ones.
"""

from estimand.explaining.explain import Explanation as Explanation
from estimand.explaining.explain import explain as explain
