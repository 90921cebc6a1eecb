"""The UNet of Stable Diffusion 1.5, read from PyTorch, rewritten, verified, and written to ONNX; then in fewer bits.

The model is built from its configuration at full depth, with all its 184 linear layers, random weights and a tenth of
its width, so nothing is downloaded. ``--wide`` uses a third of the width, at which most of the time is in products, as
in the real model. Either takes about a minute. ``regraft optimize`` does the work: once in float32, verified against
PyTorch, and once in the precision that is fastest on this machine, within a given error. Plain ONNX Runtime then runs
the float32 file and the exported model in turns.

    python examples/optimize_unet.py [FOLDER] [--wide]        (needs torch and diffusers; uses openvino if it is there)
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from diffusers import UNet2DConditionModel

from regraft import from_torch, to_onnx
from regraft.model import gain, time_in_turns

WIDE = "--wide" in sys.argv
WIDTHS = (96, 192, 384, 384) if WIDE else (32, 64, 128, 128)
"""A third, or a tenth, of the model's own 320, 640, 1280, 1280 channels."""
TEXT_WIDTH, TEXT_LENGTH, LATENT = (256, 77, 32) if WIDE else (96, 77, 16)
SECONDS = 90 if WIDE else 4
"""The approximate limit for the search for a precision; the measurement in float32 takes a quarter, at most 5."""


def unet() -> torch.nn.Module:
    """Stable Diffusion 1.5's UNet with other widths, and with the same random weights each time."""
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


def session(path: Path) -> ort.InferenceSession:
    """A session on one thread, so that processor time measures a run whatever else the machine does."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options)


folder = Path(next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "unet-demo"))
folder.mkdir(parents=True, exist_ok=True)
exported, before, after = folder / "unet.pt2", folder / "unet-before.onnx", folder / "unet.onnx"

model = unet()
linears = sum(isinstance(module, torch.nn.Linear) for module in model.modules())
inputs = (torch.randn(2, 4, LATENT, LATENT), torch.tensor(500), torch.randn(2, TEXT_LENGTH, TEXT_WIDTH))
print(f"The UNet: {linears} linear layers, {sum(p.numel() for p in model.parameters()):,} weights; exporting it ...")
program = torch.export.export(model, inputs, {"return_dict": False})
torch.export.save(program, exported)
to_onnx(from_torch(program), before)

regraft("optimize", exported, "-o", after, "--verify", "--report", folder / "report.json")

sessions = [session(path) for path in (before, after)]
feeds = {port.name: tensor.numpy() for port, tensor in zip(sessions[0].get_inputs(), inputs, strict=True)}
[result] = sessions[1].run(None, feeds)
with torch.no_grad():
    expected = model(*inputs, return_dict=False)[0].numpy()
difference = float(np.abs(result - expected).max())
ways = [lambda one=one: one.run(None, feeds) for one in sessions]
turns = time_in_turns(ways, clock="cpu", budget=min(SECONDS / 4, 5))
print(
    f"\nONNX Runtime alone on {after}: at most {difference:.2g} from PyTorch, values up to {np.abs(expected).max():.2g}"
)
print(f"In float32: {turns[0].least * 1e3:.1f} ms before, {turns[1].least * 1e3:.1f} ms after, {gain(*turns)}")
assert difference < 1e-4, "the optimized model computes something else"

options: list[str | Path] = ["--max-error", "0.05", "--threads", "1", "--budget", str(SECONDS)]
if WIDE:
    # Samples give the ranges for bytes. In practice they would be latents and texts of real pictures.
    samples = folder / "samples"
    samples.mkdir(exist_ok=True)
    for step in range(8):
        drawn = (torch.randn_like(inputs[0]), torch.tensor(125 * step), torch.randn_like(inputs[2]))
        named = zip(feeds, drawn, strict=True)
        np.savez(samples / f"{step}.npz", **{name: tensor.numpy() for name, tensor in named})
    options += ["--calibrate", samples]
options += ["--report", folder / "fast.json", "--html", folder / "report.html"]
regraft("optimize", before, "-o", folder / "unet-fast.onnx", "--precision", "auto", *options)
