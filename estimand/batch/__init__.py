"""Batch prediction: all rows of many files, in several processes, resumable.

`plan.py` writes down what is to be done, `processes.py` hands shards to processes (`worker.py`),
`shards.py` does one: `chunks.py` reads, `answering.py` asks the model, `writing.py` writes.
"""

from estimand.batch.predicting import Predicted as Predicted
from estimand.batch.predicting import predict as predict

__all__ = ["Predicted", "predict"]
