"""What TensorBoard can show besides the curves of a training, written for it.

`writing.py` puts it into one event file of the model_dir: the scalars laid out by group
(`layout.py`), the parameters, the model card, and what the model gets wrong (`answers.py`).
`projector.py` names the embeddings. All of it goes through TensorBoard's own functions.
"""

from estimand.report.board.writing import write as write
