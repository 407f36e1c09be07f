"""What can be asked of a training: names, aliases and rules of every parameter."""
