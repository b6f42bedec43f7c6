"""A handbook's snippets on graphs: images read, layers frozen, graphs and SavedModels kept.

Written for TensorFlow 1; it is run by `estimand run`. Changed are paths, sizes and data.
"""

import os
import sys

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]


# ruff: noqa: E703
# fmt: off
def read_tensor_from_image_file(file_name, input_height=299, input_width=299,
                                input_mean=0, input_std=255):
  input_name = "file_reader"
  file_reader = tf.read_file(file_name, input_name)
  image_reader = tf.image.decode_jpeg(file_reader, channels = 3, name='jpeg_reader')
  float_caster = tf.cast(image_reader, tf.float32)
  dims_expander = tf.expand_dims(float_caster, 0);
  resized = tf.image.resize_bilinear(dims_expander, [input_height, input_width])
  normalized = tf.divide(tf.subtract(resized, [input_mean]), [input_std])
  sess = tf.Session()
  result = sess.run(normalized)
  return result


def image_as_tensor():
  file_name = os.path.join(FOLDER, "rose.jpg")
  with tf.Session() as sess, open(file_name, "wb") as file:
    file.write(sess.run(tf.image.encode_jpeg(np.full([6, 5, 3], 102, np.uint8))))
  result = read_tensor_from_image_file(file_name, 8, 8)
  assert result.shape == (1, 8, 8, 3)
  np.testing.assert_allclose(result, 102 / 255, atol=0.02)


def load_graph(model_file):
  graph = tf.Graph()
  graph_def = tf.GraphDef()
  with open(model_file, "rb") as f:
    graph_def.ParseFromString(f.read())
  with graph.as_default():
    tf.import_graph_def(graph_def)
  return graph


def last_layer_trained_and_graph_frozen():
  tf.set_random_seed(1)  # else all units of the body may be dead, once in thirty runs
  X = tf.placeholder(tf.float32, [None, 4], name="X")
  Y = tf.placeholder(tf.float32, [None, 3])
  with tf.variable_scope("body"):
    hidden = tf.layers.dense(X, 5, activation=tf.nn.relu)
  with tf.variable_scope("output"):
    logits_nn = tf.layers.dense(hidden, 3)
  tf.nn.softmax(logits_nn, name="scores")
  cross_entropy = tf.nn.softmax_cross_entropy_with_logits(logits=logits_nn, labels=Y)
  loss_score = tf.reduce_mean(cross_entropy)

  optimizer = tf.train.GradientDescentOptimizer(0.02)
  output_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope='output')
  train_step = optimizer.minimize(loss_score,var_list = output_vars)
  body_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope='body')

  fed = {X: np.ones([2, 4]), Y: np.eye(3)[:2]}
  with tf.Session() as sess:
    init = tf.global_variables_initializer()
    sess.run(init)
    before = sess.run([body_vars, output_vars])
    sess.run(train_step, feed_dict=fed)
    after = sess.run([body_vars, output_vars])
    scores = sess.run("scores:0", feed_dict=fed)
    frozen = tf.graph_util.convert_variables_to_constants(sess, sess.graph_def, ["scores"])
    tf.train.write_graph(frozen, FOLDER, "graph.pb", as_text=False)
  np.testing.assert_array_equal(before[0][0], after[0][0])
  assert np.abs(before[1][0] - after[1][0]).max() > 0

  graph = load_graph(os.path.join(FOLDER, "graph.pb"))
  op = graph.get_operation_by_name("import/scores")
  with tf.Session(graph=graph) as sess:
    again = sess.run(op.outputs[0], feed_dict={"import/X:0": fed[X]})
  np.testing.assert_allclose(again, scores, rtol=1e-6)


def saved_model_built_by_hand():
  export_path = os.path.join(FOLDER, "prod_models", "1")
  inputs = tf.placeholder(tf.float32, [None, 2])
  output = tf.layers.dense(inputs, 1)
  builder = tf.saved_model.builder.SavedModelBuilder(export_path)

  model_input = tf.saved_model.utils.build_tensor_info(inputs)
  model_output = tf.saved_model.utils.build_tensor_info(output)

  prediction_signature = (
      tf.saved_model.signature_def_utils.build_signature_def(
          inputs={'inputs': model_input},
          outputs={'output': model_output},
          method_name=tf.saved_model.signature_constants.PREDICT_METHOD_NAME))

  with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    expected = sess.run(output, {inputs: [[1.0, 2.0]]})
    builder.add_meta_graph_and_variables(
        sess=sess, tags=[tf.saved_model.tag_constants.SERVING],
        signature_def_map={
            'predict':
                prediction_signature,
        })

    builder.save()

  tf.reset_default_graph()
  with tf.Session() as sess:
    loaded = tf.saved_model.loader.load(
        sess, [tf.saved_model.tag_constants.SERVING], export_path)
    signature = loaded.signature_def["predict"]
    fed = {signature.inputs["inputs"].name: [[1.0, 2.0]]}
    assert sess.run(signature.outputs["output"].name, fed) == expected


def variables_saved_by_other_names():
  embeddings = tf.get_variable("E", [3, 2])
  step = tf.train.get_or_create_global_step()
  optim = tf.train.AdamOptimizer(0.1)
  loss = tf.reduce_sum(tf.square(embeddings))
  train_op = optim.minimize(loss, global_step=step, var_list=[embeddings])
  saver = tf.train.Saver({"embeddings": embeddings})
  with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train_op)
    assert sess.run(step) == 1
    value = sess.run(embeddings)
    save_path = saver.save(sess, os.path.join(FOLDER, "lu_vari"))
  assert tf.train.get_checkpoint_state(FOLDER).model_checkpoint_path == save_path
  assert [name for name, _ in tf.train.list_variables(save_path)] == ["embeddings"]

  tf.reset_default_graph()
  saver = tf.train.import_meta_graph(save_path + ".meta")
  with tf.Session() as sess:
    saver.restore(sess, save_path)
    np.testing.assert_array_equal(sess.run("E:0"), value)


def server_of_one_process():
  server = tf.train.Server.create_local_server()
  with tf.device("/job:localhost/task:0"):
    weights_2 = tf.Variable([1.0, 2.0])
    biases_2 = tf.Variable(3.0)
  with tf.Session(server.target) as sess:
    sess.run(tf.global_variables_initializer())
    assert sess.run(weights_2 + biases_2).tolist() == [4.0, 5.0]


for snippet in (image_as_tensor, last_layer_trained_and_graph_frozen, saved_model_built_by_hand,
                variables_saved_by_other_names, server_of_one_process):
  tf.reset_default_graph()
  snippet()
print("all done")
