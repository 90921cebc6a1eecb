"""A program that is optimized again is the same program, node by node."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

import regraft as rx
from tests.torch_kit import Of


class Masked(nn.Module):
    """Attention written out, with a mask between two numbers that are tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(16, 48)
        self.register_buffer("seen", torch.tensor(0.0))
        self.register_buffer("hidden", torch.tensor(-1e4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Words that see those before them."""
        query, key, value = self.into(x).chunk(3, -1)
        steps = torch.arange(x.shape[1])
        mask = torch.where(steps[:, None] < steps, self.hidden, self.seen)
        return torch.softmax(query @ key.mT / 4 + mask, -1) @ value


def _numbers(x: torch.Tensor) -> Any:
    limit = torch.tensor(0.5)
    return torch.maximum(x, limit) - limit, torch.pow(x.abs(), limit), torch.remainder(x, limit), x < limit


def _buckets(x: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(x.shape[1])
    before = torch.min(steps - steps[:, None], torch.zeros_like(steps[:, None], pin_memory=False))
    return before.to(x.dtype) @ x


class Counted(nn.Module):
    """Two counters that are set from one number, as those of the layers of a static cache are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.zeros((), dtype=torch.int64))
        self.register_buffer("second", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Words at their places."""
        for counter in (self.first, self.second):
            counter.copy_(x[0, 0, 0].long())
        return x + self.first.add_(1) * self.second.add_(1)


CASES: dict[str, nn.Module] = {
    "counted": Counted(),
    "masked": Masked(),
    "numbers": Of(_numbers),
    "buckets": Of(_buckets),
    "decoder": nn.TransformerDecoderLayer(16, 2, 8, batch_first=True),
    "pieces": Of(lambda x: torch.cat([part.cumsum(1) for part in x.split([4, 12], -1)], -1).roll(1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_is_done_after_one_run(name: str) -> None:
    model, x = CASES[name].eval(), torch.randn(3, 9, 16)
    sizes = {0: Dim("batch", max=32), 1: Dim("length", min=3, max=32)}
    args = (x, x + 1) if name == "decoder" else (x,)
    axes = (sizes,) * len(args)
    program = torch.export.export(model, args, dynamic_shapes={"args": axes} if isinstance(model, Of) else axes)
    once = rx.optimize(program)
    assert _nodes(rx.optimize(once)) == _nodes(once)
    for count, length in ((3, 9), (5, 4)):
        given = [one[:, :length].repeat(2, 1, 1)[:count] for one in args]
        torch.testing.assert_close(once.module()(*given), program.module()(*given))
    assert _names(once, "aten.to.") <= _names(program, "aten.to.")


def test_a_size_that_a_reshape_leaves_out_beside_a_write_in_place_is_stated_at_once() -> None:
    def moved(x: torch.Tensor) -> Any:
        sums = x.sum(0) * 1
        sums[:, 0] += 3
        first, second = x.split([8, 8], -1)
        return sums, first.view(3, -1, 2, 4), second.view(3, 9, -1, 4)

    x = torch.randn(3, 9, 16)
    program = torch.export.export(Of(moved), (x,))
    once = rx.optimize(program)
    assert _nodes(rx.optimize(once)) == _nodes(once)
    assert "aten.add_.Tensor" in {str(node.target) for node in once.graph.nodes}
    torch.testing.assert_close(once.module()(x), program.module()(x))


class Remembers(nn.Module):
    """Buffers that are written in another order than that in which they are registered."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("first", "second", "third"):
            self.register_buffer(name, torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows with what was remembered."""
        self.third.copy_(x.sum(0))
        self.second.mul_(2).add_(self.third)
        self.first.copy_(self.second * x[0])
        return x * self.first + self.third


def test_buffers_are_written_in_the_order_in_which_the_program_lists_them() -> None:
    x = torch.randn(4, 16)
    program = torch.export.export(Remembers(), (x,))
    once = rx.optimize(program)
    assert _nodes(rx.optimize(once)) == _nodes(once)
    before, after = program.module(), once.module()
    torch.testing.assert_close(after(x), before(x))
    torch.testing.assert_close(dict(after.named_buffers()), dict(before.named_buffers()))


class Turned(nn.Module):
    """Rotations by angles that are known, of which the table may grow a little but not as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", torch.tensor([1.0, 0.5, 0.25, 0.125]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four words, each turned by its place."""
        angles = torch.arange(4.0)[:, None] * self.rates
        both = torch.cat([angles, angles], -1)
        return x * both.cos() + x.flip(-1) * both.sin() + angles.exp().repeat(1, 2) * x


def _halved(x: torch.Tensor) -> Any:
    rows, others = x * 2, x.sin()
    rows[0] = rows[0] * 3
    rows[1].add_(1)
    rows[2].add_(2)
    return rows.relu(), others * 4


def _centred(x: torch.Tensor) -> Any:
    for _ in range(2):
        apart = x - x.mean(-1, keepdim=True)
        x = apart * torch.rsqrt(apart.pow(2).mean(-1, keepdim=True) + 1e-5) + torch.tensor([1.0, 2.0, 3.0, 4.0])
    return x


KINDS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "turned": (Turned(), (4, 8)),
    "halved": (Of(_halved), (4, 16)),
    "centred": (Of(_centred), (3, 4)),
}


@pytest.mark.parametrize(("model", "shape"), KINDS.values(), ids=KINDS.keys())
def test_nothing_is_left_for_a_second_run_and_names_stay(model: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    program = torch.export.export(model, (x,))
    once = rx.optimize(program)
    assert rx.optimize(once).graph_module.code == once.graph_module.code
    assert all(node.users for node in once.graph.find_nodes(op="placeholder"))
    torch.testing.assert_close(once.module()(x), program.module()(x))


def _nodes(program: ExportedProgram) -> list[str | None]:
    return [node.format_node() for node in program.graph.nodes]


class Bags(nn.Module):
    """Bags of as many embeddings as there are columns, which is not known before."""

    def __init__(self) -> None:
        super().__init__()
        modes = ("sum", "mean", "max")
        self.tables = nn.ModuleList([nn.EmbeddingBag(50, 4, mode=mode, padding_idx=3) for mode in modes])

    def forward(self, x: torch.Tensor) -> Any:
        """The bags of each kind."""
        return [table(x) for table in self.tables]


def _shuffled(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.channel_shuffle(nn.functional.pixel_unshuffle(x, 2), 4) * 2


ARRANGED: list[tuple[nn.Module, tuple[int, ...], bool]] = [(Bags(), (4, 6), True), (Of(_shuffled), (2, 4, 8, 6), False)]


@pytest.mark.parametrize(("model", "shape", "is_ids"), ARRANGED, ids=["bags", "shuffles"])
def test_what_pytorch_has_one_operator_for_comes_back_as_that_operator(
    model: nn.Module, shape: tuple[int, ...], is_ids: bool
) -> None:
    def draw(rows: int) -> torch.Tensor:
        sizes = (rows, *shape[1:])
        return torch.randint(0, 50, sizes) if is_ids else torch.randn(sizes)

    batch = {0: Dim("batch", max=32)}
    axes = ({"args": (batch,)}) if isinstance(model, Of) else (batch,)
    program = torch.export.export(model, (draw(shape[0]),), dynamic_shapes=axes)
    kept: list[str | None] = []
    result = rx.optimize(program, report=lambda made: kept.append(made.kept))
    assert kept == [None]
    assert _names(result, "aten.") <= _names(program, "aten.")
    for rows in (shape[0], 7):
        x = draw(rows)
        torch.testing.assert_close(result.module()(x), program.module()(x))


def _names(program: ExportedProgram, prefix: str) -> Counter[str]:
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    return Counter(
        name for name in names if name.startswith(prefix) and not name.startswith(("aten._assert", "aten.sym_"))
    )


def test_weights_that_a_model_also_holds_outside_of_its_modules_are_there_once() -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.held = {"first": self.layer.weight, "second": self.layer.weight}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.layer(x)) @ self.held["first"] * self.held["second"].sin()

    program = torch.export.export(Held(), (torch.ones(3, 3),))
    assert len(program.constants) == 2
    result = rx.optimize(program)
    assert list(result.state_dict) == ["layer.weight", "layer.bias"]
    assert not result.constants
    torch.testing.assert_close(result.module()(torch.eye(3)), program.module()(torch.eye(3)))


def test_a_result_that_is_read_as_more_calls_each_time_is_optimized_twice_and_no_more() -> None:
    masked = Of(lambda x, y, m: x[m] * 2 + y[m])
    inputs = torch.arange(4.0), torch.ones(4), torch.tensor([True, False, True, True])
    reports: list[Any] = []
    result = rx.optimize(torch.export.export(masked, inputs), report=reports.append)
    assert reports[0].kept is None
    assert min(Counter(one.name for one in reports[0].passes).values()) == 2
    torch.testing.assert_close(result.module()(*inputs), masked(*inputs))
    assert rx.optimize(result).graph_module.code == result.graph_module.code
