"""Texts per second of `Encoder.embed`, against a plain batched loop over the same model.

    python bench/embedding.py ENCODER DATA [--samples 2000] [--rounds 3]

DATA is anything that `zlpr data stats` reads. The loop is what a user would write: transformers'
tokenizer and model, texts sorted by their number of tokens, batches of 32 padded by the tokenizer,
mean of the tokens' vectors. Tokenization counts for both. They take turns, and the best round of
each counts, by processor time, so that other work on the machine weighs less; the exit code is 1
where ours reaches less than 0.95 of the loop.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from zlpr.data import load
from zlpr.models.encoder import Encoder
from zlpr.models.transformer import quiet

BAR = 0.95


def plain_loop(folder: str, max_length: int, size: int) -> Callable[[list[str]], Any]:
    """A batched loop by transformers' own means."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).eval()

    def embed(texts: list[str]) -> np.ndarray:
        ids = tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
        order = np.argsort([-len(row) for row in ids], kind="stable")
        vectors = np.empty((len(texts), network.config.hidden_size), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(texts), size):
                rows = order[start : start + size]
                batch = tokenizer.pad(
                    {"input_ids": [ids[row] for row in rows]}, return_tensors="pt"
                )
                hidden = network(**batch).last_hidden_state
                mask = batch["attention_mask"].unsqueeze(-1).float()
                mean = (hidden * mask).sum(1) / mask.sum(1)
                vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return vectors

    return embed


def seconds(embed: Callable[[list[str]], Any], texts: list[str]) -> tuple[float, Any]:
    """Seconds of processor time, and what it gives."""
    start = time.process_time()
    vectors = embed(texts)
    return time.process_time() - start, vectors


def main() -> int:
    """Time both in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("encoder")
    parser.add_argument("data")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    texts: Any = load(args.data).texts
    texts = list(texts[: args.samples])
    encoder = Encoder(args.encoder)
    with quiet():
        loop = plain_loop(str(encoder.files.transformer), encoder.max_length, 32)
    best = {"zlpr": float("inf"), "loop": float("inf")}
    encoder.embed(texts[:64])
    loop(texts[:64])
    for _ in range(args.rounds):
        ours, vectors = seconds(encoder.embed, texts)
        theirs, expected = seconds(loop, texts)
        best = {"zlpr": min(best["zlpr"], ours), "loop": min(best["loop"], theirs)}
        if encoder.files.poolings == ("mean",) and encoder.files.normalise:
            np.testing.assert_allclose(vectors, expected, atol=1e-4)
    rates = {name: len(texts) / took for name, took in best.items()}
    ratio = rates["zlpr"] / rates["loop"]
    print(json.dumps({**rates, "ratio": ratio, "threads": torch.get_num_threads()}))
    return 0 if ratio >= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
