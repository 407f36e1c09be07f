"""Kernels of what travels between workers: ballots and histograms."""
