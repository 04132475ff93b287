"""A frozen encoder: texts to vectors of one length, by what its folder says.

A folder of sentence-transformers lists its steps in `modules.json`: the transformer, how the
vectors of its tokens are pooled to one, layers on top of that, and whether the result is brought to
length one. Any other transformers folder is pooled by the mean and brought to length one.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zlpr._digest import files_digest
from zlpr._errors import UserError
from zlpr.models.products import quick_products
from zlpr.models.tokens import Padding, TokenizedTexts, readable_length, tokenize
from zlpr.models.transformer import (
    answer_plainly,
    cannot_load,
    load_encoder_config,
    load_tokenizer,
    quiet,
    weight_files,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Tokens of a batch: more fall out of a processor's cache, and 4096 take 1.4 times as long.
_TOKENS_AT_ONCE = 1024 if not torch.cuda.is_available() else 65_536
_MODULES = "modules.json"
# What decides an embedding, beside the weights and the modules' own folders.
_READ = (
    "config.json",
    "tokenizer*",
    "vocab*",
    "merges*",
    "special_tokens*",
    "added_tokens*",
    "*.model",
    _MODULES,
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
# Under these names sentence-transformers keeps its ways of pooling, in the order in which it joins
# the vectors of several.
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
}
_Stamps = dict[str, tuple[int, int, int, int]]
Watch = Callable[[NDArray[np.int64], NDArray[np.float32]], None]
"""Called with each batch: which texts, and their embeddings."""


@dataclass(frozen=True)
class EncoderFolder:
    """What a folder says about how texts become vectors.

    Attributes:
        folder: where it is.
        transformer: the folder of weights, configuration and tokenizer; often the same.
        poolings: how token vectors become one; several are joined.
        layers: folders of the layers on top, in order.
        pooling: the folder that says how to pool, if there is one.
        normalise: whether vectors are brought to length one.
        max_length: tokens read of a text; None leaves it to the model.
        lower_case: whether texts are put in lower case first.
        prompt: what is put before every text.
    """

    folder: Path
    transformer: Path
    poolings: tuple[str, ...] = ("mean",)
    layers: tuple[Path, ...] = ()
    pooling: Path | None = None
    normalise: bool = True
    max_length: int | None = None
    lower_case: bool = False
    prompt: str = ""

    @classmethod
    def read(cls, folder: Path) -> "EncoderFolder":
        """The steps that a folder lists; mean and length one where it lists none.

        Raises:
            UserError: it lists a step that is not known here, or one that cannot be read.
        """
        if not (folder / _MODULES).is_file():
            return cls(folder, folder)
        try:
            return cls._of_modules(folder, _json(folder / _MODULES))
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            if isinstance(fault, UserError):
                raise
            raise UserError(f"{folder / _MODULES}: not a list of modules ({fault})") from fault

    @classmethod
    def _of_modules(cls, folder: Path, modules: Any) -> "EncoderFolder":
        found: dict[str, Any] = {"normalise": False}
        for module in modules:
            kind, place = module["type"].rpartition(".")[2], _inside(folder, module["path"])
            if kind == "Transformer" and "transformer" not in found:
                found |= {"transformer": place, **_reading(place)}
            elif kind == "Pooling":
                found |= {"pooling": place, "poolings": _poolings(place / "config.json")}
            elif kind == "Dense":
                found["layers"] = (*found.get("layers", ()), place)
            elif kind == "Normalize":
                found["normalise"] = True
            else:
                known = "Transformer, Pooling, Dense and Normalize"
                raise UserError(f"{folder / _MODULES}: step {kind!r}; known are {known}")
        if "transformer" not in found:
            raise UserError(f"{folder / _MODULES}: lists no Transformer")
        prompt, pooling = _default_prompt(folder), found.get("pooling")
        if prompt and pooling and _json(pooling / "config.json").get("include_prompt") is False:
            raise UserError(
                f"{pooling / 'config.json'}: leaves its prompt out of the mean, which is not known "
                "here; its vectors would be others"
            )
        return cls(folder, prompt=prompt, **found)

    def files(self) -> list[Path]:
        """Everything that decides an embedding."""
        folders = {self.folder, self.transformer}
        kept = {path for place in folders for name in _READ for path in place.glob(name)}
        weights = weight_files(self.transformer)
        safe = [path for path in weights if path.suffix == ".safetensors"]
        kept.update(safe or weights)
        for place in (*self.layers, *([] if self.pooling is None else [self.pooling])):
            kept.update(place / name for name in ("config.json", "model.safetensors"))
        return sorted(path for path in kept if path.is_file())

    def fingerprint(self) -> str:
        """The SHA-256 of these files and their names: equal where all embeddings are."""
        return files_digest(self.folder, self.files())


def find_encoder(name_or_path: str, *, download: bool = True) -> Path:
    """The folder of an encoder: itself, or where the hub's files of that name are kept.

    Raises:
        UserError: there is none of that name, here or, where it may be asked, on the hub.
    """
    folder = Path(name_or_path).expanduser()
    if folder.is_dir():
        if not weight_files(EncoderFolder.read(folder).transformer):
            raise UserError(f"no weights in {folder}, such as model.safetensors")
        return folder
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.safetensors", "*.txt", "*.model", "tokenizer*", "vocab*", "merges*"]
    options: dict[str, Any] = {
        "allow_patterns": wanted,
        "ignore_patterns": ["onnx/*", "openvino/*"],
    }
    with quiet():
        try:
            return Path(snapshot_download(name_or_path, local_files_only=True, **options))
        except Exception as absent:
            if not download:
                raise UserError(cannot_load("encoder", name_or_path, absent)) from absent
        try:
            return Path(snapshot_download(name_or_path, **options))
        except Exception as error:
            raise UserError(cannot_load("encoder", name_or_path, error)) from error


class Encoder:
    """A transformer that is only read from: texts in, vectors of one length out.

    The weights are read from the disk with the first text.

    Args:
        name: as the user gave it: a folder, or a name on the hub.
        folder: its files; found by the name where not given.
        max_length: tokens read of a text; None reads what the folder says, and up to 512 where it
            says nothing.
        source: where to find it again; the folder from the root, or the name on the hub, where
            not given.

    Examples:
        >>> encoder = Encoder("sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.embed(["good value", "bad smell"]).shape  # doctest: +SKIP
        (2, 384)
    """

    def __init__(
        self,
        name: str,
        *,
        folder: Path | None = None,
        max_length: int | None = None,
        source: str = "",
    ) -> None:
        self.name = name
        given = Path(name).expanduser()
        self.source = source or (str(given.resolve()) if given.is_dir() else name)
        self.files = EncoderFolder.read(find_encoder(name) if folder is None else folder)
        self._max_length = max_length

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the files that decide an embedding, as they were when first looked at."""
        return self._first_seen[1]

    @cached_property
    def _first_seen(self) -> tuple[_Stamps, str]:
        return _stamps(self.files.files()), self.files.fingerprint()

    def check_unchanged(self) -> None:
        """Refuse files that are others than those of the fingerprint.

        Raises:
            UserError: somebody has written to them since.
        """
        stamps, fingerprint = self._first_seen
        if _stamps(self.files.files()) != stamps and self.files.fingerprint() != fingerprint:
            raise UserError(
                f"{self.name}: the encoder's files have changed while it was in use; begin again, "
                "and leave them as they are meanwhile"
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """What is read within is of the fingerprint."""
        self._first_seen  # noqa: B018 - before it is read
        yield
        self.check_unchanged()

    def prepare(self) -> None:
        """Read now what the first text would have read from the disk."""
        self.tokenizer, self._layers  # noqa: B018 - the layers go where the network is

    @cached_property
    def network(self) -> "PreTrainedModel":
        """The transformer, in float32, on the graphics card where there is one."""
        with self._reading():
            network = _load_network(self.files.transformer)
        if not all(bool(weight.isfinite().all()) for weight in network.parameters()):
            raise UserError(f"{self.files.transformer}: a weight is not a finite number")
        return network

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """What makes its tokens."""
        with self._reading():
            return load_tokenizer(str(self.files.transformer), local_files_only=True)

    @cached_property
    def _config(self) -> Any:
        with self._reading():
            return load_encoder_config(str(self.files.transformer))

    @cached_property
    def max_length(self) -> int:
        """Tokens read of a text."""
        wanted = self._max_length
        most = readable_length(self.tokenizer, self._config, wanted)
        if wanted is not None or self.files.max_length is None:
            return most
        return min(most, self.files.max_length)

    @cached_property
    def _layers(self) -> nn.Sequential:
        with self._reading():
            return nn.Sequential(*map(_dense, self.files.layers)).to(self.network.device)

    @cached_property
    def width(self) -> int:
        """Numbers in a vector."""
        if self.files.layers:
            return int(_json(self.files.layers[-1] / "config.json")["out_features"])
        return int(self._config.hidden_size) * len(self.files.poolings)

    def embed(self, texts: Sequence[str], watch: Watch | None = None) -> NDArray[np.float32]:
        """Vectors of shape (texts, width), in the order of the texts.

        Args:
            texts: of any length; what goes beyond `max_length` tokens is not read.
            watch: called with each batch as it is done, the longest texts first.
        """
        tokens = tokenize(self.tokenizer, list(map(self._prepared, texts)), self.max_length)
        padding = Padding.of(self.tokenizer)
        embeddings = np.empty((len(tokens), self.width), dtype=np.float32)
        for rows in _batches(tokens):
            batch = padding.batch(tokens, rows)
            embeddings[rows] = self._forward(batch)
            if watch is not None:
                watch(rows, embeddings[rows])
        return embeddings

    def _prepared(self, text: str) -> str:
        return self.files.prompt + (text.lower() if self.files.lower_case else text)

    @quick_products()
    @torch.inference_mode()
    def _forward(self, batch: Mapping[str, Tensor]) -> NDArray[np.float32]:
        device = self.network.device
        inputs = {name: values.to(device) for name, values in batch.items()}
        hidden = self.network(**inputs).last_hidden_state
        pooled = [pool(hidden, inputs["attention_mask"], way) for way in self.files.poolings]
        vectors = self._layers(torch.cat(pooled, dim=1))
        if self.files.normalise:
            vectors = nn.functional.normalize(vectors, dim=1)
        embeddings: NDArray[np.float32] = vectors.float().cpu().numpy()
        if not np.isfinite(embeddings).all():
            raise UserError(f"{self.name}: a text's embedding is not finite")
        return embeddings


def _stamps(files: Sequence[Path]) -> _Stamps:
    """By which files that were written to are told, without reading them."""
    found = ((path, path.stat()) for path in files)
    return {
        str(path): (of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns) for path, of in found
    }


def copy_encoder(encoder: Encoder, target: Path) -> EncoderFolder:
    """Write an encoder to a folder: its files as they are, its weights as safetensors.

    Raises:
        UserError: the files are no longer those that it was read from.
    """
    files = encoder.files
    for file in files.files():
        if file.suffix != ".bin":
            place = target / file.relative_to(files.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    place = target / files.transformer.relative_to(files.folder)
    if not weight_files(place):  # they were pickled, and a model folder holds no pickle
        with quiet():
            encoder.network.save_pretrained(place)
    encoder.check_unchanged()
    return EncoderFolder.read(target)


def pool(hidden: Tensor, mask: Tensor, way: str) -> Tensor:
    """One vector per text from those of its tokens.

    Args:
        hidden: of shape (texts, tokens, width).
        mask: 1 for a token, 0 for padding, of shape (texts, tokens).
        way: "mean", "cls" (the first token), "lasttoken", "max", "mean_sqrt_len_tokens" (the sum
            over the root of their number) or "weightedmean" (a token's place is its weight).

    Examples:
        >>> hidden = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> pool(hidden, torch.tensor([[1, 1, 0]]), "mean").tolist()
        [[2.0]]
    """
    real = mask.unsqueeze(-1).to(hidden.dtype)
    if way == "max":
        return hidden.masked_fill(real == 0, -torch.inf).amax(1)
    if way in ("cls", "lasttoken"):
        places = mask.argmax(1)
        if way == "lasttoken":
            places = mask.shape[1] - 1 - mask.flip(1).argmax(1)
        return hidden[torch.arange(len(hidden), device=hidden.device), places]
    if way == "weightedmean":
        real = real * torch.arange(1, mask.shape[1] + 1, device=hidden.device).view(1, -1, 1)
    total = (hidden * real).sum(1)
    count = real.sum(1).clamp(min=1e-9)
    return total / (count.sqrt() if way == "mean_sqrt_len_tokens" else count)


def _batches(tokens: TokenizedTexts) -> Iterator[NDArray[np.int64]]:
    """Rows of like length, the longest first, as many as make up a batch's tokens."""
    order = np.argsort(-tokens.lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(tokens.lengths[order[start]])
        size = max(1, _TOKENS_AT_ONCE // longest)
        yield order[start : start + size]
        start += size


def _load_network(folder: Path) -> "PreTrainedModel":
    """The encoder of a folder, in float32, without code of its own and without its head."""
    from transformers import AutoModel

    with quiet():
        try:
            network: Any = AutoModel.from_pretrained(
                folder, dtype=torch.float32, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:
            raise UserError(cannot_load("encoder", str(folder), error)) from error
    answer_plainly(network)
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loaded: PreTrainedModel = network.to(device).eval()
    return loaded


def _dense(folder: Path) -> nn.Module:
    """A layer on top of the pooled vectors."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = _json(folder / "config.json")
    name = str(config.get("activation_function", "Identity")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise UserError(f"{folder / 'config.json'}: activation {name!r}; known are {known}")
    try:
        weights = load_file(folder / "model.safetensors")
        layer = nn.Linear(config["in_features"], config["out_features"], "linear.bias" in weights)
        layer.load_state_dict({key.removeprefix("linear."): w for key, w in weights.items()})
    except (OSError, RuntimeError, KeyError, SafetensorError) as fault:
        reason = str(fault).strip().splitlines()[0]
        raise UserError(f"{folder / 'model.safetensors'}: cannot be read ({reason})") from fault
    return nn.Sequential(layer, _ACTIVATIONS[name]()).eval()


def _reading(transformer: Path) -> dict[str, Any]:
    """How sentence-transformers was told to read texts."""
    path = transformer / "sentence_bert_config.json"
    if not path.is_file():
        return {}
    told = _json(path)
    most = told.get("max_seq_length")
    if most is not None and not (type(most) is int and most > 0):
        raise UserError(f"{path}: max_seq_length {most!r}, expected a whole number above 0")
    return {"max_length": most, "lower_case": bool(told.get("do_lower_case"))}


def _poolings(path: Path) -> tuple[str, ...]:
    """The ways of pooling that a configuration switches on."""
    told = _json(path)
    named = told.get("pooling_mode")
    if named is not None:  # as newer versions write it
        ways = tuple([named] if isinstance(named, str) else named)
    else:
        ways = tuple(way for key, way in _POOLINGS.items() if told.get(key))
    for way in ways:
        if way not in _POOLINGS.values():
            raise UserError(f"{path}: pooling {way!r}; known are {', '.join(_POOLINGS.values())}")
    return ways or ("mean",)


def _default_prompt(folder: Path) -> str:
    path = folder / "config_sentence_transformers.json"
    told = _json(path) if path.is_file() else {}
    name = told.get("default_prompt_name")
    return "" if name is None else str(told["prompts"][name])


def _inside(folder: Path, name: str) -> Path:
    """A module's folder, which may not be outside."""
    path = folder / name
    if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder)):
        raise UserError(f"{folder / _MODULES}: path {name!r} leaves the folder")
    return path


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise UserError(f"{path}: cannot be read ({fault})") from fault
