"""Primitive operators, one module for each family. Each consumer of programs has a row for every one of them.

Composites that need only a line or two of primitives are in the module of their family, such as `stack` beside
`concat`.
"""
