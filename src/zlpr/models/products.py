"""Which library multiplies float32 matrices while a network runs on a processor.

PyTorch leaves them to MKL, which on a processor of AMD does not use AVX-512, so that half of it
stands idle. oneDNN goes by the instructions alone, and PyTorch calls it where bfloat16 is permitted
in place of float32; without matrix tiles (AMX) it multiplies in float32 all the same.
"""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import torch

_onednn: Any = torch.backends.mkldnn  # its settings are made as it is loaded


@contextlib.contextmanager
def quick_products() -> Iterator[None]:
    """Have float32 matrices multiplied by oneDNN within this block where that is quicker.

    The results differ in float32's last digits. What someone else has set
    `torch.backends.mkldnn.matmul.fp32_precision` to, for more speed or more digits, stays.
    """
    if not _onednn_is_quicker():
        yield
        return
    _permission.ask()
    try:
        yield
    finally:
        _permission.give_back()


class _Permission:
    """Whether oneDNN may use bfloat16: a setting of the process, which its threads share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._is_ours = False

    def ask(self) -> None:
        """Permit it until as many have given it back as have asked."""
        with self._lock:
            self._asking += 1
            if _onednn.matmul.fp32_precision == "none":
                _onednn.matmul.fp32_precision = "bf16"
                self._is_ours = True

    def give_back(self) -> None:
        """End it with the last one that asked."""
        with self._lock:
            self._asking -= 1
            if self._is_ours and not self._asking:
                if _onednn.matmul.fp32_precision == "bf16":  # else someone has set it meanwhile
                    _onednn.matmul.fp32_precision = "none"
                self._is_ours = False


_permission = _Permission()


@functools.cache
def _onednn_is_quicker() -> bool:
    """Whether this is a processor of AMD with AVX-512, on which oneDNN keeps float32's digits."""
    if not (hasattr(torch.cpu, "get_capabilities") and hasattr(_onednn, "matmul")):
        return False  # an older PyTorch
    able = torch.cpu.get_capabilities()
    of_amd = str(able.get("cpu_name", "")).startswith("AMD")
    # Beside AMX it would round, and a virtual machine that promises AMX without granting it ends
    # the process at the first product.
    if not (of_amd and able.get("avx512_f")) or able.get("amx_tile") or torch.cuda.is_available():
        return False
    return bool(_onednn.is_available()) and _keeps_float32()


def _keeps_float32() -> bool:
    """Whether a product keeps digits that bfloat16 and TF32 round away."""
    if _onednn.matmul.fp32_precision != "none":
        return False
    factor = torch.full((256, 256), 1 + 2**-12)
    _onednn.matmul.fp32_precision = "bf16"
    try:
        product = factor @ factor
    finally:
        _onednn.matmul.fp32_precision = "none"
    return bool((product / 256 - (1 + 2**-11)).abs().max() < 2**-18)
