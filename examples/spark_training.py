"""Training on Spark: two tasks of one barrier stage train together, and the model opens without Spark.

pip install 'pvtree[spark]'
python examples/spark_training.py
"""

from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import SparkSession
from sklearn.datasets import load_breast_cancer

from pvtree.spark import GBDTClassifier

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    X, y = load_breast_cancer(return_X_y=True)
    frame = spark.createDataFrame(
        [(row, float(label), i % 4 == 0) for i, (row, label) in enumerate(zip(X.tolist(), y, strict=True))],
        "features array<double>, label double, held boolean",
    )
    classifier = GBDTClassifier(num_workers=2, n_estimators=20, validation_indicator_col="held", eval_metric="auc")
    model = classifier.fit(frame)
    held = model.transform(frame.where("held"))
    print(f"area under the ROC curve: {BinaryClassificationEvaluator().evaluate(held):.3f}")
    print(model.traffic_)
    model.save_model("model.json")  # pvtree.load("model.json") needs no Spark
    spark.stop()
