"""Kernels of exact voting's proofs: bounds on the gains of features outside the election."""
