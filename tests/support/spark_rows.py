"""Small tables for the tests of Spark."""

import numpy as np


def make_rows(n_rows=300):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X).sum(axis=1) + rng.normal(size=n_rows)
    return X, signal


def as_frame(spark, X, n_partitions, **columns):
    """Partition m has the m-th block of rows, so that workers have what those of a virtual cluster have."""
    kinds = {"features": "array<double>"} | {
        name: {"f": "double", "b": "boolean", "U": "string"}.get(np.asarray(values).dtype.kind, "long")
        for name, values in columns.items()
    }
    rows = list(zip(X.tolist(), *(np.asarray(values).tolist() for values in columns.values()), strict=True))
    ddl = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    bounds = [len(rows) * m // n_partitions for m in range(n_partitions + 1)]
    blocks = spark.sparkContext.parallelize(range(n_partitions), n_partitions)
    cut = blocks.flatMap(lambda m: rows[bounds[m] : bounds[m + 1]])
    return spark.createDataFrame(cut, ddl)
