"""A classifier in the style of BERT's run_classifier.py: flags, TPUEstimator, layer_norm."""

import tensorflow as tf

flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", None, "The output directory.")
flags.DEFINE_bool("use_tpu", False, "Whether to use TPU or GPU/CPU.")
flags.DEFINE_integer("train_batch_size", 8, "Total batch size for training.")
flags.DEFINE_integer("eval_batch_size", 4, "Total batch size for eval.")
flags.DEFINE_integer("predict_batch_size", 4, "Total batch size for predict.")
flags.DEFINE_integer("iterations_per_loop", 1000, "How many steps in each estimator call.")
flags.mark_flag_as_required("output_dir")


def get_shape_list(tensor):
    return tensor.shape.as_list()


def layer_norm(input_tensor, name=None):
    return tf.contrib.layers.layer_norm(
        inputs=input_tensor, begin_norm_axis=-1, begin_params_axis=-1, scope=name
    )


def create_model(is_training, input_ids, labels, num_labels):
    with tf.variable_scope("bert", reuse=tf.AUTO_REUSE):
        embedding_table = tf.get_variable(
            name="word_embeddings",
            shape=[20, 8],
            initializer=tf.truncated_normal_initializer(stddev=0.02),
        )
        output = layer_norm(tf.gather(embedding_table, input_ids))
        if is_training:
            output = tf.nn.dropout(output, keep_prob=0.9)
        first_token_tensor = tf.squeeze(output[:, 0:1, :], axis=1)
        pooled = tf.layers.dense(first_token_tensor, 8, activation=tf.tanh)
    hidden_size = pooled.shape[-1].value
    output_weights = tf.get_variable(
        "output_weights",
        [num_labels, hidden_size],
        initializer=tf.truncated_normal_initializer(stddev=0.02),
    )
    with tf.variable_scope("loss"):
        logits = tf.matmul(pooled, output_weights, transpose_b=True)
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        one_hot_labels = tf.one_hot(labels, depth=num_labels, dtype=tf.float32)
        per_example_loss = -tf.reduce_sum(one_hot_labels * log_probs, axis=-1)
        return tf.reduce_mean(per_example_loss), per_example_loss, logits


def model_fn_builder(learning_rate, use_tpu):
    def model_fn(features, labels, mode, params):
        input_ids, label_ids = features["input_ids"], features["label_ids"]
        assert get_shape_list(input_ids)[0] in (params["batch_size"], None)
        is_training = mode == tf.estimator.ModeKeys.TRAIN
        total_loss, per_example_loss, logits = create_model(is_training, input_ids, label_ids, 2)

        def tpu_scaffold():
            return tf.train.Scaffold()

        if mode == tf.estimator.ModeKeys.TRAIN:
            global_step = tf.train.get_or_create_global_step()
            rate = tf.train.polynomial_decay(learning_rate, global_step, 20, end_learning_rate=0.0)
            optimizer = tf.train.AdamOptimizer(rate)
            if use_tpu:
                optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
            tvars = tf.trainable_variables()
            grads = tf.gradients(total_loss, tvars)
            (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
            train_op = optimizer.apply_gradients(zip(grads, tvars))  # noqa: B905
            train_op = tf.group(train_op, [global_step.assign(global_step + 1)])
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, loss=total_loss, train_op=train_op, scaffold_fn=tpu_scaffold
            )
        elif mode == tf.estimator.ModeKeys.EVAL:

            def metric_fn(per_example_loss, label_ids, logits):
                predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
                accuracy = tf.metrics.accuracy(labels=label_ids, predictions=predictions)
                loss = tf.metrics.mean(values=per_example_loss)
                return {"eval_accuracy": accuracy, "eval_loss": loss}

            eval_metrics = (metric_fn, [per_example_loss, label_ids, logits])
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, loss=total_loss, eval_metrics=eval_metrics, scaffold_fn=tpu_scaffold
            )
        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, predictions={"probabilities": tf.nn.softmax(logits)}
        )

    return model_fn


def input_fn_builder(is_training, drop_remainder):
    def input_fn(params):
        batch_size = params["batch_size"]
        ids = [[i % 20, (i * 3) % 20, 5] for i in range(16)]
        d = tf.data.Dataset.from_tensor_slices(
            {
                "input_ids": tf.constant(ids, shape=[16, 3], dtype=tf.int32),
                "label_ids": tf.constant([i % 2 for i in range(16)], shape=[16], dtype=tf.int32),
            }
        )
        if is_training:
            d = d.repeat()
            d = d.shuffle(buffer_size=100)
        return d.batch(batch_size=batch_size, drop_remainder=drop_remainder)

    return input_fn


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    is_per_host = tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2
    run_config = tf.contrib.tpu.RunConfig(
        cluster=None,
        master=None,
        model_dir=FLAGS.output_dir,
        save_checkpoints_steps=10,
        tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=FLAGS.iterations_per_loop,
            num_shards=8,
            per_host_input_for_training=is_per_host,
        ),
    )
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn_builder(learning_rate=0.05, use_tpu=FLAGS.use_tpu),
        config=run_config,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.predict_batch_size,
    )
    estimator.train(input_fn=input_fn_builder(True, True), max_steps=20)
    result = estimator.evaluate(input_fn=input_fn_builder(False, False), steps=None)
    assert result["eval_accuracy"] > 0.9, result
    rows = list(estimator.predict(input_fn=input_fn_builder(False, False)))
    assert len(rows) == 16
    print("all done")


if __name__ == "__main__":
    tf.app.run()
