"""Damaged files: what a person gives must end in a result or in one clear message, whatever is in it."""
