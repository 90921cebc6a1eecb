"""Passes of which each result is checked, and names of TVM's deeper paths."""

from tvm import relax
from tvm.ir.base import assert_structural_equal
from tvm.ir.module import IRModule
from tvm.ir.transform import PassContext
from tvm.relax.ir.instrument import WellFormedInstrument
from tvm.relax.utils import convert_to_expr
from tvm.runtime import Object
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class Sound:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y


@I.ir_module(check_well_formed=False)
class Unsound:
    @R.function(check_well_formed=False)
    def main(x: R.Tensor((2,), "float32")):
        R.func_attr({"relax.force_pure": True})
        y = R.print(x, format="{}")
        return x

    @R.function(private=True, pure=False, check_well_formed=False)
    def other(x: R.Tensor((2,), "float32")):
        R.func_attr({"relax.force_pure": True})
        return x


def t_sound_programs_pass():
    with PassContext(instruments=[WellFormedInstrument()]):
        after = relax.transform.ToNonDataflow()(Sound)
    assert_structural_equal(after, after)
    return [after, isinstance(after, Object), isinstance(convert_to_expr(1), Object)]


def t_unsound_programs_are_refused():
    with PassContext(instruments=[WellFormedInstrument(check_ty=False)]):
        return relax.transform.ToNonDataflow()(Unsound)


def t_unsound_programs_before_a_pass():
    found = []
    for before in (True, False):
        try:
            with PassContext(instruments=[WellFormedInstrument(True, before)]):
                relax.transform.ToNonDataflow()(Unsound)
        except Exception:
            found.append(before)
    return found


def t_passes_that_make_programs_sound():
    with PassContext(instruments=[WellFormedInstrument()]):
        relax.transform.Normalize()(Unsound)
    return WellFormedInstrument().skip_pass_name
