"""Generators of the pages in docs/ that are read off the package."""
