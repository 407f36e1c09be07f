"""LightGBM's functional interface: Dataset, train, cv and Booster, a thin layer over the estimators."""

from pvtree.functional.booster import Booster
from pvtree.functional.cross_validation import CVBooster, cv
from pvtree.functional.dataset import Dataset
from pvtree.functional.training import train

__all__ = ["Booster", "CVBooster", "Dataset", "cv", "train"]
