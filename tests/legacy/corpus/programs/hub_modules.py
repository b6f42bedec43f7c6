"""Modules of TensorFlow Hub in model functions and columns: made, trained on, asked, exported."""

import os
import shutil
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

FOLDER = sys.argv[1]
random = np.random.RandomState(0)
WORDS = np.array(["the", "a", "good", "bad", "film", "was", "not", "very", "other"])
TEXTS = np.array([" ".join(random.choice(WORDS, 5)) for _ in range(32)])
IMAGES = random.normal(size=(32, 8, 8, 3)).astype("float32")
LABELS = np.array([["good" in text] for text in TEXTS], "int64")


def text_module():
    vocabulary = os.path.join(FOLDER, "vocabulary.txt")
    with open(vocabulary, "w") as file:
        file.write("\n".join(WORDS[:-1]) + "\n")
    text = tf.placeholder(tf.string, [None])
    table = tf.contrib.lookup.index_table_from_file(vocabulary, num_oov_buckets=1)
    words = tf.string_split(text, " ")
    ids = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
    embeddings = tf.get_variable("embeddings", [9, 4])
    found = tf.nn.embedding_lookup_sparse(embeddings, ids, None, combiner="sqrtn")
    hub.add_signature(inputs=text, outputs=found)


def image_module(is_training, use_resource):
    with tf.variable_scope("", use_resource=use_resource):
        images = tf.placeholder(tf.float32, [None, 8, 8, 3])
        net = tf.layers.conv2d(images, 5, 3, activation=tf.nn.relu)
        net = tf.layers.batch_normalization(net, training=is_training, momentum=0.5)
        net = tf.layers.dense(tf.reduce_mean(net, [1, 2]), 6)
    hub.add_signature(inputs={"images": images}, outputs=net)


def export(name, spec):
    with tf.Graph().as_default(), tf.Session() as session:
        module = hub.Module(spec, tags=next(iter(spec.get_tags())) or None)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        module.export(os.path.join(FOLDER, name), session)


def make_modules():
    export("text", hub.create_module_spec(text_module))
    for name, use_resource in (("image", True), ("old_image", False)):
        variants = [({"train"}, {"is_training": True}), (set(), {"is_training": False})]
        variants = [(tags, {**how, "use_resource": use_resource}) for tags, how in variants]
        export(name, hub.create_module_spec(image_module, variants))


def of_module(name, variable):
    return tf.train.load_variable(os.path.join(FOLDER, name, "variables", "variables"), variable)


def input_fn(key, values):
    return lambda: tf.data.Dataset.from_tensor_slices(({key: values}, LABELS)).batch(8).repeat(4)


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    tags = {"train"} if training else set()
    module = hub.Module(os.path.join(FOLDER, params["module"]), trainable=True, tags=tags)
    hub.register_module_for_export(module, "tuned")
    logits = tf.layers.dense(module(features), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"logits": logits})
    loss = tf.losses.sigmoid_cross_entropy(labels, logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(0.05).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def in_a_model_function(name):
    model_dir = os.path.join(FOLDER, "run_" + name)
    read = input_fn("images", IMAGES)
    model = tf.estimator.Estimator(model_fn, model_dir, params={"module": name})
    model.train(read, steps=1)
    first = tf.train.load_variable(os.path.join(model_dir, "model.ckpt-0"), "module/dense/kernel")
    np.testing.assert_array_equal(first, of_module(name, "dense/kernel"))
    before = model.evaluate(read)["loss"]
    model = tf.estimator.Estimator(model_fn, model_dir, params={"module": name})
    model.train(read, steps=20)
    assert model.evaluate(read)["loss"] < before
    assert np.any(model.get_variable_value("module/batch_normalization/moving_mean") != 0)
    assert len(list(model.predict(read))) == 128

    def receiver():
        images = tf.placeholder(tf.float32, [None, 8, 8, 3])
        return tf.estimator.export.ServingInputReceiver({"images": images}, {"images": images})

    exporter = hub.LatestModuleExporter("modules", receiver)
    path = os.path.join(FOLDER, "modules_" + name)
    tuned = tf.compat.as_str(exporter.export(model, path, model.latest_checkpoint()))
    kernel = of_module(os.path.join(tuned, "tuned"), "dense/kernel")
    np.testing.assert_array_equal(kernel, model.get_variable_value("module/dense/kernel"))


def in_a_column(trainable):
    column = hub.text_embedding_column("text", os.path.join(FOLDER, "text"), trainable=trainable)
    read = input_fn("text", TEXTS)
    model_dir = os.path.join(FOLDER, "column" + str(trainable))
    model = tf.estimator.DNNClassifier([8], [column], model_dir)
    model.train(read, steps=1)
    before = model.evaluate(read)["loss"]
    model.train(read, steps=40)
    assert model.evaluate(read)["loss"] < before
    (name,) = [name for name in model.get_variable_names() if name.endswith("module/embeddings")]
    same = model.get_variable_value(name) == of_module("text", "embeddings")
    assert np.all(same) != trainable
    spec = tf.feature_column.make_parse_example_spec([column])
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exported = model.export_saved_model(os.path.join(FOLDER, "export"), receiver)
    assert os.listdir(os.path.join(tf.compat.as_str(exported), "assets")) == ["vocabulary.txt"]


def images_in_a_column():
    column = hub.image_embedding_column("images", os.path.join(FOLDER, "image"))
    read = input_fn("images", IMAGES)
    model = tf.estimator.LinearClassifier([column], os.path.join(FOLDER, "images"))
    model.train(read, steps=5)
    assert model.evaluate(read)["global_step"] == 5


shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
make_modules()
in_a_model_function("image")
in_a_model_function("old_image")
in_a_column(trainable=True)
in_a_column(trainable=False)
images_in_a_column()
print("all done")
