"""Sizes that can be read from the shapes of tensors, so that a written program need not compute them again.

A size such as ``(n + 1) // 2`` can be written in many equal ways. PyTorch's tracer cannot tell whether two of them are
equal. So it is best to read a size from the shape of a tensor that has it: that is PyTorch's own expression, and it is
computed once.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dims import Dim, Operation, SymVar, dim_product


def operation_told(size: Dim, name: SymVar) -> tuple[Operation, Dim] | None:
    """The only operation (a division, a remainder, an extreme) in ``size``, and its value.

    ``name`` represents the value of ``size``. None if there is no operation, or if it cannot be isolated.
    """
    if isinstance(size, int | SymVar):
        return None
    if isinstance(size, Operation):
        return size, name
    found: Operation | None = None
    for atoms, coefficient in size.terms:
        if any(isinstance(atom, Operation) for atom in atoms):
            if found is not None or len(atoms) != 1 or coefficient != 1:
                return None
            found = atoms[0] if isinstance(atoms[0], Operation) else None
    return None if found is None else (found, name - (size - found))


def with_known(size: Dim, known: Mapping[Operation, Dim]) -> Dim:
    """``size`` with each operation in ``known`` replaced by its value."""
    if not known or isinstance(size, int | SymVar):
        return size
    if isinstance(size, Operation):
        told = known.get(size)
        return size.build(*[with_known(operand, known) for operand in size.operands]) if told is None else told
    total: Dim = 0
    for atoms, coefficient in size.terms:
        factors: list[Dim] = [with_known(atom, known) for atom in atoms]
        total = total + dim_product([coefficient, *factors])
    return total
