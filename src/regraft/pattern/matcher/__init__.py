"""The matcher: the machine, the goals of patterns and of contexts, and the views of a block that they read."""
