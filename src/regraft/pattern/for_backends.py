"""Patterns for backends, with Relax's names. Each function returns a pattern and names for its parts.

The names go to `FusionPattern`: its check and its attributes look up matched values by these names. Relax's name of
this module is `regraft.backend.patterns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .build import is_const, is_op, is_tuple_get_item, wildcard
from .pattern import DFPattern, PatternError

NamedParts = tuple[DFPattern, Mapping[str, DFPattern]]

__all__ = [
    "make_attention_pattern",
    "make_conv2d_pattern",
    "make_fused_bias_activation_pattern",
    "make_layer_norm_pattern",
    "make_matmul_dequantize_pattern",
    "make_matmul_multiply_pattern",
    "make_matmul_pattern",
    "make_residual_block_pattern",
    "make_stacked_attention_pattern",
]


def _with_bias_and_activation(
    out: DFPattern,
    parts: dict[str, DFPattern],
    with_bias: bool,
    activation: str | None,
    allow_reshape: bool = False,
) -> NamedParts:
    if with_bias:
        bias = parts["bias"] = wildcard()
        added = is_op("relax.reshape")(bias, wildcard()) if allow_reshape else bias
        out = is_op("relax.add")(out, added)
    return (is_op(activation)(out) if activation else out), parts


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> NamedParts:
    """An operator with two operands, optionally followed by the addition of a bias, and by an activation.

    With ``allow_reshape`` the bias is reshaped before it is added. Parts: ``lhs``, ``rhs``, ``root``, ``bias``.
    """
    lhs, rhs = wildcard(), wildcard()
    out = is_op(op_name)(lhs, rhs)
    return _with_bias_and_activation(out, {"lhs": lhs, "rhs": rhs, "root": out}, with_bias, activation, allow_reshape)


def make_residual_block_pattern(
    node_output: DFPattern | NamedParts, binary_op: str = "relax.add", activation: str | None = None
) -> NamedParts:
    """``node_output`` combined with a ``residual``, in either order, optionally followed by an activation.

    Parts: those of ``node_output``, and ``residual``.
    """
    found, parts = node_output if isinstance(node_output, tuple) else (node_output, dict[str, DFPattern]())
    residual = wildcard()
    op = is_op(binary_op)
    out: DFPattern = op(found, residual) | op(residual, found)
    return (is_op(activation)(out) if activation else out), {**parts, "residual": residual}


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> NamedParts:
    """A 2-d convolution with an optional bias and activation. Parts: ``input``, ``weight``, ``root``, ``bias``."""
    image, weight = wildcard(), wildcard()
    out = is_op("relax.nn.conv2d")(image, weight)
    return _with_bias_and_activation(out, {"input": image, "weight": weight, "root": out}, with_bias, activation)


def _product(transposed_rhs: bool, extra: Mapping[str, DFPattern]) -> tuple[DFPattern, dict[str, DFPattern]]:
    lhs, rhs = wildcard(), wildcard()
    out = is_op("relax.matmul")(lhs, is_op("relax.permute_dims")(rhs) if transposed_rhs else rhs)
    return out, {"lhs": lhs, "rhs": rhs, "root": out, **extra}


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> NamedParts:
    """A matmul with an optional bias and activation.

    Parts: ``lhs``, ``rhs`` (before it is transposed), ``root``, ``bias``.
    """
    out, parts = _product(transposed_rhs, {})
    return _with_bias_and_activation(out, parts, with_bias, activation)


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> NamedParts:
    """A matmul whose result is dequantized by constants. Parts: those of the matmul, ``scale`` and ``zp``."""
    scale, zero_point = is_const(), is_const()
    out, parts = _product(transposed_rhs, {"scale": scale, "zp": zero_point})
    return is_op("relax.dequantize")(out, scale, zero_point), parts


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> NamedParts:
    """A matmul times the product of two scales of shape ``(1,)``, cast to another dtype.

    Parts: those of the matmul, ``scaleA`` and ``scaleB``.
    """
    left, right = wildcard(), wildcard()
    out, parts = _product(transposed_rhs, {"scaleA": left, "scaleB": right})
    scale = is_op("relax.multiply")(left.has_shape((1,)), right.has_shape((1,)))
    return is_op("relax.astype")(is_op("relax.multiply")(out, scale)), parts


def make_layer_norm_pattern() -> NamedParts:
    """A layer norm, without named parts."""
    return is_op("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard()), {}


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> NamedParts:
    """Attention with an optional bias, or over sequences of several lengths. Parts: its operands, by their names."""
    if var_len and not with_bias:
        lengths = ["seqstart_q", "seqstart_k", "max_seqlen_q", "max_seqlen_k"]
        parts: dict[str, DFPattern] = {name: wildcard() for name in ["query", "key", "value", *lengths]}
        return is_op("relax.nn.attention_var_len")(*parts.values()), parts
    parts = {name: wildcard() for name in ["query", "key", "value", *["bias"] * with_bias]}
    return is_op(f"relax.nn.attention{'_bias' * with_bias}")(*parts.values()), parts


def make_stacked_attention_pattern(start_op: str, with_bias: bool = False, layout: str = "BS3NH") -> NamedParts:
    """Attention whose query, key and value are cut from one tensor by ``start_op``, ``"split"`` or ``"strided_slice"``.

    With ``layout="BS3NH"`` the pieces are reshaped. With ``"SBN3H"`` the pieces and the result are transposed. Parts:
    ``stacked_qkv``, ``attention``, ``bias`` if there is one; ``split``, or ``strided_slice_query``, ``..._key`` and
    ``..._value``; the shapes ``query_reshape_list`` and so on, which only ``"BS3NH"`` matches; with ``"SBN3H"`` also
    the permutations ``q_transpose`` and so on. Raises `PatternError` for another start or layout.
    """
    if start_op not in ("split", "strided_slice") or layout not in ("BS3NH", "SBN3H"):
        raise PatternError(
            f"make_stacked_attention_pattern: start_op={start_op!r}, layout={layout!r}; expected 'split' or "
            "'strided_slice', and 'BS3NH' or 'SBN3H'"
        )
    names = ["query", "key", "value"]
    stacked = wildcard()
    parts: dict[str, DFPattern] = {"stacked_qkv": stacked}
    parts.update({f"{name}_reshape_list": wildcard() for name in names})
    if start_op == "split":
        cut = parts["split"] = is_op("relax.split")(stacked)
        pieces: Sequence[DFPattern] = [is_tuple_get_item(cut, index) for index in range(3)]
    else:
        pieces = [is_op("relax.strided_slice")(stacked, varg_default_wildcard=True) for _ in names]
        parts.update({f"strided_slice_{name}": piece for name, piece in zip(names, pieces, strict=True)})
    operands: list[DFPattern]
    if layout == "BS3NH":
        shapes = [parts[f"{name}_reshape_list"] for name in names]
        operands = [is_op("relax.reshape")(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)]
    else:
        operands = [is_op("relax.permute_dims")(piece) for piece in pieces]
        parts.update({f"{name[0]}_transpose": operand for name, operand in zip(names, operands, strict=True)})
    if with_bias:
        parts["bias"] = wildcard()
        operands.append(parts["bias"])
    out = parts["attention"] = is_op(f"relax.nn.attention{'_bias' * with_bias}")(*operands)
    return (is_op("relax.permute_dims")(out) if layout == "SBN3H" else out), parts
