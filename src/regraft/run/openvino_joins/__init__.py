"""Rewrites of nodes that OpenVINO's CPU plugin would compute wrongly, alone or fused with others.

Each module is about one kind of node, and describes the error. All errors were observed in 2026.4, in float32.
"""

from __future__ import annotations

import onnx_ir as ir

from .attentions import ATTENTION, products_of, softplus_of, stand_alone, write_out_mish
from .boxes import limit_overlap
from .codes import (
    hold_in_bytes,
    misread_codes,
    read_bytes,
    read_numbers,
    reads_codes,
    round_by_arithmetic,
    rounds_to_16_bits,
)
from .convolutions import join_padding, pick_before, reaches_padding_alone, skips_padded_elements
from .nodes import REDUCTIONS
from .pools import axes_of_empty_windows, cut_windows, falls_somewhere, pool_again
from .reductions import add_axes_after, drop_axes_after, meets_channels, outer_axis, read_matrix
from .transposes import follows_transpose, turn_four_axes


def keep_apart(graph: ir.Graph) -> None:
    """Change the nodes in ``graph`` that OpenVINO would fuse or compute wrongly, in place; values stay the same.

    - A reduction over the first or last of three axes reads a matrix if per-channel numbers follow, and always in a
      graph with quantized values, because OpenVINO moves their scales behind it. Axes of size 1 that are added before a
      reduction are added after it.
    - A max pool before a non-monotonic activation is followed by a pool of single elements.
    - A strided convolution of kernel size 1 reads padded elements that were picked before. A convolution with windows
      in the padding alone reads zeros concatenated to its data. Windows of a pool that rounds up are cut off if they
      begin behind all elements.
    - In a graph with transposes, reductions keep their axes, which are dropped after them, and a transpose of three
      axes that follows another one permutes four.
    - In a graph with attention, Mish that does not follow a convolution is written out in a form that OpenVINO does not
      recognize, and attention that is part of a value that is read twice is followed by a pool of single elements.
    - Codes of 2 bits, and codes of 4 bits that are converted, get a byte each. Quantizations to 16 bits are written as
      arithmetic. Codes with a scale per row of a product's right operand, or per column of a lookup table, become the
      numbers that they represent, and so does a bias.
    - Boxes that must not overlap may overlap by next to nothing.

    Cost: linear in the nodes, and in such codes.
    """
    nodes = list(graph.all_nodes())
    kinds = {node.op_type for node in nodes if not node.domain}
    has_scales, turns = "DequantizeLinear" in kinds, "Transpose" in kinds
    attends = not kinds.isdisjoint(ATTENTION)
    hold_in_bytes(graph, nodes)
    for node in nodes:
        if node.domain:
            continue
        if node.op_type in REDUCTIONS:
            add_axes_after(node)
            axis = outer_axis(node)
            if axis is not None and (has_scales or meets_channels(node.outputs[0])):
                read_matrix(node, axis)
            elif turns and not node.attributes.get_int("keepdims", 1):
                drop_axes_after(node)
        elif node.op_type in ("AveragePool", "MaxPool"):
            if node.op_type == "MaxPool" and falls_somewhere(node.outputs[0]):
                pool_again(node)
            if axes := axes_of_empty_windows(node):
                cut_windows(node, axes)
        elif node.op_type == "Cast" and reads_codes(node):
            read_bytes(node)
        elif rounds_to_16_bits(node):
            round_by_arithmetic(node)
        elif (place := misread_codes(node)) is not None:
            read_numbers(node, place)
        elif node.op_type == "Transpose" and follows_transpose(node):
            turn_four_axes(node)
        elif attends and node.op_type in ("Mish", "Tanh") and (softplus := softplus_of(node)) is not None:
            write_out_mish(node, softplus)
        elif node.op_type == "NonMaxSuppression":
            limit_overlap(node)
        elif node.op_type == "Conv" and skips_padded_elements(node):
            pick_before(node)
        elif node.op_type == "Conv" and reaches_padding_alone(node):
            join_padding(node)
    for product in [one for node in nodes if node.op_type in ATTENTION for one in products_of(node)]:
        stand_alone(product)
