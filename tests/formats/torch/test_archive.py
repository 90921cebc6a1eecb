"""A ``.pt2`` file is data: one that would have PyTorch run something as it is loaded is refused, and nothing runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regraft.formats import ConvertError
from regraft.formats.reading import telling
from regraft.formats.torch.files import load_exported


class Doubled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).reshape(x.shape[0] * 2, -1, 1)


class Touching:
    """An object that makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.pt2"
    rows = {"x": {0: torch.export.Dim("rows", min=2, max=100)}}
    torch.export.save(torch.export.export(Doubled(), (torch.ones(4, 6),), dynamic_shapes=rows), path)
    return path


def remade(good: Path, change: Callable[[str, bytes], bytes], *added: tuple[str, bytes]) -> Path:
    """The archive ``good`` with other contents: ``change`` gets each name and what it holds."""
    path = good.with_name("bad.pt2")
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))
        for name, content in added:
            target.writestr(name, content)
    return path


def test_how_much_of_an_archive_has_been_read_is_told(good: Path) -> None:
    told: list[tuple[int, int]] = []
    with telling(lambda done, total: told.append((done, total))):
        load_exported(good)
    assert told[-1] == (good.stat().st_size, good.stat().st_size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def pickled(value: object) -> bytes:
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


def bad_inputs(good: Path, touch: Touching) -> Path:
    return remade(good, lambda name, old: pickled((touch,)) if name.endswith("sample_inputs/model.pt") else old)


def bad_weight(good: Path, touch: Touching) -> Path:
    def change(name: str, old: bytes) -> bytes:
        if name.endswith("weights_config.json"):
            return old.replace(b'"use_pickle": false', b'"use_pickle": true')
        return pickled(touch) if name.endswith("weight_0") else old

    return remade(good, change)


def bad_constant(good: Path, touch: Touching) -> Path:
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    config = json.dumps({"config": {"constant": entry}}).encode()
    return remade(
        good,
        lambda name, old: config if name.endswith("constants_config.json") else old,
        ("good/data/constants/opaque_obj_0", pickle.dumps(touch)),
    )


def bad_size(good: Path, touch: Touching) -> Path:
    call = f"exec({'+'.join(f'chr({ord(letter)})' for letter in f'import os; os.mkdir(`{touch.path}`)')})+"
    return remade(good, lambda _, old: old.replace(b'"expr_str": "Mul', f'"expr_str": "{call}Mul'.encode()))


def bad_target(good: Path, _: Touching) -> Path:
    return remade(good, lambda _, old: old.replace(b"torch.ops.aten.linear.default", b"torch.os.system"))


def bad_factory(good: Path, touch: Touching) -> Path:
    return _with_nesting(good, touch, {"default_factory_module": "touching", "default_factory_name": "x"})


def bad_enumeration(good: Path, touch: Touching) -> Path:
    return _with_nesting(good, touch, json.dumps({"__enum__": True, "fqn": "touching:X", "name": "A"}))


def _with_nesting(good: Path, touch: Touching, context: object) -> Path:
    """An archive with results that are nested so, beside a module that makes a file when it is imported."""
    (good.parent / "touching.py").write_text(f"import os\nos.mkdir({str(touch.path)!r})\n")
    nesting = json.dumps([1, {"type": "collections.defaultdict", "context": context, "children_spec": []}])

    def nested(record: dict[str, object]) -> dict[str, object]:
        return {**record, "out_spec": nesting} if "out_spec" in record else record

    def change(name: str, old: bytes) -> bytes:
        return json.dumps(json.loads(old, object_hook=nested)).encode() if "models/" in name else old

    return remade(good, change)


BAD = {
    bad_factory: "its inputs or outputs import the module touching",
    bad_enumeration: "its inputs or outputs import the module touching",
    bad_inputs: "pickled objects that are no tensors",
    bad_weight: "pickled objects that are no tensors",
    bad_constant: "opaque_obj_0 is a pickled object",
    bad_size: "a size is 'exec|a size is \"exec",
    bad_target: "a node calls torch.os.system",
}


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__)
def test_a_file_that_would_run_code_is_refused_and_runs_nothing(
    make: Callable[[Path, Touching], Path], good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(good, Touching(tmp_path / "touched"))
    monkeypatch.syspath_prepend(path.parent)
    with pytest.raises(ConvertError, match=f"would run code that is in it: ({BAD[make]})"):
        load_exported(path)
    assert not (tmp_path / "touched").exists()


def test_a_program_with_dynamic_sizes_is_none_of_these(good: Path) -> None:
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    assert load_exported(good).module()(torch.ones(8, 6)).shape == (16, 2, 1)
    assert os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") == before


def test_another_zip_archive_is_told_from_a_damaged_program(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.pt2", "w") as archive:
        archive.writestr("photo.jpg", b"")
    with pytest.raises(ConvertError, match="this is a zip archive, but no exported program"):
        load_exported(tmp_path / "photos.pt2")


def test_json_that_nests_too_deep_is_a_damaged_file(good: Path) -> None:
    path = remade(good, lambda name, content: b"[" * 200_000 if name.endswith(".json") else content)
    with pytest.raises(ConvertError, match="is damaged: its JSON nests too deep"):
        load_exported(path)
