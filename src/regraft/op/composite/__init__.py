"""Composite operators: functions over the array API, told once.

Run on NumPy such a function is the reference, run over expressions it is a program of primitives (`decompose`).
"""
