"""The compiled part: numba functions on plain arrays, one file per step of the data's way."""
