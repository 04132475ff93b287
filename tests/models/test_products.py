"""Which library multiplies while a network runs: the setting, its end, and its digits."""

import threading
from collections.abc import Iterator

import pytest
import torch

from zlpr.models import products

AMD = {"cpu_name": "AMD EPYC", "avx512_f": True, "amx_tile": False}


def setting() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.fixture
def on_amd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a processor where oneDNN is quicker."""
    yield from on(monkeypatch, AMD)


def on(monkeypatch: pytest.MonkeyPatch, able: dict[str, object]) -> Iterator[None]:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(products, "_keeps_float32", lambda: True)
    products._onednn_is_quicker.cache_clear()
    yield
    products._onednn_is_quicker.cache_clear()


@pytest.mark.usefixtures("on_amd")
def test_permits_onednn_within_the_block_only() -> None:
    assert setting() == "none"
    with products.quick_products():
        assert setting() == "bf16"
        with products.quick_products():
            assert setting() == "bf16"
        assert setting() == "bf16"
    assert setting() == "none"
    with pytest.raises(KeyError), products.quick_products():
        raise KeyError
    assert setting() == "none"


@pytest.mark.usefixtures("on_amd")
def test_lasts_until_the_last_thread_is_done() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with products.quick_products():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with products.quick_products():
        thread.start()
        assert entered.wait(60)
    assert setting() == "bf16"
    leave.set()
    thread.join(60)
    assert setting() == "none"


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("chosen", ["ieee", "tf32", "bf16"])
def test_leaves_what_the_user_chose(chosen: str) -> None:
    torch.backends.mkldnn.matmul.fp32_precision = chosen
    try:
        with products.quick_products():
            assert setting() == chosen
        assert setting() == chosen
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"


@pytest.mark.parametrize(
    "change",
    [{"cpu_name": "Intel Xeon"}, {"avx512_f": False}, {"amx_tile": True}, {"cpu_name": None}],
    ids=str,
)
def test_leaves_other_processors_to_mkl(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    for _ in on(monkeypatch, AMD | change):
        with products.quick_products():
            assert setting() == "none"


def test_an_older_pytorch_without_the_setting_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in on(monkeypatch, AMD):
        monkeypatch.setattr(products, "_onednn", object())
        with products.quick_products():
            assert setting() == "none"


def test_leaves_products_to_mkl_where_onednn_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in on(monkeypatch, AMD):
        monkeypatch.setattr(products, "_keeps_float32", lambda: False)
        with products.quick_products():
            assert setting() == "none"


def test_sees_products_that_round(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda a, b: plain(a.bfloat16().float(), b.bfloat16().float())
    )
    assert not products._keeps_float32()
    assert setting() == "none"


@pytest.mark.parametrize("shape", [(32, 384, 6), (64, 64, 64), (300, 512, 2048)], ids=str)
def test_products_keep_float32s_digits(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    torch.manual_seed(0)
    left = torch.randn(rows, inner, requires_grad=True)
    layer = torch.nn.Linear(inner, columns)
    with products.quick_products():
        outputs = layer(left)
        outputs.square().sum().backward()
    exact_left = left.detach().double().requires_grad_()
    exact_layer = torch.nn.Linear(inner, columns).double()
    exact_layer.load_state_dict(layer.state_dict())
    exact = exact_layer(exact_left)
    exact.square().sum().backward()
    for found, wanted in (
        (outputs, exact),
        (left.grad, exact_left.grad),
        (layer.weight.grad, exact_layer.weight.grad),
    ):
        assert found is not None
        assert wanted is not None
        scale = wanted.detach().abs().max()
        assert float((found - wanted).detach().abs().max() / scale) < 2e-6
