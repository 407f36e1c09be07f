"""Every parameter of a training: its name, aliases and rule."""
