"""Steps of fine-tuning and passes of embedding: products by oneDNN in place of MKL.

    python bench/products.py [--threads 1] [--rounds 5]

Encoders with random weights, of the shapes of bert-tiny, MiniLM-L6, m3e-small and BERT-base (cut to
four layers), on batches of 32 texts of equal length. Both ways do the same step or pass in turns; a
ratio is MKL's processor time over oneDNN's, the median over the rounds. The last columns hold the
largest error of the scores against float64, in units of their largest, either way.

Where `quick_products` leaves products to MKL, on processors that are not AMD's with AVX-512, it
says so and ends: both ways would be one.
"""

import argparse
import contextlib
import copy
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from transformers import BertConfig, BertForSequenceClassification

from zlpr.losses import ZLPRLoss
from zlpr.models.products import quick_products

ENCODERS = {"tiny": (128, 2), "MiniLM-L6": (384, 6), "m3e-small": (512, 4), "BERT-base": (768, 4)}
LENGTHS = (8, 32, 128)
BATCH, LABELS = 32, 28
Way = Callable[[], AbstractContextManager[None]]
WAYS: dict[str, Way] = {"mkl": contextlib.nullcontext, "onednn": quick_products}


def network_of(width: int, layers: int) -> BertForSequenceClassification:
    """A BERT with random weights and no dropout, so that every pass has the same answer."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=5000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(2, width // 64),
        intermediate_size=4 * width,
        num_labels=LABELS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def step_of(network: BertForSequenceClassification, ids: torch.Tensor) -> Callable[[], None]:
    """A step of training, as `zlpr train` makes it, with a learning rate of zero."""
    loss, labels = ZLPRLoss(), torch.rand(len(ids), LABELS).lt(0.1).float()
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.0, fused=True)

    def step() -> None:
        loss(network(input_ids=ids).logits, labels).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return step


def ratio(work: Callable[[], object], rounds: int) -> float:
    """MKL's processor time over oneDNN's."""
    found = []
    for turn in range(rounds + 1):
        seconds = {}
        for name, way in WAYS.items():
            with way():
                begin = time.process_time()
                work()
                seconds[name] = time.process_time() - begin
        if turn:  # the first makes the kernels
            found.append(seconds["mkl"] / seconds["onednn"])
    return statistics.median(found)


@torch.inference_mode()
def error(network: BertForSequenceClassification, ids: torch.Tensor, way: Way) -> float:
    """The largest error of a score against float64, in units of the largest score."""
    exact = copy.deepcopy(network).double()(input_ids=ids).logits
    with way():
        found = network(input_ids=ids).logits
    return float((found - exact).abs().max() / exact.abs().max())


def main() -> None:
    """Print a row for each encoder and length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with quick_products():
        if torch.backends.mkldnn.matmul.fp32_precision != "bf16":
            print("products are left to MKL on this processor")
            return
    print(f"{'encoder':<12}{'tokens':>7}{'step':>7}{'pass':>7}{'error, mkl':>13}{'onednn':>10}")
    for name, (width, layers) in ENCODERS.items():
        network = network_of(width, layers)
        for length in LENGTHS:
            ids = torch.randint(5000, (BATCH, length))
            step = ratio(step_of(network.train(), ids), args.rounds)
            network.eval()
            with torch.inference_mode():
                reading = ratio(lambda: network(input_ids=ids), args.rounds)  # noqa: B023
            errors = [error(network, ids, way) for way in WAYS.values()]
            print(
                f"{name:<12}{length:>7}{step:>7.2f}{reading:>7.2f}{errors[0]:>13.1e}"
                f"{errors[1]:>10.1e}"
            )


if __name__ == "__main__":
    main()
