"""What users call: estimators, LightGBM's functions, the command line, plots and the demo."""
