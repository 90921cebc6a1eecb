"""Queries about the machine, for tests that were written for TVM. Only ``llvm`` is available, and no TVM device is."""

from __future__ import annotations

from typing import Any


def has_llvm() -> bool:
    """True: a program that is built for ``llvm`` runs on NumPy."""
    return True


def _has_none(*_arguments: Any, **_options: Any) -> bool:
    """False: regraft generates no code for this device."""
    return False


has_adreno_opencl = has_cpu_feature = has_cublas = has_cuda = has_cuda_arch = has_cuda_compute = _has_none
has_cudagraph = has_cudnn = has_gpu = has_hexagon = has_hexagon_toolchain = has_hipblas = has_llvm_min_version = (
    _has_none
)
has_matrixcore = has_metal = has_multi_gpu = has_nccl = has_nvcc_version = _has_none
has_nvptx = has_nvshmem = has_opencl = has_rocm = has_vulkan = has_x86_avx512 = has_x86_vnni = build_flag_enabled = (
    _has_none
)


def cuda_arch(device_id: int = 0) -> None:
    """None: regraft generates no code for CUDA."""
    del device_id
