"""LightGBM's functional interface: Dataset, train, cv and Booster, a thin layer over the estimators."""

from pvtree.front.functional.booster import Booster
from pvtree.front.functional.cross_validation import CVBooster, cv
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.training import train

__all__ = ["Booster", "CVBooster", "Dataset", "cv", "train"]
