"""`tf.contrib.layers`: rows of tables, looked up by dense and sparse ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> tf.Tensor:
    """Rows of a table for sequences of ids; its variable is `EmbedSequence/embeddings`."""
    del unique  # the gradient of a lookup is sparse either way
    if not (reuse or (vocab_size and embed_dim)):
        raise ConfigError(
            f"Must specify vocab size and embedding dimension when not reusing. Got "
            f"vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = v1.get_variable("embeddings", shape, None, initializer, regularizer, trainable)
        return tf.nn.embedding_lookup(table, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> tf.Tensor:
    """The mean of the rows of each example's ids; its variable is `bow_encoder/embeddings`."""
    with v1.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        table = v1.get_variable("embeddings", shape, None, initializer, regularizer, trainable)
        if isinstance(ids, tf.SparseTensor):
            return v1.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean")
        del sparse_lookup  # the result is the same
        return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> tf.Tensor:
    """Each row is looked up once, however often its id is there."""
    with v1.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        once, places = tf.unique(tf.reshape(ids, [-1]))
        rows = v1.nn.embedding_lookup(params, once, partition_strategy)
        shape = tf.concat([tf.shape(ids), tf.shape(rows)[1:]], 0)
        embedded = tf.reshape(tf.gather(rows, places), shape)
        embedded.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return embedded


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> tf.Tensor:
    """Rows of sparse ids combined; zeros, or the row of `default_id`, where there are none."""
    return v1.nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


def sparse_feature_cross(
    inputs: Sequence[Any],
    hashed_output: bool = False,
    num_buckets: int = 0,
    name: str | None = None,
    hash_key: Any = None,
) -> tf.SparseTensor:
    """All combinations of features, one of each input: as text, or hashed."""
    if not hashed_output:
        return tf.sparse.cross(inputs, name=name)
    if hash_key is None:
        return tf.sparse.cross_hashed(inputs, num_buckets, name=name)
    return tf.sparse.cross_hashed(inputs, num_buckets, hash_key, name=name)
