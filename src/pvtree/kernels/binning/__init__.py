"""Kernels that turn floats into bins."""
