"""Training from rows to a model: boosting, forests, evaluation, callbacks and checkpoints."""
