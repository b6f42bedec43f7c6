"""A model of conversions and their cost whose training metrics start anew every few steps.

The part from `train_metrics_scope` to `train_op`, and the summaries of the evaluation, are as a
user published them as the cure for metrics that pile up while training.
"""

from tests.legacy.v1_view import tf

RESET_EVERY = 4


# ruff: noqa: E501, UP032
# fmt: off
def model_fn(features, labels, mode, params, config):
    global_step = tf.train.get_global_step()
    true_cvr, true_cost = labels["cvr"], labels["cost"]
    w = tf.get_variable("w", [2, 2], initializer=tf.zeros_initializer())
    logits = tf.matmul(features["x"], w)
    cvr = tf.sigmoid(logits[:, 0])
    cvr_cost = logits[:, 1]
    cvr_loss = tf.losses.sigmoid_cross_entropy(true_cvr, logits[:, 0])
    tot_loss = cvr_loss + tf.losses.mean_squared_error(true_cost, cvr_cost, weights=true_cvr)

    if mode == tf.estimator.ModeKeys.EVAL:
        eval_metric_ops = {"auc": tf.metrics.auc(true_cvr, cvr, num_thresholds=10240)}
        with tf.name_scope("histogram_summary") as name_scope:
            tf.summary.histogram("pred_cvr", cvr)
            tf.summary.histogram("cvr_cost", cvr_cost)

            # the same output_dir as that of the estimator's own metrics
            eval_summary_hook = tf.train.SummarySaverHook(save_steps=1,
                                                          output_dir="{}/eval".format(config.model_dir),
                                                          summary_op=tf.summary.merge_all(scope=name_scope))
        return tf.estimator.EstimatorSpec(
                      mode=mode, loss=tot_loss, eval_metric_ops=eval_metric_ops, export_outputs=None, evaluation_hooks=[eval_summary_hook])

    with tf.variable_scope("train_metrics_scope"):
        metric_auc = tf.metrics.auc(true_cvr, cvr, num_thresholds=10240)
        metric_cvr_loss = tf.metrics.mean(cvr_loss)
        metric_cost_loss = tf.metrics.mean_squared_error(true_cost, cvr_cost, weights=true_cvr)

        is_metric_reset_step = tf.equal(global_step % RESET_EVERY, 0)
        metric_reset_op = tf.cond(is_metric_reset_step,
                                  lambda: tf.group([tf.assign(ref, tf.zeros_like(ref))
                                                    for ref in tf.local_variables() if
                                                    'train_metrics_scope' in ref.op.name]),
                                  lambda: tf.no_op())

    with tf.name_scope("train_metrics_summary"):
        tf.summary.scalar("auc", metric_auc[0])
        tf.summary.scalar("cvr_loss", metric_cvr_loss[0])
        tf.summary.scalar("cost_loss", metric_cost_loss[0])

    train_op = tf.train.AdamOptimizer(
                learning_rate=params["lr"]).minimize(tot_loss,
                                                     global_step=global_step)
    train_op = tf.group(train_op, metric_reset_op, metric_auc[1], metric_cvr_loss[1], metric_cost_loss[1])
    return tf.estimator.EstimatorSpec(mode=mode, loss=tot_loss, train_op=train_op)
