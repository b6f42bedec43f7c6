"""Snippets of guides to tf.estimator put together: columns, models, warm start, exporters."""

from tests.legacy.v1_view import tf


# fmt: off
def make_columns(vocabulary_file):
    # Define features and transformations
    feature_a = tf.feature_column.categorical_column_with_vocabulary_file(
        "feature_a", vocabulary_file)
    feature_b = tf.feature_column.numeric_column("feature_b")
    feature_c_bucketized = tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column("feature_c"), [0.25, 0.5, 0.75])
    feature_a_x_feature_c = tf.feature_column.crossed_column(
        ["feature_a", feature_c_bucketized], 10)
    return [feature_b, feature_c_bucketized,
            tf.feature_column.indicator_column(feature_a_x_feature_c),
            tf.feature_column.embedding_column(feature_a, dimension=2)]


def parse_and_make_dense(serialized_examples, feature_columns):
    features = tf.parse_example(
        serialized=serialized_examples,
        features=tf.feature_column.make_parse_example_spec(feature_columns))
    return tf.feature_column.input_layer(features, feature_columns)


def make_linear_classifier(global_education_mean, model_dir):
    # Define three numeric feature columns.
    population = tf.feature_column.numeric_column('population')
    crime_rate = tf.feature_column.numeric_column('crime_rate')
    median_education = tf.feature_column.numeric_column('median_education',
                        normalizer_fn=lambda x: x - global_education_mean)

    # Instantiate an estimator, passing the feature columns.
    return tf.estimator.LinearClassifier(
        feature_columns=[population, crime_rate, median_education],
        model_dir=model_dir)


def make_dnn_classifier(new_vocab, model_dir, ws=None):
    emb_vocab_file = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_vocabulary_file(
            "sc_vocab_file", new_vocab, vocabulary_size=3),
        dimension=8)
    emb_vocab_list = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_vocabulary_list(
            "sc_vocab_list", vocabulary_list=["a", "b"]),
        dimension=8)
    return tf.estimator.DNNClassifier(
      hidden_units=[16, 8], feature_columns=[emb_vocab_file, emb_vocab_list],
      model_dir=model_dir,
      warm_start_from=ws)


def make_serving_input_receiver_fn(feature_spec, default_batch_size=None):
    def serving_input_receiver_fn():
      """An input receiver that expects a serialized tf.Example."""
      serialized_tf_example = tf.placeholder(dtype=tf.string,
                                             shape=[default_batch_size],
                                             name='input_example_tensor')
      receiver_tensors = {'examples': serialized_tf_example}
      features = tf.parse_example(serialized_tf_example, feature_spec)
      return tf.estimator.export.ServingInputReceiver(features, receiver_tensors)
    return serving_input_receiver_fn


def accuracy_larger(best_eval_result, current_eval_result):
    return current_eval_result["accuracy"] > best_eval_result["accuracy"]


def train_and_evaluate(estimator, train_input_fn, eval_input_fn, serving_input_receiver_fn):
    best = tf.estimator.BestExporter(
        name='best_exporter',
        serving_input_receiver_fn=serving_input_receiver_fn,
        event_file_pattern='eval/*.tfevents.*',
        compare_fn=accuracy_larger,
        assets_extra=None,
        as_text=False,
        exports_to_keep=5)
    final = tf.estimator.FinalExporter('final', serving_input_receiver_fn)
    train_spec = tf.estimator.TrainSpec(train_input_fn, max_steps=60)
    eval_spec = tf.estimator.EvalSpec(
        eval_input_fn, steps=None, exporters=[best, final], start_delay_secs=0, throttle_secs=0)
    return tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)


def load_graph(trained_model):
    session_config = tf.ConfigProto()
    session_config.gpu_options.allow_growth = True
    sess = tf.Session(config=session_config)
    meta_graph_def = tf.saved_model.loader.load(
        sess, [tf.saved_model.tag_constants.SERVING], trained_model)
    return sess, meta_graph_def.signature_def


def read_records(glob_pattern, batch_size, threads=2):
    files = tf.data.Dataset.list_files(glob_pattern, shuffle=False)

    # parallel fetch tfrecords dataset using the file list in parallel
    dataset = files.apply(tf.contrib.data.parallel_interleave(
        lambda filename: tf.data.TFRecordDataset(filename), cycle_length=threads))

    # shuffle and repeat examples for better randomness and allow training beyond one epoch
    dataset = dataset.apply(tf.contrib.data.shuffle_and_repeat(32*batch_size))
    dataset = dataset.batch(batch_size=batch_size)
    dataset = dataset.prefetch(buffer_size=batch_size)
    return dataset
