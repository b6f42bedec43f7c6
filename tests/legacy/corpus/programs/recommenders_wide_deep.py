"""The wide and deep model of Microsoft's recommenders, on made-up ratings."""

import sys

import numpy as np
import pandas as pd
from recommenders.models.wide_deep.wide_deep_utils import build_feature_columns, build_model
from recommenders.utils.tf_utils import pandas_input_fn

random = np.random.RandomState(0)
users, items = np.arange(20), np.arange(15)
ratings = pd.DataFrame({"userID": random.choice(users, 300), "itemID": random.choice(items, 300)})
ratings["rating"] = 1.0 + (ratings.userID + ratings.itemID) % 5

wide, deep = build_feature_columns(users, items, crossed_feat_dim=50)
model = build_model(sys.argv[1], wide_columns=wide, deep_columns=deep)
model.train(pandas_input_fn(ratings, "rating", batch_size=32, num_epochs=3, shuffle=True))
once = pandas_input_fn(ratings, "rating", batch_size=32, num_epochs=1)
print(model.evaluate(once))
answers = list(model.predict(pandas_input_fn(ratings.drop(columns="rating"), batch_size=32)))
assert len(answers) == len(ratings)
