"""EasyTransfer's command line: a convolutional classifier of made-up texts, and its export."""

import os
import random
import runpy
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
random.seed(0)
WORDS = {"0": ["bad", "poor", "sad"], "1": ["good", "nice", "fine"]}


def write(name, count):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        for _ in range(count):
            label = random.choice("01")
            text = " ".join(random.choice(WORDS[label]) for _ in range(6))
            file.write(f"{text}\t{label}\n")
    return path


train, dev = write("train.csv", 120), write("dev.csv", 40)
flags = dict(
    mode="train",
    inputTable=f"{train},{dev}",
    inputSchema="content:str:1,label:str:1",
    firstSequence="content",
    labelName="label",
    labelEnumerateValues="0,1",
    checkpointDir=os.path.join(folder, "model"),
    modelName="text_classify_cnn",
    numEpochs=3,
    sequenceLength=16,
    learningRate=0.01,
    batchSize=16,
)
sys.argv = ["app_zoo_cli", *(f"--{name}={value}" for name, value in flags.items())]
runpy.run_module("easytransfer.app_zoo_cli", run_name="__main__")
assert os.path.exists(os.path.join(folder, "model", "saved_model.pb"))
