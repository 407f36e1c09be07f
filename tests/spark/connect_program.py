"""A client of Spark Connect: trains on two tasks, predicts, and prints what came of it as JSON."""

import json
import math

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pvtree.spark import GBDTRegressor
from spark_rows import make_rows

PARAMS = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "random_state": 3}

if __name__ == "__main__":
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    X, signal = make_rows()
    rows = [(number, *row) for number, row in enumerate(zip(X.tolist(), signal.tolist(), strict=True))]
    frame = spark.createDataFrame(rows, "number long, features array<double>, label double")
    # One partition in the order of the rows: then even the last bit is that of one process.
    model = GBDTRegressor(**PARAMS, num_workers=2, tree_learner="data").fit(frame)
    answered = model.transform(frame).orderBy("number").collect()
    try:
        GBDTRegressor(**PARAMS, num_workers=2).fit(frame.selectExpr("features", "double('nan') as label"))
        error = ""
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    prediction = [row.prediction for row in answered]
    assert not any(map(math.isnan, prediction))
    print(json.dumps({"is_remote": is_remote(), "params": PARAMS, "prediction": prediction, "error": error}))
    spark.stop()
