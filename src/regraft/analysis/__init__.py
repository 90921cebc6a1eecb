"""Analyses of a program: the values of variables, their users, and what is free, unused or impure.

Names are Relax's if Relax has one. Knows the language and the vocabulary. Nothing is changed, except by
`remove_all_unused`. The cost of every analysis is linear in the program.
"""

from ..left_out import names_left_out as _names_left_out
from ..second_paths import attach_second_paths as _attach_second_paths
from .bodies import loop_body as loop_body
from .compile_time import computable_at_compile_time as computable_at_compile_time
from .cost import Cost as Cost
from .cost import bytes_of as bytes_of
from .cost import call_cost as call_cost
from .cost import constant_bytes as constant_bytes
from .cost import elements_of as elements_of
from .cost import estimate_cost as estimate_cost
from .machine import CPU_CORE as CPU_CORE
from .machine import Machine as Machine
from .machine import call_seconds as call_seconds
from .purity import contains_impure_call as contains_impure_call
from .purity import find_impure_call as find_impure_call
from .recursion import detect_recursion as detect_recursion
from .types import BaseCheckResult as BaseCheckResult
from .types import collect_non_negative_expressions as collect_non_negative_expressions
from .types import definable_tir_vars_in_type as definable_tir_vars_in_type
from .types import derive_call_ret_type as derive_call_ret_type
from .types import erase_to_well_defined as erase_to_well_defined
from .types import get_static_type as get_static_type
from .types import tir_vars_in_type as tir_vars_in_type
from .types import type_base_check as type_base_check
from .types import type_lca as type_lca
from .unused import live_bindings as live_bindings
from .unused import remove_all_unused as remove_all_unused
from .uses import DirectUses as DirectUses
from .uses import direct_uses as direct_uses
from .uses import udchain as udchain
from .uses import used_vars as used_vars
from .uses import users_of as users_of
from .variables import all_global_vars as all_global_vars
from .variables import all_vars as all_vars
from .variables import bound_vars as bound_vars
from .variables import called_names as called_names
from .variables import defined_symbolic_vars as defined_symbolic_vars
from .variables import free_symbolic_vars as free_symbolic_vars
from .variables import free_vars as free_vars
from .variables import get_var2val as get_var2val
from .variables import name_to_binding as name_to_binding
from .variables import post_order_visit as post_order_visit
from .well_formed import WellFormedError as WellFormedError
from .well_formed import check_well_formed as check_well_formed
from .well_formed import well_formed as well_formed

__all__: list[str] = ["CPU_CORE"]
__all__ += sorted([name for name, value in globals().items() if callable(value) and name[0] != "_"])  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__ = _names_left_out(__name__)
_attach_second_paths(__name__)
