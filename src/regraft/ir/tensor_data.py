"""The numbers of a constant: a handle that returns them as a NumPy array.

A handle wraps an array, or a loader that runs on first use. So the weights of a large model stay in their
memory-mapped file until something reads them. Depends on NumPy and the dtypes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, cast, final

import numpy as np

from .dtypes import as_dtype, numpy_dtype


@final
class TensorData:
    """A read-only tensor value of known shape and dtype.

    ``TensorData(array)`` shares the array's memory. ``TensorData.lazy(shape, dtype, load)`` calls ``load()``
    when the numbers are first needed. ``numpy()`` never copies, ``read()`` never keeps what it loads, and ``part()``
    reads only the requested region. ``name`` is the tensor's name in the source model (a key of the ``state_dict``,
    an initializer), None if it has none there; ``sources`` are then the names of the tensors it was computed
    from. ``packed`` holds the bytes of elements of fewer than 8 bits, several elements to a byte (`from_packed`).
    """

    __slots__ = ("_array", "_load", "_part", "dtype", "name", "packed", "shape", "sources")
    packed: TensorData | None
    shape: tuple[int, ...]
    dtype: str
    name: str | None
    sources: tuple[str, ...]
    _array: np.ndarray | None
    _load: Callable[[], np.ndarray] | None
    _part: Callable[[tuple[slice, ...]], np.ndarray] | None

    def __init__(self, array: np.ndarray, name: str | None = None, sources: Iterable[str] = ()) -> None:
        self.name = name
        self.sources = tuple(sources)
        self.shape = array.shape
        self.dtype = as_dtype(array.dtype)
        self._array = _read_only(array) if array.flags.writeable else array
        self._load = None
        self._part = None
        self.packed = None

    @classmethod
    def lazy(
        cls,
        shape: Iterable[int],
        dtype: str,
        load: Callable[[], np.ndarray],
        name: str | None = None,
        sources: Iterable[str] = (),
        part: Callable[[tuple[slice, ...]], np.ndarray] | None = None,
    ) -> TensorData:
        """A handle that calls ``load()`` on first use. ``load()`` must return an array of that shape and dtype.

        ``part(region)`` returns the numbers of a region; give it if that is less work than loading everything.
        """
        handle = cls.__new__(cls)
        handle.name = name
        handle.sources = tuple(sources)
        handle.shape = tuple(shape)
        handle.dtype = as_dtype(dtype)
        handle._array = None
        handle._load = load
        handle._part = part
        handle.packed = None
        return handle

    @classmethod
    def from_packed(cls, packed: TensorData, shape: Iterable[int], bits: int) -> TensorData:
        """Unsigned elements of 2, 4 or 8 ``bits``, read from the bytes in ``packed``, the first in the lowest bits."""
        sizes = tuple(shape)
        target = numpy_dtype(f"uint{bits}")

        def load() -> np.ndarray:
            return numbers_in_bytes(packed.read(), bits).reshape(sizes).astype(target, copy=False)

        handle = cls.lazy(sizes, f"uint{bits}", load, packed.name, packed.sources)
        handle.packed = packed
        return handle

    def derived(self, shape: Iterable[int], function: Callable[[np.ndarray], np.ndarray]) -> TensorData:
        """``function`` of the values, computed when it is first needed. It must have that shape and this dtype."""
        return TensorData.lazy(shape, self.dtype, lambda: function(self.read()), None, self.sources)

    def permuted(self, axes: Sequence[int]) -> TensorData:
        """The values with their axes in the order ``axes``, as a contiguous copy that is made when first needed."""
        shape = [self.shape[axis] for axis in axes]
        return self.derived(shape, lambda values: np.ascontiguousarray(np.transpose(values, axes)))

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take in memory."""
        return self.size * numpy_dtype(self.dtype).itemsize

    @property
    def is_loaded(self) -> bool:
        """True if the numbers are in memory, so that no loader has to run."""
        return self._array is not None

    def numpy(self) -> np.ndarray:
        """The values as a read-only array, without a copy. Loads them on first use."""
        if self._array is None:
            self._array = self.read()
            self._load = self._part = None
        return self._array

    def read(self) -> np.ndarray:
        """The values as a read-only array. Loaded values are not kept: use it to read them once."""
        if self._array is not None:
            return self._array
        array = self._loaded()
        return _read_only(array if array.flags.aligned else array.copy())

    def part(self, region: tuple[slice, ...]) -> np.ndarray:
        """The values in ``region``, a slice for each axis. Of a mapped file, only these are read."""
        if self._array is None and self._part is not None:
            return self._part(region)
        array = self._array if self._array is not None else self._loaded()
        found = np.asarray(array[region])
        return found if found.flags.aligned else found.copy()

    def _loaded(self) -> np.ndarray:
        """The result of the loader. For a mapped file it is a view of the file, which may be unaligned."""
        assert self._load is not None
        array = self._load()
        if array.shape != self.shape or array.dtype != numpy_dtype(self.dtype):
            raise ValueError(f"loaded {array.shape} of {array.dtype}, where {self.shape} of {self.dtype} was promised")
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __reduce__(self) -> tuple[object, ...]:
        return TensorData, (self.read(), self.name, self.sources)

    def __repr__(self) -> str:
        return f"TensorData(shape={self.shape}, dtype={self.dtype!r})"


def numbers_in_bytes(packed: np.ndarray, bits: int) -> np.ndarray:
    """The unsigned numbers of 2, 4 or 8 ``bits`` in bytes, the first in the lowest bits, along a new last axis.

    For 8 bits, ``packed`` itself.
    """
    if bits == 8:
        return packed
    return (packed[..., np.newaxis] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """``codes`` (uint8) packed along the last axis, ``8 // bits`` to a byte, the first in the lowest bits.

    The last byte of a row is filled up with zeros.
    """
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    if missing:
        codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], missing), np.uint8)], axis=-1)
    found = codes[..., 0::per_byte]
    for place in range(1, per_byte):
        found = found | (codes[..., place::per_byte] << (bits * place))
    return found


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view of ``array`` that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_array(value: object, dtype: str | None = None) -> np.ndarray:
    """``value`` as an array: NumPy arrays unchanged, Python numbers in Relax's default dtypes.

    A float becomes float32, an int int32 (int64 if it does not fit), a bool bool. ``dtype`` overrides this.
    """
    if isinstance(value, TensorData):
        value = value.numpy()
    if dtype is not None:
        return np.asarray(value, dtype=numpy_dtype(as_dtype(dtype)))
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(cast("Any", value))
    array = np.asarray(value)
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        limits = np.iinfo(np.int32)
        fits = array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max)
        return array.astype(np.int32) if fits else array
    return array
