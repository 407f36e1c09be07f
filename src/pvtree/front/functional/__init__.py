"""LightGBM's functional interface, a thin layer over the estimators: Dataset, train, cv and Booster."""

from pvtree.front.functional.booster import Booster
from pvtree.front.functional.cross_validation import CVBooster, cv
from pvtree.front.functional.dataset import Dataset
from pvtree.front.functional.dataset_columns import Sequence
from pvtree.front.functional.training import train

__all__ = ["Booster", "CVBooster", "Dataset", "Sequence", "cv", "train"]
