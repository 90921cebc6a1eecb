"""Composite operators: each is one function over the array API.

On NumPy arrays this function is the reference. On expressions it writes a program of primitives (`decompose`).
"""
