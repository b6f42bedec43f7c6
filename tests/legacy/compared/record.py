"""Writes numbers.json: what the programs beside this file print with tf.estimator 2.15.

python tests/legacy/compared/record.py, with an interpreter that has tensorflow==2.15.1
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

numbers = {}
for program in sorted(HERE.glob("*.py")):
    if program.name in ("record.py", "conftest.py"):
        continue
    with tempfile.TemporaryDirectory() as model_dir:
        command = [sys.executable, str(program), model_dir]
        printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    numbers[program.stem] = json.loads(printed)
(HERE / "numbers.json").write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n")
