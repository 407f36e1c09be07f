"""Losses to minimise, metrics to measure, and the exact sums behind both."""
