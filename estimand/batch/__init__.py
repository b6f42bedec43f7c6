"""Jobs on all rows of many files, in several processes, resumable: predicting, making records.

`plan.py` writes down what is to be done, `carrying_out.py` does it: `processes.py` hands shards to
processes (`worker.py`), `on_ray.py` to those of a Ray cluster, and `shards.py` does one. What is
made of its rows is the task's: `predict_task.py` (with `answering.py` and `writing.py`) and
`records_task.py` (with `statistics.py`). `chunks.py` reads rows.
"""

from estimand.batch.making_records import RecordsMade as RecordsMade
from estimand.batch.making_records import make_records as make_records
from estimand.batch.predicting import Predicted as Predicted
from estimand.batch.predicting import predict as predict

__all__ = ["Predicted", "RecordsMade", "make_records", "predict"]
