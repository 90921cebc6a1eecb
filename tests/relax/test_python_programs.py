"""Programs that were written for Relax do here what they do there, after their imports are changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from .running import PYTHON_PROGRAMS, functions, loaded, outcome, same, written

pytestmark = pytest.mark.filterwarnings("ignore")

TAKEN_HERE: Final = "a form that Relax refuses and that can mean but one thing"
STRICTER: Final = "a program that cannot run, which Relax types"
WRITTEN_OUT: Final = "a private function that a replacement calls is written out in a function; Relax wants a module"
FIELDS: Final = "a tuple that was taken apart is not put together again"
EXACT: Final = "the result of a replacement is cast to the type of what it replaces, and not its operands to wider ones"
WHOLE: Final = "a dataflow block stays one"
ARRAYS: Final = "a short array stands where it is used"
DIFFERS: Final = {
    "printed_text.t_arrays": ARRAYS,
    "printed_text.t_arrays_twice": ARRAYS,
    "printed_text.t_devices": "a device is printed as it was made, without what TVM knows of its kind",
    "printed_text.t_expressions_of_sizes": "a product of sizes has one order",
    "printed_text.t_image": "a number among attributes is Python's",
    "printed_text.t_names_that_clash": "a builder names a result beside the parameters",
    "printed_text.t_norms": "a number has as many digits as it needs",
    "parser.t_local_function": "a function that takes tensors of one shape is none that takes tensors of any",
    "parser.t_branch_on_a_vector": STRICTER,
    "parser.t_branch_on_a_number": STRICTER,
    "parser.t_empty_tuple": "TVM prints no names of empty tuples",
    "parser.t_none_return": "TVM prints no names of empty tuples",
    "parser.t_python_numbers_beside_tensors": TAKEN_HERE,
    "parser.t_names_of_outside": TAKEN_HERE,
    "parser.t_types_of_outside": TAKEN_HERE,
    "parser.t_function_docstring": TAKEN_HERE,
    "parser.t_global_symbol": TAKEN_HERE,
    "building.t_var_without_a_type": "a variable without a type may hold anything",
    "building.t_functions_without_a_type_of_params": "a variable without a type may hold anything",
    "building.t_const": "an array keeps its dtype; Relax makes float32 of float64",
    "building.t_bind_params_of_other_shapes": STRICTER,
    "building.t_bind_symbolic_vars_to_sizes": TAKEN_HERE,
    "building.t_module_attributes": TAKEN_HERE,
    "building.t_analyses_of_a_function": "sizes are no variables of the language",
    "frontend_nn.t_an_input_that_is_unknown": "a name that the method lacks is refused, where Relax leaves it out",
    "ir_builder.t_var_binding": TAKEN_HERE,
    "operators.t_reshape_infers_one_size": TAKEN_HERE,
    "operators.t_index_put": TAKEN_HERE,
    "operators.t_memory_operators": "TVM binds the dtype that is left out, and needs a block for that",
    "mutators.t_unchanged_is_same": "a mutator that changes nothing gives the same object",
    "functions_of_a_builder.t_numbered": "a number follows a name that ends with a digit after an underscore",
    "rewriters.t_global_call": "a name that is taken is numbered; Relax stops at its own check",
    "rewriters.t_sub_from_function": WRITTEN_OUT,
    "rewriters.t_tuple_fields": FIELDS,
    "rewriters.t_tuple_explicit_in_program": FIELDS,
    "rewriters.t_split_three": TAKEN_HERE,
    "rewriters.t_match_cast": "a value whose type was checked is matched as any other",
    "rewriters.t_match_cast_in_pattern": "a match_cast in a pattern says the type of a value",
    "rewriters.t_shape_expr": TAKEN_HERE,
    "rewriters.t_shape_values": TAKEN_HERE,
    "rewriters.t_constant": TAKEN_HERE,
    "rewriters.t_unknown_shape": EXACT,
    "rewriters.t_attrs": "attributes are matched, too",
    "rewriters.t_dataflow": WHOLE,
    "rewriters_of_types.t_unknown_dtype_of_parameters": EXACT,
    "rewriters_of_types.t_unknown_dtype_and_a_user": EXACT,
    "rewriters_of_types.t_unknown_dtype_of_one_operand": EXACT,
    "rewriters_of_types.t_unknown_dtype_in_dataflow": EXACT,
    "rewriters_of_types.t_unknown_dtype_with_a_declared_result": EXACT,
    "rewriters_of_types.t_unknown_shape_replaced_by_an_operator": EXACT,
    "rewriters_of_types.t_known_rank": EXACT,
    "rewriters_of_types.t_any_object": EXACT,
    "rewriters_of_types.t_plain_replacement_in_dataflow": WHOLE,
    "rewriters_of_types.t_dataflow_output_replaced": WHOLE,
}
"""Programs whose outcomes differ on purpose, and why; what they give here is in `HERE`."""

HERE: Final = json.loads((PYTHON_PROGRAMS / "outcomes_that_differ.json").read_text())
"""The outcomes of this package for `DIFFERS`, as `written`."""

_PROGRAMS = [
    pytest.param(path, name, id=f"{path.stem}.{name}")
    for path in sorted(PYTHON_PROGRAMS.glob("*.py"))
    for name in functions(path)
]


@pytest.mark.parametrize(("path", "name"), _PROGRAMS)
def test_a_program_gives_what_it_gives_in_relax(path: Path, name: str, request: pytest.FixtureRequest) -> None:
    here, there = (loaded(path, here=place)[name] for place in (True, False))
    ours = outcome(here)
    found = same(ours, outcome(there))
    if request.node.callspec.id in DIFFERS:
        assert found is not None
        assert written(ours) == HERE[request.node.callspec.id]
    else:
        assert found is None, found
