"""External modules: functions in another language that a model calls, by their names and the types of their results.

An exported program calls them as external functions that write into given memory. `regraft.register_func` registers the
implementation for a name when the program runs. Linking the files is up to the deployment.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

from .exporter import Exporter
from .op import extern

_SUFFIXES: Final = {"cpp": ".cpp", "cu": ".cu"}
_OUTPUTS: Final = {"obj": ".o", "wasm": ".wasm"}


class ExternModule:
    """External functions by name, each with a function from its arguments to a tensor of the type of its result.

    ``module["f"](x, 1)`` is a call of ``f``. `add_extern` passes the module on with the exported program.
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]]) -> None:
        self.symbols = dict(symbols)

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        infer = self.symbols[func_name]

        def call(*args: Any) -> Any:
            return extern(func_name, args, infer(*args))

        return call

    def load(self) -> NoReturn:
        """Raise `NotImplementedError`: no engine here links native code; see `regraft.register_func`."""
        names = ", ".join(self.symbols)
        raise NotImplementedError(
            f"engines do not link native code; register what {names} compute: regraft.register_func(name, function)"
        )


class ObjectModule(ExternModule):
    """The functions of a compiled file. Raises `ValueError` if the file does not exist."""

    def __init__(self, symbols: Mapping[str, Callable[..., Any]], filepath: str | Path) -> None:
        self.filepath = Path(filepath)
        if not self.filepath.is_file():
            raise ValueError(f"{filepath} is no file")
        super().__init__(symbols)


class SourceModule(ExternModule):
    """The functions of a source in C++ or CUDA, given as text or by its path.

    Args:
        symbols: As for `ExternModule`.
        source_code: The text, or the path of a file that holds it; a ``Path`` must exist.
        source_format: ``"cpp"`` or ``"cu"``.
        compile_options: By default the result of `get_compile_options`.
        compiler: By default ``c++``, or ``nvcc`` for CUDA.
        output_format: ``"obj"`` or ``"wasm"``.

    Raises `ValueError` for other formats, and for a path without a file.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: Sequence[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        if output_format not in _OUTPUTS:
            raise ValueError(f"output_format is {output_format!r}: it is {' or '.join(map(repr, _OUTPUTS))}")
        default = self.get_compile_options(source_format)
        self.source_code = _text_of(source_code)
        self.source_suffix = _SUFFIXES[source_format]
        self.output_suffix = _OUTPUTS[output_format]
        self.compile_options = default if compile_options is None else list(compile_options)
        self.compiler = compiler
        super().__init__(symbols)

    @staticmethod
    def get_compile_options(source_format: str) -> list[str]:
        """The options for compiling a source of that format. Raises `ValueError` for an unknown format."""
        if source_format not in _SUFFIXES:
            raise ValueError(f"source_format is {source_format!r}: it is {' or '.join(map(repr, _SUFFIXES))}")
        return ["-c", "-O3", "-std=c++17", *(["-Xcompiler=-fPIC"] if source_format == "cu" else ["-fPIC"])]

    def compile(self, output_path: str | Path) -> None:
        """Compile the source into ``output_path``. Raises `RuntimeError` with the compiler's message."""
        compiler = self.compiler or ("nvcc" if self.source_suffix == ".cu" else "c++")
        with TemporaryDirectory() as folder:
            source, output = Path(folder, f"main{self.source_suffix}"), Path(folder, f"main{self.output_suffix}")
            source.write_text(self.source_code, encoding="utf-8")
            command = [compiler, *self.compile_options, str(source), "-o", str(output)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise RuntimeError(f"there is no compiler {compiler!r}; name one as `compiler`") from None
            if done.returncode:
                raise RuntimeError(f"{compiler} refuses the source:\n{done.stderr}")
            move(output, output_path)


def _text_of(source: str | Path) -> str:
    """The text of a source; a string that is not the path of a file is the text itself."""
    if isinstance(source, str) and ("\n" in source or len(source) > 255 or not Path(source).is_file()):
        return source
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"{source} is no file")
    return path.read_text(encoding="utf-8")


def add_extern(mod: ExternModule) -> None:
    """Add ``mod`` to the external modules of the program that is being exported.

    Raises `RuntimeError` if no program is being exported, and `ValueError` if another such module has a function of the
    same name.
    """
    exporter = Exporter.current()
    if exporter is None:
        raise RuntimeError("add_extern stands in a method while its module is exported")
    taken = [name for other in exporter.outside_modules for name in other.symbols if name in mod.symbols]
    if taken:
        raise ValueError(f"outside functions of one name: {', '.join(taken)}")
    exporter.outside_modules.append(mod)
