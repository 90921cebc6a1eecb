"""The gradient rules of operators, asked of the operators, beside finite differences."""

import numpy as np
import tvm
from tvm import relax
from tvm.ir.op import Op
from tvm.testing.utils import check_numerical_grads


def _run(build, arrays):
    params = [relax.Var(f"x{i}", relax.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(bb, *params))
        bb.emit_func_output(out)
    machine = relax.VirtualMachine(tvm.compile(relax.transform.LegalizeOps()(bb.get()), "llvm"), tvm.cpu())
    found = machine["main"](*[tvm.runtime.tensor(array) for array in arrays])
    return found.numpy() if hasattr(found, "numpy") else [field.numpy() for field in found]


def _check(op, *arrays, **attributes):
    def rule(bb, *params):
        *operands, adjoint = params
        output = bb.emit(op(*operands, **attributes))
        call = bb.lookup_binding(output)
        return relax.Tuple(call.op.get_attr("FPrimalGradient")(output, call, adjoint, bb))

    def values(*given):
        return _run(lambda bb, *params: op(*params, **attributes), given)

    weights = np.linspace(0.5, 1.5, values(*arrays).size, dtype="float32").reshape(values(*arrays).shape)
    gradients = _run(rule, [*arrays, weights])
    check_numerical_grads(lambda *given: np.sum(weights * values(*given)), list(arrays), gradients)
    return gradients


def _numbers(*shape):
    return np.random.default_rng(len(shape)).uniform(0.5, 2, shape).astype("float32")


def t_gradients_of_elements():
    return [_check(relax.op.exp, _numbers(2)), _check(relax.op.divide, _numbers(2, 1), _numbers(2) + 1)]


def t_gradients_of_products():
    return _check(relax.op.matmul, _numbers(2, 3), _numbers(3))


def t_operands_without_a_gradient():
    indices = relax.Var("indices", relax.TensorType((3,), "int64"))
    call = relax.op.take(relax.Var("x", relax.TensorType((2,), "float32")), indices, axis=0)
    adjoint, output = (relax.Var(name, relax.TensorType((3,), "float32")) for name in ("adjoint", "output"))
    compared = relax.op.less(output, output)
    rules = [(call, call.op), (compared, Op.get("relax.less"))]
    found = [op.get_attr("FPrimalGradient")(output, call, adjoint, relax.BlockBuilder())[-1] for call, op in rules]
    return [share.op.name for share in found]


def t_a_wrong_gradient():
    check_numerical_grads(lambda x: np.sum(x * x), [_numbers(3)], [_numbers(3) * 4])


def t_gradients_by_name():
    x, y = _numbers(3), _numbers(2, 3)
    check_numerical_grads(lambda x, y: np.sum(x * y), {"x": x, "y": y}, {"x": y.sum(axis=0)})
    return True
