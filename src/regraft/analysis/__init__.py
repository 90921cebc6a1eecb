"""Questions about a program: what variables stand for, who uses them, what is free, unused or impure.

Under Relax's names where Relax has one. Knows the language and the vocabulary; answers, and changes nothing,
but for `remove_all_unused`. Every question costs time linear in the program.
"""

from ..left_out import names_left_out
from ..second_paths import attach_second_paths
from .bodies import loop_body
from .cost import Cost, bytes_of, call_cost, constant_bytes, elements_of, estimate_cost
from .machine import CPU_CORE, Machine, call_seconds
from .purity import contains_impure_call, find_impure_call
from .recursion import computable_at_compile_time, detect_recursion
from .types import (
    BaseCheckResult,
    collect_non_negative_expressions,
    definable_tir_vars_in_type,
    derive_call_ret_type,
    erase_to_well_defined,
    get_static_type,
    tir_vars_in_type,
    type_base_check,
    type_lca,
)
from .unused import live_bindings, remove_all_unused
from .uses import DirectUses, direct_uses, udchain, used_vars, users_of
from .variables import (
    all_global_vars,
    all_vars,
    bound_vars,
    called_names,
    defined_symbolic_vars,
    free_symbolic_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
)
from .well_formed import WellFormedError, check_well_formed, well_formed

__all__ = [
    "CPU_CORE",
    "BaseCheckResult",
    "Cost",
    "DirectUses",
    "Machine",
    "WellFormedError",
    "all_global_vars",
    "all_vars",
    "bound_vars",
    "bytes_of",
    "call_cost",
    "call_seconds",
    "called_names",
    "check_well_formed",
    "collect_non_negative_expressions",
    "computable_at_compile_time",
    "constant_bytes",
    "contains_impure_call",
    "definable_tir_vars_in_type",
    "defined_symbolic_vars",
    "derive_call_ret_type",
    "detect_recursion",
    "direct_uses",
    "elements_of",
    "erase_to_well_defined",
    "estimate_cost",
    "find_impure_call",
    "free_symbolic_vars",
    "free_vars",
    "get_static_type",
    "get_var2val",
    "live_bindings",
    "loop_body",
    "name_to_binding",
    "post_order_visit",
    "remove_all_unused",
    "tir_vars_in_type",
    "type_base_check",
    "type_lca",
    "udchain",
    "used_vars",
    "users_of",
    "well_formed",
]

__getattr__ = names_left_out(__name__)
attach_second_paths(__name__)
