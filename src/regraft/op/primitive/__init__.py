"""Primitive operators, a module for each family; each consumer of programs has a row for every one of them.

Composites that are a line or two of a family's primitives stand beside them, such as `stack` beside `concat`.
"""
