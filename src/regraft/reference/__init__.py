"""Values to hold programs to: inputs that are drawn at random, and how far two results may differ."""
