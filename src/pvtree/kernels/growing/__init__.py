"""Kernels that grow trees: histograms, the search for splits, rows to children."""
