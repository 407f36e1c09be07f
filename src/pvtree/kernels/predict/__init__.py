"""Kernels that run finished trees on raw rows."""
