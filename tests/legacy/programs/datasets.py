"""The guide to tf.data of TensorFlow 1.10: structures, iterators, files, transformations.

Written for TensorFlow 1; it is run by `estimand run`. Changed are paths, sizes and data.
"""

import os
import sys

import numpy as np
import tensorflow as tf

FOLDER = sys.argv[1]


# ruff: noqa: UP031
# fmt: off
def write_files():
  with tf.Session() as sess:
    for i in range(2):
      with open(os.path.join(FOLDER, "file%d.txt" % (i + 1)), "w") as file:
        file.write("header\n# a comment\nline %d\n" % i)
      with open(os.path.join(FOLDER, "file%d.csv" % (i + 1)), "w") as file:
        file.write("1,2,3,4,,6,7,8\n" if i else "1,2,3,4,5,6,7,8\n")
      pixels = np.full([6, 5, 1], 100 * i, np.uint8)
      encoded = sess.run(tf.image.encode_jpeg(pixels))
      with open(os.path.join(FOLDER, "image%d.jpg" % (i + 1)), "wb") as file:
        file.write(encoded)
      path = os.path.join(FOLDER, "file%d.tfrecord" % (i + 1))
      with tf.python_io.TFRecordWriter(path) as writer:
        for label in range(3):
          feature = {
              "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
              "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[3 * i + label])),
          }
          example = tf.train.Example(features=tf.train.Features(feature=feature))
          writer.write(example.SerializeToString())


def in_folder(*names):
  return [os.path.join(FOLDER, name) for name in names]


def structures():
  dataset1 = tf.data.Dataset.from_tensor_slices(tf.random_uniform([4, 10]))
  assert dataset1.output_types == tf.float32
  assert dataset1.output_shapes == (10,)

  dataset2 = tf.data.Dataset.from_tensor_slices(
     (tf.random_uniform([4]),
      tf.random_uniform([4, 100], maxval=100, dtype=tf.int32)))
  assert dataset2.output_types == (tf.float32, tf.int32)
  assert dataset2.output_shapes == ((), (100,))

  dataset3 = tf.data.Dataset.zip((dataset1, dataset2))
  assert dataset3.output_types == (tf.float32, (tf.float32, tf.int32))
  assert dataset3.output_shapes == ((10,), ((), (100,)))

  dataset = tf.data.Dataset.from_tensor_slices(
     {"a": tf.random_uniform([4]),
      "b": tf.random_uniform([4, 100], maxval=100, dtype=tf.int32)})
  assert dataset.output_types == {"a": tf.float32, "b": tf.int32}
  assert dataset.output_shapes == {"a": (), "b": (100,)}

  iterator = dataset3.make_initializable_iterator()
  with tf.Session() as sess:
    sess.run(iterator.initializer)
    next1, (next2, next3) = iterator.get_next()
    assert next1.eval().shape == (10,)
    assert next2.eval().shape == ()
    assert next3.eval().shape == (100,)


def one_shot():
  dataset = tf.data.Dataset.range(10)
  iterator = dataset.make_one_shot_iterator()
  next_element = iterator.get_next()

  with tf.Session() as sess:
    for i in range(10):
      value = sess.run(next_element)
      assert i == value


def initializable():
  max_value = tf.placeholder(tf.int64, shape=[])
  dataset = tf.data.Dataset.range(max_value)
  iterator = dataset.make_initializable_iterator()
  next_element = iterator.get_next()

  # Initialize the same iterator over datasets of 5 and of 10 elements.
  for elements in (5, 10):
    with tf.Session() as sess:
      sess.run(iterator.initializer, feed_dict={max_value: elements})
      for i in range(elements):
        value = sess.run(next_element)
        assert i == value


def reinitializable():
  # Define training and validation datasets with the same structure.
  training_dataset = tf.data.Dataset.range(10).map(
      lambda x: x + tf.random_uniform([], -10, 10, tf.int64))
  validation_dataset = tf.data.Dataset.range(5)

  iterator = tf.data.Iterator.from_structure(training_dataset.output_types,
                                             training_dataset.output_shapes)
  next_element = iterator.get_next()

  training_init_op = iterator.make_initializer(training_dataset)
  validation_init_op = iterator.make_initializer(validation_dataset)

  with tf.Session() as sess:
    for _ in range(2):
      # Initialize an iterator over the training dataset.
      sess.run(training_init_op)
      for _ in range(10):
        sess.run(next_element)

      # Initialize an iterator over the validation dataset.
      sess.run(validation_init_op)
      assert [sess.run(next_element) for _ in range(5)] == [0, 1, 2, 3, 4]


def feedable():
  training_dataset = tf.data.Dataset.range(10).map(
      lambda x: x + tf.random_uniform([], -10, 10, tf.int64)).repeat()
  validation_dataset = tf.data.Dataset.range(5)

  handle = tf.placeholder(tf.string, shape=[])
  iterator = tf.data.Iterator.from_string_handle(
      handle, training_dataset.output_types, training_dataset.output_shapes)
  next_element = iterator.get_next()

  training_iterator = training_dataset.make_one_shot_iterator()
  validation_iterator = validation_dataset.make_initializable_iterator()

  with tf.Session() as sess:
    training_handle = sess.run(training_iterator.string_handle())
    validation_handle = sess.run(validation_iterator.string_handle())

    for _ in range(2):
      for _ in range(20):
        sess.run(next_element, feed_dict={handle: training_handle})

      # Run one pass over the validation dataset.
      sess.run(validation_iterator.initializer)
      values = [sess.run(next_element, feed_dict={handle: validation_handle}) for _ in range(5)]
      assert values == [0, 1, 2, 3, 4]


def until_the_end():
  dataset = tf.data.Dataset.range(5)
  iterator = dataset.make_initializable_iterator()
  next_element = iterator.get_next()

  # Typically `result` will be the output of a model, or an optimizer's
  # training operation.
  result = tf.add(next_element, next_element)
  sess = tf.InteractiveSession()

  sess.run(iterator.initializer)
  assert [sess.run(result) for _ in range(5)] == [0, 2, 4, 6, 8]

  try:
    sess.run(result)
  except tf.errors.OutOfRangeError:
    sess.close()
  else:
    raise AssertionError("the dataset has no end")


def arrays_through_placeholders():
  np.savez(os.path.join(FOLDER, "mnist.npz"),
           x_train=np.arange(12).reshape(6, 2), y_train=np.arange(6))
  with np.load(os.path.join(FOLDER, "mnist.npz")) as data:
    features = data["x_train"]
    labels = data["y_train"]

  # Assume that each row of `features` corresponds to the same row as `labels`.
  assert features.shape[0] == labels.shape[0]

  features_placeholder = tf.placeholder(features.dtype, features.shape)
  labels_placeholder = tf.placeholder(labels.dtype, labels.shape)

  dataset = tf.data.Dataset.from_tensor_slices((features_placeholder, labels_placeholder))
  iterator = dataset.make_initializable_iterator()
  next_row = iterator.get_next()

  with tf.Session() as sess:
    sess.run(iterator.initializer, feed_dict={features_placeholder: features,
                                              labels_placeholder: labels})
    row, label = sess.run(next_row)
  assert row.tolist() == [0, 1] and label == 0


# Transforms a scalar string `example_proto` into a pair of a scalar string and
# a scalar integer, representing an image and its label, respectively.
def _parse_example(example_proto):
  features = {"image": tf.FixedLenFeature((), tf.string, default_value=""),
              "label": tf.FixedLenFeature((), tf.int64, default_value=0)}
  parsed_features = tf.parse_single_example(example_proto, features)
  return parsed_features["image"], parsed_features["label"]


def records():
  filenames = tf.placeholder(tf.string, shape=[None])
  dataset = tf.data.TFRecordDataset(filenames)
  dataset = dataset.map(_parse_example)  # Parse the record into tensors.
  dataset = dataset.batch(4)
  iterator = dataset.make_initializable_iterator()
  _, next_labels = iterator.get_next()

  with tf.Session() as sess:
    # Compute for 2 epochs.
    for names in (["file1.tfrecord", "file2.tfrecord"], ["file2.tfrecord"]):
      sess.run(iterator.initializer, feed_dict={filenames: in_folder(*names)})
      seen = []
      while True:
        try:
          seen.extend(sess.run(next_labels))
        except tf.errors.OutOfRangeError:
          break
      assert seen == list(range(6))[-3 * len(names):], seen

  target_file = in_folder("file1.tfrecord")[0]
  labels = []
  for example in tf.python_io.tf_record_iterator(target_file):
    result = tf.train.Example.FromString(example)
    labels += result.features.feature["label"].int64_list.value
  assert labels == [0, 1, 2]


def lines_of_text():
  filenames = in_folder("file1.txt", "file2.txt")

  dataset = tf.data.Dataset.from_tensor_slices(filenames)

  # * Skip the first line (header row).
  # * Filter out lines beginning with "#" (comments).
  dataset = dataset.flat_map(
      lambda filename: (
          tf.data.TextLineDataset(filename)
          .skip(1)
          .filter(lambda line: tf.not_equal(tf.substr(line, 0, 1), "#"))))
  next_element = dataset.make_one_shot_iterator().get_next()
  with tf.Session() as sess:
    assert [sess.run(next_element) for _ in range(2)] == [b"line 0", b"line 1"]


def columns_of_text():
  filenames = in_folder("file1.csv", "file2.csv")
  record_defaults = [tf.float32] * 8   # Eight required float columns
  required = tf.contrib.data.CsvDataset(filenames[:1], record_defaults)
  record_defaults = [[0.0]] * 8
  dataset = tf.contrib.data.CsvDataset(filenames, record_defaults)
  with tf.Session() as sess:
    row = sess.run(required.make_one_shot_iterator().get_next())
    assert row == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    next_row = dataset.make_one_shot_iterator().get_next()
    assert [sess.run(next_row)[4] for _ in range(2)] == [5.0, 0.0]


# Reads an image from a file, decodes it into a dense tensor, and resizes it
# to a fixed shape.
def _parse_function(filename, label):
  image_string = tf.read_file(filename)
  image_decoded = tf.image.decode_jpeg(image_string)
  image_resized = tf.image.resize_images(image_decoded, [28, 28])
  return image_resized, label


# Use a custom function to read the image, instead of the standard
# TensorFlow `tf.read_file()` operation.
def _read_py_function(filename, label):
  from PIL import Image
  image_decoded = np.asarray(Image.open(filename.decode()).convert("L"))[:, :, None]
  return image_decoded, label


# Use standard TensorFlow operations to resize the image to a fixed shape.
def _resize_function(image_decoded, label):
  image_decoded.set_shape([None, None, None])
  image_resized = tf.image.resize_images(image_decoded, [28, 28])
  return image_resized, label


def images():
  filenames = tf.constant(in_folder("image1.jpg", "image2.jpg"))
  labels = tf.constant([0, 37])

  dataset = tf.data.Dataset.from_tensor_slices((filenames, labels))
  read_by_tensorflow = dataset.map(_parse_function)
  read_by_python = dataset.map(
      lambda filename, label: tuple(tf.py_func(
          _read_py_function, [filename, label], [tf.uint8, label.dtype])))
  read_by_python = read_by_python.map(_resize_function)
  for dataset in (read_by_tensorflow, read_by_python):
    next_image, next_label = dataset.batch(2).make_one_shot_iterator().get_next()
    with tf.Session() as sess:
      image, label = sess.run([next_image, next_label])
    assert image.shape == (2, 28, 28, 1) and label.tolist() == [0, 37]
    np.testing.assert_allclose(image.mean(axis=(1, 2, 3)), [0, 100], atol=2)


def batches():
  inc_dataset = tf.data.Dataset.range(100)
  dec_dataset = tf.data.Dataset.range(0, -100, -1)
  dataset = tf.data.Dataset.zip((inc_dataset, dec_dataset))
  batched_dataset = dataset.batch(4)

  iterator = batched_dataset.make_one_shot_iterator()
  next_element = iterator.get_next()

  sess = tf.InteractiveSession()
  sess.run(next_element)
  up, down = sess.run(next_element)
  assert up.tolist() == [4, 5, 6, 7] and down.tolist() == [-4, -5, -6, -7]

  dataset = tf.data.Dataset.range(100)
  dataset = dataset.map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))
  dataset = dataset.padded_batch(4, padded_shapes=[None])

  iterator = dataset.make_one_shot_iterator()
  next_element = iterator.get_next()

  assert sess.run(next_element).tolist() == [[0, 0, 0], [1, 0, 0], [2, 2, 0], [3, 3, 3]]
  assert sess.run(next_element).tolist()[:2] == [[4, 4, 4, 4, 0, 0, 0], [5, 5, 5, 5, 5, 0, 0]]
  sess.close()


write_files()
for snippet in (structures, one_shot, initializable, reinitializable, feedable, until_the_end,
                arrays_through_placeholders, records, lines_of_text, columns_of_text, images,
                batches):
  tf.reset_default_graph()
  snippet()
print("all done")
