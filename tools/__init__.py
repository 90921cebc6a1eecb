"""Generators of the pages in docs/ that are derived from the package."""
