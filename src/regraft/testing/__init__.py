"""Tools for tests of programs and rules: same-value checks, rule checks, random programs and random inputs.

Knows the language, the vocabulary, the analyses, rewriting and the engines. Nothing in the library depends on it. It
depends on no test framework: a failed check raises `AssertionError`.
"""

from ..reference.trials import random_arguments
from ..second_paths import attach_second_paths
from . import env
from .ast_printer import dump_ast
from .check_rule import RuleReport, check_rule
from .differences import check_numerical_grads
from .files import TempDirectory, tempdir
from .fixtures import fixture, main, parameter
from .random_programs import Options, programs, random_function, random_inputs, random_module
from .same_values import NotRunnableError, assert_allclose, assert_rewrites, assert_same_values
from .workloads import get_relax_attention_module, get_relax_matmul_module, get_relax_stacked_attention_module

__all__ = [
    "NotRunnableError",
    "Options",
    "RuleReport",
    "TempDirectory",
    "assert_allclose",
    "assert_rewrites",
    "assert_same_values",
    "check_numerical_grads",
    "check_rule",
    "dump_ast",
    "env",
    "fixture",
    "get_relax_attention_module",
    "get_relax_matmul_module",
    "get_relax_stacked_attention_module",
    "main",
    "parameter",
    "programs",
    "random_arguments",
    "random_function",
    "random_inputs",
    "random_module",
    "tempdir",
]

attach_second_paths(__name__)
