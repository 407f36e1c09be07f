"""Predicts what a training will cost on a cluster, before anything is trained."""
