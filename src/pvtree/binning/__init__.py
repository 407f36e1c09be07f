"""Rows of numbers become bins: thresholds that any partition agrees on, and the shard that a worker trains on."""
