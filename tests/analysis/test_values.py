"""The bindings that compute with a value: through other names, written-out tuples, and fields of them."""

from __future__ import annotations

import regraft as rx
from regraft import op
from regraft.analysis.values import BlockView


def test_a_user_of_one_field_of_a_tuple_is_no_user_of_the_others() -> None:
    builder = rx.BlockBuilder()
    x = rx.Var("x", rx.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            one, other = builder.emit(op.exp(x)), builder.emit(op.tanh(x))
            both = builder.emit(rx.Tuple([one, other]))
            sine = builder.emit(op.sin(builder.emit(rx.TupleGetItem(both, 0))))
            cosine = builder.emit(op.cos(builder.emit(rx.TupleGetItem(both, 1))))
            total = builder.emit_output(op.add(sine, cosine))
        builder.emit_func_output(total)
    view = BlockView(builder.get()["main"].body.blocks[0])
    names = {var.name_hint: var for var in view.position}
    bound = {var: view.definitions[var] for var in names.values()}
    [exp] = [var for var, value in bound.items() if isinstance(value, rx.Call) and value.op is op.exp(x).op]
    [sin] = [var for var, value in bound.items() if isinstance(value, rx.Call) and value.op is op.sin(x).op]
    assert view.consumers(exp) == ([sin], False)
    assert view.consumers(exp, sin) == ([], False)
