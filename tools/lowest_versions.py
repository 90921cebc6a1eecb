"""The lowest versions that ``pyproject.toml`` allows of the dependencies of the package and its engines, for pip.

``make lowest`` runs the tests of operators, engines and files with them. Three packages are left out. The tests pin the
build of PyTorch. The lowest platformdirs lacks a pytest plugin that newer ones have. Transformers needs a newer
safetensors.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_EXTRAS = ("xla", "openvino")
_LEFT_OUT = ("platformdirs", "safetensors")


def lowest_versions(project: Path) -> list[str]:
    """``name==version`` for each dependency of the package and of `_EXTRAS`, and for jaxlib the version of jax."""
    facts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    ranges = [*facts["dependencies"], *(one for extra in _EXTRAS for one in facts["optional-dependencies"][extra])]
    pinned = [re.sub(r">=([^,]+),.*", r"==\1", one) for one in ranges if not one.startswith(_LEFT_OUT)]
    return [*pinned, *(one.replace("jax", "jaxlib") for one in pinned if one.startswith("jax=="))]


if __name__ == "__main__":
    print(*lowest_versions(Path(__file__).parent.parent / "pyproject.toml"))
