"""What users touch: estimators, LightGBM's functions, the command line, pictures and the demo."""
