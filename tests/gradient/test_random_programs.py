"""Random programs of matrices: values shared, joined and cut, transposed at random, against central differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from regraft.gradient import Gradient
from regraft.ir import BlockBuilder, Expr, IRModule, TensorType, Var
from regraft.script import relax as R
from tests.gradient.checks import central_differences, gradients, numbers, second_order_module

if TYPE_CHECKING:
    from tests.conftest import RunPython


def random_program(seed: int, length: int) -> tuple[IRModule, list[np.ndarray]]:
    """A program of ``length`` calls over matrices, each of values that any earlier call made."""
    choose = np.random.default_rng(seed)
    shapes = [(2, 3), (3, 4), (4, 2)]
    params = [Var(f"x{i}", TensorType(shape, "float64")) for i, shape in enumerate(shapes)]
    builder = BlockBuilder()
    values: list[Expr] = list(params)

    def pick() -> Expr:
        return values[int(choose.integers(max(0, len(values) - 6), len(values)))]

    def partner(value: Expr, axis: int, size: int) -> Expr | None:
        fitting = [v for v in values if v.ty.shape[axis] == size]
        return fitting[int(choose.integers(len(fitting)))] if fitting else None

    with builder.function("main", params):
        with builder.dataflow():
            while len(values) < length + len(params):
                value = pick()
                rows, columns = value.ty.shape
                kind = int(choose.integers(9))
                made: Expr | None = None
                if kind <= 2:
                    other = partner(value, 0, columns)
                    made = None if other is None else R.matmul(value, other) * 0.5
                elif kind == 3:
                    made = R.permute_dims(value, [[1, 0], None][int(choose.integers(2))])
                elif kind == 4:
                    made = R.tanh(value)
                elif kind == 5:
                    same = [v for v in values if v.ty.shape == (rows, columns)]
                    made = value * same[int(choose.integers(len(same)))]
                elif kind == 6 and columns > 1:
                    pair = builder.emit(R.split(value, [1], 1))
                    made = R.concat([builder.emit((pair[1], pair[0]))[0], pair[0]], 1)
                elif kind == 7:
                    made = value + R.mean(value, 1, keepdims=True)
                elif kind == 8:
                    made = R.reshape(R.sin(value), (columns, rows))
                if made is not None:
                    values.append(builder.emit(made))
            terms = [R.sum(value * R.const(numbers(*value.ty.shape, seed=9))) for value in values[-3:]]
            loss = builder.emit_output(terms[0] + terms[1] + terms[2])
        builder.emit_func_output(loss)
    return builder.get(), [numbers(*shape, seed=seed, low=-0.8, high=0.8) for shape in shapes]


@pytest.mark.parametrize("seed", range(30))
def test_a_random_program_has_the_gradient_of_finite_differences(seed: int) -> None:
    module, arrays = random_program(seed, 4 + seed)
    for got, want in zip(gradients(module, arrays), central_differences(module, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_of_a_random_program_can_be_differentiated(seed: int) -> None:
    module, arrays = random_program(seed, 6)
    second = second_order_module(module)
    for got, want in zip(gradients(second, arrays), central_differences(second, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_the_adjoint_is_the_same_in_every_run(
    run_python: RunPython, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _ = random_program(3, 30)
    (tmp_path / "program.py").write_text(module.script(), encoding="utf-8")
    code = (
        "import regraft as rx\n"
        "from regraft.gradient import Gradient\n"
        "print(Gradient('main')(rx.parse(open('program.py').read())).script())\n"
    )
    texts: list[str] = []
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        finished = run_python("-c", code)
        assert finished.returncode == 0, finished.stderr
        texts.append(finished.stdout)
    assert texts[0] == texts[1] == Gradient("main")(module).script() + "\n"
