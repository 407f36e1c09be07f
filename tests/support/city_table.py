"""A table for trainings on several workers."""

import numpy as np
import pandas as pd


def city_table(n_rows):
    """A column with gaps, and sorted categories, of which most workers know only one; and a signal in the columns."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    frame["b"] = frame["b"].where(rng.random(n_rows) < 0.7)
    frame["city"] = pd.Categorical(np.sort(rng.choice(["Bonn", "Ulm", "Trier", "Jena"], n_rows)))
    signal = frame["a"] + frame["b"].fillna(1) + (frame["city"] == "Ulm") + rng.normal(size=n_rows) / 3
    return frame, signal.to_numpy()
