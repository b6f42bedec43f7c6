"""Wide and deep on a table like a census: who earns more than 50,000 a year?

The wide part remembers combinations of categories, the deep part generalizes over embeddings. Each
is trained by an optimizer of its own. A baseline and a linear model show what that is worth.

    python examples/census_wide_deep.py [--model_dir DIR] [--max_steps N]
"""

from __future__ import annotations

import argparse
import os
import tempfile

from estimand.cli.quiet import quiet_start

with quiet_start():
    import keras
    import numpy as np
    import tensorflow as tf

import estimand as est

EDUCATION = ["school", "college", "bachelor", "master", "doctor"]
OCCUPATION = ["sales", "craft", "clerical", "service", "tech", "managing", "farming", "transport"]
SECTOR = ["private", "state", "self"]


def census(count: int, seed: int):
    """Made-up people: some occupations pay well only after certain schools, or in one sector."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 70, count).astype("float32")
    hours = np.clip(random.normal(40, 9, count), 5, 80).astype("float32")
    education = random.integers(len(EDUCATION), size=count)
    occupation = random.integers(len(OCCUPATION), size=count)
    sector = random.choice(len(SECTOR), count, p=[0.7, 0.2, 0.1])
    pays = np.random.default_rng(0).normal(0, 1.2, (len(EDUCATION), len(OCCUPATION), len(SECTOR)))
    score = pays[education, occupation, sector] + 0.5 * education - 2.2
    score += 0.05 * (hours - 40) + 1.5 - ((age - 48) / 15) ** 2
    features = {
        "age": age,
        "hours": hours,
        "education": np.array(EDUCATION)[education],
        "occupation": np.array(OCCUPATION)[occupation],
        "sector": np.array(SECTOR)[sector],
    }
    return features, random.random(count) < 1 / (1 + np.exp(-2 * score))


def input_fn(mode: str) -> tf.data.Dataset:
    features, rich = census(20_000 if mode == est.ModeKeys.TRAIN else 4_000, seed=len(mode))
    labels = np.where(rich, ">50K", "<=50K")
    data = tf.data.Dataset.from_tensor_slices((features, labels))
    if mode == est.ModeKeys.TRAIN:
        data = data.shuffle(len(labels)).repeat()
    return data.batch(128)


def columns():
    fc = est.feature_column
    age = fc.numeric_column("age")
    hours = fc.numeric_column("hours", normalizer_fn=lambda x: (x - 40.0) / 10.0)
    ages = fc.bucketized_column(age, [25, 30, 35, 40, 45, 50, 55, 60, 65])
    education = fc.categorical_column_with_vocabulary_list("education", EDUCATION)
    occupation = fc.categorical_column_with_hash_bucket("occupation", 100)
    sector = fc.categorical_column_with_vocabulary_list("sector", SECTOR)
    cross = fc.crossed_column(["education", "occupation", "sector"], 1000)
    wide = [ages, education, occupation, sector, cross]
    deep = [
        hours,
        ages,
        fc.indicator_column(education),
        fc.indicator_column(sector),
        fc.embedding_column(occupation, 8),
    ]
    return wide, deep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", default=None, help="kept between runs (default: a new one)")
    parser.add_argument("--max_steps", type=int, default=600)
    args = parser.parse_args()
    directory = args.model_dir or tempfile.mkdtemp(prefix="census-")
    wide, deep = columns()
    vocabulary = ["<=50K", ">50K"]

    def common(name: str) -> dict:
        return {
            "model_dir": os.path.join(directory, name),
            "label_vocabulary": vocabulary,
            "config": est.RunConfig(tf_random_seed=1),
        }

    models = {
        "baseline": est.BaselineClassifier(**common("baseline")),
        "linear": est.LinearClassifier(wide, **common("linear")),
        "wide and deep": est.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            linear_optimizer=keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
            dnn_feature_columns=deep,
            dnn_optimizer=keras.optimizers.Adam(0.003),
            dnn_hidden_units=[64, 32],
            **common("wide_and_deep"),
        ),
    }
    results = {}
    for name, model in models.items():
        model.train(input_fn, max_steps=args.max_steps)
        results[name] = model.evaluate(input_fn)
    print("On 4000 unseen people    accuracy    auc")
    for name, result in results.items():
        print(f"{name:24} {result['accuracy']:8.3f} {result['auc']:6.3f}")
    person = next(models["wide and deep"].predict(input_fn))
    print(f"The first of them: {person['classes'][0].decode()}, {person['probabilities'][1]:.0%}")


if __name__ == "__main__":
    main()
