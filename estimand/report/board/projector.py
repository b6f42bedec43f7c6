"""The embeddings of a checkpoint, named for TensorBoard's projector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.core.files.atomic_files import replace_text
from estimand.engine.checkpoints import files

CONFIG = "projector_config.pbtxt"
_ENDINGS = ("embedding_weights", "embeddings", "embedding")


def embeddings(model_dir: str) -> dict[str, int]:
    """The tables of the newest checkpoint that hold embeddings, and how many rows they have."""
    checkpoint = files.latest_checkpoint(model_dir)
    if checkpoint is None:
        return {}
    shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    return {
        name: shape[0]
        for name, shape in sorted(shapes.items())
        if len(shape) == 2 and name.endswith(_ENDINGS)
    }


def write(model_dir: str, words: Mapping[str, str | os.PathLike[str]]) -> list[str]:
    """Name the embeddings in the projector's configuration; what is there of others stays.

    Args:
      model_dir: TensorBoard reads the newest checkpoint of it by itself.
      words: part of the name of an embedding -> the file of its vocabulary, a word a line.

    Returns:
      The names of the embeddings.

    Raises:
      ConfigError: no embedding has such a name.
    """
    from google.protobuf import text_format
    from tensorboard.plugins.projector import ProjectorConfig

    tables = embeddings(model_dir)
    unknown = [part for part in words if not any(part in name for name in tables)]
    if unknown:
        raise ConfigError(
            f"Words are given for {unknown[0]!r}, and no embedding in {model_dir!r} has that in "
            f"its name; there are: {', '.join(tables) or 'none'}."
        )
    path = os.path.join(model_dir, CONFIG)
    config: Any = ProjectorConfig()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text_format.Parse(file.read(), config)
    named = {embedding.tensor_name: embedding for embedding in config.embeddings}
    for name, rows in tables.items():
        entry = named.get(name) or config.embeddings.add(tensor_name=name)
        for part, vocabulary in words.items():
            if part in name:
                entry.metadata_path = _metadata(model_dir, name, rows, vocabulary)
    if config.embeddings:
        replace_text(path, text_format.MessageToString(config))
    return list(tables)


def _metadata(model_dir: str, name: str, rows: int, vocabulary: str | os.PathLike[str]) -> str:
    """A line for each row of the table, as the projector wants it; returns the file's name."""
    with open(vocabulary, encoding="utf-8") as file:
        words = [line.strip().replace("\t", " ") or "(empty)" for line in file][:rows]
    words += [f"(out of vocabulary {k})" for k in range(rows - len(words))]
    made = f"projector_{name.replace('/', '_')}.tsv"
    replace_text(os.path.join(model_dir, made), "\n".join(words) + "\n")
    return made
