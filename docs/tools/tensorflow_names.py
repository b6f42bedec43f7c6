"""Public names whose classes and functions are TensorFlow's own: what to say of them.

Their docstrings are not ours to show. By name: a sentence, and an example.
"""

from __future__ import annotations

OTHERS = {
    "VocabInfo": (
        "For `WarmStartSettings(var_name_to_vocab_info={variable: VocabInfo(...)})`: how the rows "
        "of a variable follow a vocabulary that has changed. `new_vocab` and `old_vocab` are the "
        "files, of which `new_vocab_size` lines (and `old_vocab_size`, or -1 for all) count; "
        "`num_oov_buckets` are at the end; `backup_initializer` fills the rows of new words; "
        "`axis` is that of the words.",
        """
        with open("old.txt", "w") as file:
            file.write("good\\nbad\\n")
        with open("new.txt", "w") as file:
            file.write("bad\\nfine\\ngood\\n")
        info = est.VocabInfo("new.txt", new_vocab_size=3, num_oov_buckets=0, old_vocab="old.txt")
        print(info.old_vocab_size)
        """,
    ),
}
HOOKS = {
    "CheckpointSaverListener": (
        "What is called around each checkpoint: `begin()`, `before_save(session, global_step)`, "
        "`after_save(session, global_step)`, `end(session, global_step)`. Given to "
        "`Estimator.train(saving_listeners=[...])` or `TrainSpec(saving_listeners=[...])`.",
        """
        class Tell(est.CheckpointSaverListener):
            def after_save(self, session, global_step_value):
                print("saved", global_step_value)


        x = np.arange(8, dtype="float32")
        read = est.inputs.numpy_input_fn({"x": x}, 2 * x, num_epochs=None, shuffle=True)
        model = est.LinearRegressor([est.feature_column.numeric_column("x")])
        model = model.train(read, max_steps=5, saving_listeners=[Tell()])
        """,
    ),
    "NanLossDuringTrainingError": (
        "Raised when the loss is NaN; nothing is saved after it. It has no arguments.",
        """
        print(issubclass(est.NanLossDuringTrainingError, RuntimeError))
        """,
    ),
    "SecondOrStepTimer": (
        "Says whether it is time again: `every_secs` or `every_steps`, one of them. For hooks of "
        "old code; new ones declare `cadence = est.every(...)`.",
        """
        timer = est.SecondOrStepTimer(every_steps=10)
        timer.update_last_triggered_step(5)
        print(timer.should_trigger_for_step(14), timer.should_trigger_for_step(15))
        """,
    ),
    "SessionRunArgs": (
        "What a hook's `before_run` returns: `fetches` (tensors, ops, variables or names, in any "
        "nesting), `feed_dict` and `options`.",
        """
        print(est.SessionRunArgs({"loss": "loss:0"}).fetches)
        """,
    ),
    "SessionRunContext": (
        "What hooks are given: `session`, `original_args`, `request_stop()`, `stop_requested`.",
        """
        class StopAtOnce(est.SessionRunHook):
            def after_run(self, run_context, run_values):
                run_context.request_stop()


        x = np.arange(8, dtype="float32")
        read = est.inputs.numpy_input_fn({"x": x}, 2 * x, num_epochs=None, shuffle=True)
        model = est.LinearRegressor([est.feature_column.numeric_column("x")])
        model = model.train(read, max_steps=100, hooks=[StopAtOnce()])
        print(model.get_variable_value("global_step"))
        """,
    ),
    "SessionRunHook": (
        "The base of all hooks: `begin()`, `after_create_session(session, coord)`, "
        "`before_run(run_context)`, `after_run(run_context, run_values)`, `end(session)`. See "
        "[Hooks](../hooks.md).",
        """
        class Count(est.SessionRunHook):
            cadence = est.every(steps=10)
            looks = 0

            def after_run(self, run_context, run_values):
                self.looks += 1


        x = np.arange(8, dtype="float32")
        read = est.inputs.numpy_input_fn({"x": x}, 2 * x, num_epochs=None, shuffle=True)
        count = Count()
        model = est.LinearRegressor([est.feature_column.numeric_column("x")])
        model = model.train(read, max_steps=30, hooks=[count])
        print(count.looks > 0)
        """,
    ),
    "SessionRunValues": (
        "What a hook's `after_run` is given: `results`, in the structure of the fetches, "
        "`options` and `run_metadata`.",
        """
        values = est.SessionRunValues(results={"loss": 0.5}, options=None, run_metadata=None)
        print(values.results["loss"])
        """,
    ),
}

_SEQUENCE = (
    "The same for a feature that is a sequence, for [recurrent networks](../classical_models.md"
    "#recurrent-networks): "
)
COLUMNS = {
    "bucketized_column": (
        "Numbers by range: `boundaries` are the ends of the buckets, ascending. `source_column` is "
        "a numeric column of one dimension.",
        """
        age = est.feature_column.numeric_column("age")
        ages = est.feature_column.bucketized_column(age, boundaries=[25, 60])
        dense = est.feature_column.indicator_column(ages)
        print(est.feature_column.input_layer({"age": tf.constant([30.0])}, [dense]).numpy())
        """,
    ),
    "categorical_column_with_hash_bucket": (
        "Words or integers (`dtype`) of any number, by hash: two may share one of the "
        "`hash_bucket_size` buckets.",
        """
        job = est.feature_column.categorical_column_with_hash_bucket("job", hash_bucket_size=1000)
        print(job.num_buckets)
        """,
    ),
    "categorical_column_with_identity": (
        "Integers that are class numbers already, from 0 to `num_buckets` - 1; others become "
        "`default_value`, or are an error.",
        """
        weekday = est.feature_column.categorical_column_with_identity("weekday", num_buckets=7)
        print(est.feature_column.make_parse_example_spec([weekday]))
        """,
    ),
    "categorical_column_with_vocabulary_file": (
        "Words of a file, one a line: `vocabulary_file`, of which `vocabulary_size` lines count. "
        "What is not there becomes `default_value`, or one of `num_oov_buckets` by hash.",
        """
        with open("cities.txt", "w") as file:
            file.write("Rome\\nOslo\\n")
        city = est.feature_column.categorical_column_with_vocabulary_file("city", "cities.txt")
        print(city.num_buckets)
        """,
    ),
    "categorical_column_with_vocabulary_list": (
        "Words of a list, `vocabulary_list`. What is not there becomes `default_value`, or one of "
        "`num_oov_buckets` by hash.",
        """
        fc = est.feature_column
        city = fc.categorical_column_with_vocabulary_list("city", ["Rome", "Oslo"])
        print(fc.input_layer({"city": tf.constant(["Oslo"])}, [fc.indicator_column(city)]).numpy())
        """,
    ),
    "crossed_column": (
        "Combinations of features, by hash into `hash_bucket_size` buckets. `keys` are names of "
        "features, or categorical columns other than hashed ones.",
        """
        print(est.feature_column.crossed_column(["job", "city"], hash_bucket_size=100).name)
        """,
    ),
    "embedding_column": (
        "A trained vector of `dimension` numbers for each category; several values of an example "
        "are joined by `combiner`. `ckpt_to_load_from` with `tensor_name_in_ckpt` fills the table "
        "when training starts, `max_norm` bounds its rows, `trainable=False` keeps it.",
        """
        job = est.feature_column.categorical_column_with_hash_bucket("job", 1000)
        print(est.feature_column.embedding_column(job, dimension=8).name)
        """,
    ),
    "indicator_column": (
        "Categories as counts: one-hot for one value. `categorical_column` is any categorical one.",
        """
        fc = est.feature_column
        city = fc.categorical_column_with_vocabulary_list("city", ["Rome", "Oslo"])
        print(fc.indicator_column(city).name)
        """,
    ),
    "numeric_column": (
        "Numbers of the given `shape` and `dtype`, as they are or through `normalizer_fn`; "
        "`default_value` stands for missing ones of parsed tf.Examples.",
        """
        age = est.feature_column.numeric_column("age", normalizer_fn=lambda x: (x - 40) / 10)
        print(est.feature_column.input_layer({"age": tf.constant([60.0])}, [age]).numpy())
        """,
    ),
    "sequence_categorical_column_with_hash_bucket": (
        _SEQUENCE + "words or integers by hash into `hash_bucket_size` buckets.",
        """
        fc = est.feature_column
        print(fc.sequence_categorical_column_with_hash_bucket("words", 100).name)
        """,
    ),
    "sequence_categorical_column_with_identity": (
        _SEQUENCE + "integers from 0 to `num_buckets` - 1.",
        """
        print(est.feature_column.sequence_categorical_column_with_identity("clicks", 10).name)
        """,
    ),
    "sequence_categorical_column_with_vocabulary_file": (
        _SEQUENCE + "words of a file, one a line.",
        """
        with open("words.txt", "w") as file:
            file.write("good\\nbad\\n")
        fc = est.feature_column
        print(fc.sequence_categorical_column_with_vocabulary_file("words", "words.txt").name)
        """,
    ),
    "sequence_categorical_column_with_vocabulary_list": (
        _SEQUENCE + "words of a list.",
        """
        fc = est.feature_column
        print(fc.sequence_categorical_column_with_vocabulary_list("words", ["good", "bad"]).name)
        """,
    ),
    "sequence_numeric_column": (
        _SEQUENCE + "numbers of the given `shape` at each step.",
        """
        print(est.feature_column.sequence_numeric_column("temperature").name)
        """,
    ),
    "shared_embedding_columns": (
        "v1's way to let several categorical columns use one table; see "
        "[Shared embeddings](../feature_columns.md#shared-embeddings).",
        """
        fc = est.feature_column
        seen = fc.categorical_column_with_identity("seen", 100)
        bought = fc.categorical_column_with_identity("bought", 100)
        print(len(fc.shared_embedding_columns([seen, bought], dimension=8)))
        """,
    ),
    "shared_embeddings": (
        "One table of vectors of `dimension` numbers for several categorical columns, under one "
        "name (`shared_embedding_collection_name`).",
        """
        fc = est.feature_column
        seen = fc.categorical_column_with_identity("seen", 100)
        bought = fc.categorical_column_with_identity("bought", 100)
        print(len(fc.shared_embeddings([seen, bought], dimension=8)))
        """,
    ),
    "weighted_categorical_column": (
        "Categories with a weight each: `weight_feature_key` is the feature of the weights.",
        """
        fc = est.feature_column
        words = fc.categorical_column_with_hash_bucket("words", 100)
        print(fc.weighted_categorical_column(words, weight_feature_key="counts").name)
        """,
    ),
}
