"""Data in: arrays, frames, Arrow, sparse matrices, files and Dask collections become rows of numbers."""
