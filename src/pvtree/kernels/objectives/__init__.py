"""Kernels of losses, metrics and exact sums."""
