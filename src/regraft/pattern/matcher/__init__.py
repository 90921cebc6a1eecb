"""The matcher: a machine that reaches goals, and the steps of patterns and contexts."""
