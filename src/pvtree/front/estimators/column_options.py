"""Parameters of boosting that have a value for each column, read once X's columns are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pvtree.reading.column_values import read_by_column, read_forced_bins
from pvtree.reading.forced_splits import listed_splits, read_forced_splits

if TYPE_CHECKING:
    from pvtree.reading.tables import Columns


def read_column_options(values: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Fields of Params; none for forests and trees, which have no such parameters."""
    if "feature_contri" not in values:
        return {}
    defaults = {"feature_contri": 1.0, "cegb_penalty_feature_coupled": 0.0, "max_bin_by_feature": values["max_bin"]}
    settled: dict[str, Any] = {
        name: read_by_column(name, values[name], columns, default) for name, default in defaults.items()
    }
    splits = read_forced_splits(values["forcedsplits_filename"], columns)
    settled["forced_splits"] = splits
    bins = dict(read_forced_bins(values["forcedbins_filename"], columns))
    for split in listed_splits(splits):  # so that a bin ends exactly there
        bins[split.feature] = tuple(sorted({*bins.get(split.feature, ()), split.threshold}))
    settled["forced_bins"] = tuple(sorted(bins.items()))
    return settled
