"""Reference values for checks of programs: random inputs, and the tolerance between two results."""
