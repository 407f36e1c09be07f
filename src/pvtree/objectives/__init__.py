"""What is minimised and what is measured: losses, metrics and exact sums."""
