"""The matcher: patterns compiled to steps, contexts planned and joined, and the views of a block that they read."""
