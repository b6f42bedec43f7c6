"""Which part of `tf.contrib` has which names, and where they are now: data only."""

from __future__ import annotations

from estimand.compat.module_table import Names, _at
from estimand.compat.v1.contrib_modules.table.learn import LEARN
from estimand.compat.v1.contrib_modules.table.networks import NETWORKS
from estimand.compat.v1.contrib_modules.table.tools import TOOLS

_NETS = ["alexnet", "inception", "overfeat", "resnet_utils", "resnet_v1", "resnet_v2", "vgg"]
_SLIM_DATA = ["dataset", "dataset_data_provider", "parallel_reader", "tfexample_decoder"]

# What lives on in the package tf_slim, by the part of contrib: where it is installed, its names
# are found here.
OF_TF_SLIM: dict[str, str] = {
    "framework": "tf_slim.ops.variables",
    "layers": "tf_slim.layers",
    "losses": "tf_slim.losses",
    "metrics": "tf_slim.metrics",
    "slim": "tf_slim",
    "slim.utils": "tf_slim.layers.utils",
    "layers.utils": "tf_slim.layers.utils",
    "slim.nets": "tf_slim.nets",
    "slim.data": "tf_slim.data",
    "slim.learning": "tf_slim.learning",
    "slim.losses": "tf_slim.losses",
    "training": "tf_slim.training.training",
}
OF_TF_SLIM |= {f"slim.nets.{name}": f"tf_slim.nets.{name}" for name in _NETS}
OF_TF_SLIM |= {f"slim.data.{name}": f"tf_slim.data.{name}" for name in _SLIM_DATA}
MODULES: dict[str, Names] = {path: {} for path in OF_TF_SLIM} | NETWORKS | TOOLS

# What libraries import from the modules below a part, `contrib.estimator.python.estimator.rnn`.
PRIVATE: dict[str, Names] = {
    "estimator": _at(
        "estimand.compat.private.canned_layers",
        "_DEFAULT_CLIP_NORM _DEFAULT_LEARNING_RATE _concatenate_context_input",
    )
    | _at("estimand.heads", "_MultiHead=MultiHead"),
    "framework": _at(
        "estimand.compat.v1.contrib_modules.framework.audio",
        "audio_spectrogram decode_wav encode_wav mfcc",
    ),
    # Of learn the files had what its modules have: learn_io.pandas_io, basic monitors.
    "learn": LEARN["learn.io"] | LEARN["learn.monitors"],
}
