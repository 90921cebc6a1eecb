"""The gallery: ten published models before and after `regraft.optimize`, each as the data of a page.

`python -m tools.gallery` writes the data to ``docs/gallery``, which takes minutes. The models have the operators of the
published ones, but are narrow, and have random weights. `tools.site` makes pages from the data, without the models.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "gallery"

MODELS: Final = {
    "stable_diffusion_unet": "Stable Diffusion 1.5 UNet",
    "stable_diffusion_vae": "Stable Diffusion VAE decoder",
    "bert": "BERT base",
    "gpt2": "GPT-2",
    "llama": "Llama 3.2 1B",
    "t5_encoder": "T5 base encoder",
    "clip_text": "CLIP text",
    "vit": "ViT-B/16",
    "resnet50": "ResNet-50",
    "whisper_encoder": "Whisper encoder",
}
"""The models of the gallery: for each file, the title of a model of `bench.published`."""

_MISSES: Final = 2


def main(names: Sequence[str]) -> None:
    """Write the data of the models called ``names``, or of all models if ``names`` is empty, and the table."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or MODELS:
        data = _data(name)
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(name, data["summary"]["weights"]["count"], flush=True)
    rows = [_row(name, title) for name, title in MODELS.items()]
    (ROOT / "docs" / "gallery.md").write_text(_PAGE.format(rows="\n".join(rows)), encoding="utf-8")


def _data(name: str) -> dict[str, Any]:
    import regraft
    from bench import published
    from regraft.view import view

    model = published.make(MODELS[name])
    program = regraft.from_torch(model.module, model.inputs())
    data = view(program, level="default", limit=_MISSES, title=MODELS[name]).data
    # Times differ from run to run. They are set to 0, so that the pages stay the same.
    return {**data, "passes": [{**one, "seconds": 0.0} for one in data["passes"]]}


def _row(name: str, title: str) -> str:
    data = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    before, after = (_operators(data, version) for version in (0, -1))
    rewrites = sum(one["rewrites"] for one in data["passes"])
    return f"| [{title}](gallery/{name}.html) | {before:,} | {after:,} | {rewrites:,} |"


def _operators(data: dict[str, Any], version: int) -> int:
    versions = data["versions"]
    shown = versions[versions[version]["same"]]["records"]
    return sum(data["records"][index][3] == "call" for index in shown)


_PAGE: Final = """# Gallery

The gallery shows ten published models before and after `regraft.optimize` at its default level. Each report is one
page: the summary, the graph by modules, before and after side by side, each rewrite as a step, and near misses of the
rules. The models are narrow and have random weights; their operators are those of the published models. `make site`
builds the reports together with the rest of the site.

| model | operators before | after | rewrites |
|---|---:|---:|---:|
{rows}

This command makes such a page for your own model:

```bash
regraft view model.onnx --level default
regraft optimize model.onnx -o faster.onnx --html report.html
```
"""

if __name__ == "__main__":
    main(sys.argv[1:])
