"""The lowest versions that ``pyproject.toml`` allows of what the package and its engines stand on, for pip.

``make lowest`` runs the tests of operators, engines and files on them. PyTorch is left out, since the tests pin its
build. So are platformdirs, which brings pytest a plugin that the lowest version does not have, and safetensors, of
which transformers needs a newer one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_EXTRAS = ("xla", "openvino")
_LEFT_OUT = ("platformdirs", "safetensors")


def lowest_versions(project: Path) -> list[str]:
    """``name==version`` for each dependency of the package and of those extras; jaxlib goes with jax."""
    facts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    ranges = [*facts["dependencies"], *(one for extra in _EXTRAS for one in facts["optional-dependencies"][extra])]
    pinned = [re.sub(r">=([^,]+),.*", r"==\1", one) for one in ranges if not one.startswith(_LEFT_OUT)]
    return [*pinned, *(one.replace("jax", "jaxlib") for one in pinned if one.startswith("jax=="))]


if __name__ == "__main__":
    print(*lowest_versions(Path(__file__).parent.parent / "pyproject.toml"))
