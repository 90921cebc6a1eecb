"""The main job: the UNet of Stable Diffusion 1.5 in from PyTorch, rewritten, verified, and out to ONNX.

The model is built from its configuration at full depth, with all its 184 linear layers, a tenth of its width and
random weights, so that nothing is downloaded and all of it takes about a minute. ``regraft optimize`` does the work; at
the end ONNX Runtime alone runs what it wrote.

    python examples/optimize_unet.py [FOLDER]        (needs torch and diffusers)
"""

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import onnxruntime as ort
import torch
from diffusers import UNet2DConditionModel

WIDTHS = (32, 64, 128, 128)
"""A tenth of the model's own 320, 640, 1280, 1280 channels."""
TEXT_WIDTH, TEXT_LENGTH, LATENT = 96, 77, 16
ROUNDS = 20


def unet() -> torch.nn.Module:
    """Stable Diffusion 1.5's UNet but for its widths, with the same random weights each time."""
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=64,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        block_out_channels=WIDTHS,
        layers_per_block=2,
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=8,
    ).eval()


def regraft(*arguments: str | Path) -> None:
    """Run the command, and show it."""
    print(f"\n$ regraft {' '.join(map(str, arguments))}", flush=True)
    subprocess.run([sys.executable, "-m", "regraft", *map(str, arguments)], check=True)


def seconds(sessions: list[ort.InferenceSession], feeds: dict[str, np.ndarray]) -> list[float]:
    """The median time of each session; they take turns, so that what else the machine does falls on all alike."""
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(ROUNDS):
        for session, row in zip(sessions, times, strict=True):
            started = perf_counter()
            session.run(None, feeds)
            row.append(perf_counter() - started)
    return [median(row) for row in times]


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "unet-demo")
folder.mkdir(parents=True, exist_ok=True)
exported, before, after = folder / "unet.pt2", folder / "unet-before.onnx", folder / "unet.onnx"

model = unet()
linears = sum(isinstance(module, torch.nn.Linear) for module in model.modules())
inputs = (torch.randn(2, 4, LATENT, LATENT), torch.tensor(500), torch.randn(2, TEXT_LENGTH, TEXT_WIDTH))
print(f"The UNet: {linears} linear layers, {sum(p.numel() for p in model.parameters()):,} weights; exporting it ...")
torch.export.save(torch.export.export(model, inputs, {"return_dict": False}), exported)

# The highest level combines every group of layers that share their input; the default only those where it pays.
regraft("optimize", exported, "-o", after, "--level", "aggressive", "--verify", "--report", folder / "report.json")
regraft("convert", exported, "-o", before)

sessions = [ort.InferenceSession(path) for path in (before, after)]
feeds = {port.name: tensor.numpy() for port, tensor in zip(sessions[0].get_inputs(), inputs, strict=True)}
[result] = sessions[1].run(None, feeds)
with torch.no_grad():
    expected = model(*inputs, return_dict=False)[0].numpy()
difference = float(np.abs(result - expected).max())
slow, fast = seconds(sessions, feeds)
print(
    f"\nONNX Runtime alone on {after}: at most {difference:.2g} from PyTorch, values up to {np.abs(expected).max():.2g}"
)
print(f"ONNX Runtime's time: {slow * 1e3:.1f} ms before, {fast * 1e3:.1f} ms after ({slow / fast:.2f} times as fast)")
assert difference < 1e-4, "the optimized model computes something else"
