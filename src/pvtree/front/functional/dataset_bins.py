"""The bins that training would make of a Dataset's columns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.bin_rules import BinRules
from pvtree.binning.thresholds import choose_own_bins
from pvtree.comm import Solo
from pvtree.kernels.team import Team
from pvtree.parameters.aliases import read_names
from pvtree.reading import inputs
from pvtree.reading.column_values import read_by_column, read_forced_bins
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import Source, as_source
from pvtree.reading.tables import Columns

if TYPE_CHECKING:
    from pvtree.front.functional.dataset import Dataset


_KNOWN = ("max_bin", "min_data_in_bin", "max_bin_by_feature", "forcedbins_filename", "zero_as_missing")


def _as_numbers(data: Dataset, max_bin: int = 255) -> tuple[Columns, Source]:
    """The columns, and the rows as training reads them."""
    table = inputs.read_table(data.data)
    columns = inputs.learn_columns(table, data.categorical_feature, max_bin, Solo(), data.given_names)
    return columns, as_source(inputs.encode(table, columns))


def dump_text(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write the names and the rows as numbers: Datasets of the same rows have the same text."""
    _, source = _as_numbers(data)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"num_data: {source.shape[0]}\nfeature_names: {', '.join(data.get_feature_name())}\n")
        for block in source.blocks():
            np.savetxt(file, block if isinstance(block, np.ndarray) else block.toarray(), fmt="%.17g")


def count_bins(data: Dataset, feature: int) -> int:
    """Ordered bins or categories of a column, and one for missing values where there are any."""
    settings = read_names(data.params, _KNOWN, "Dataset").values
    max_bin, min_rows = int(settings.get("max_bin", 255)), int(settings.get("min_data_in_bin", 1))
    columns, source = _as_numbers(data, max_bin)
    categorical = {j: len(values) for j, values in columns.categories.items() if j not in columns.ordered}
    rules = BinRules(
        max_bin,
        min_rows,
        read_by_column("max_bin_by_feature", settings.get("max_bin_by_feature"), columns, max_bin),
        dict(read_forced_bins(settings.get("forcedbins_filename"), columns)),
        bool(settings.get("zero_as_missing", False)),
    )
    sample = RowIds.consecutive(source.shape[0]).sample()
    with Team(1) as team:
        thresholds = choose_own_bins(source, sample, (0, source.shape[1]), categorical, rules, team)
    column = source.matrix()[:, feature]
    zero_is_missing = rules.zero_as_missing or feature in categorical
    has_missing = np.isnan(column).any() or (zero_is_missing and (column == 0).any())
    return int(thresholds.n_bins[feature]) + int(has_missing)
