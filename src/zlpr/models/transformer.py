"""A fine-tuned transformers encoder with a linear head."""

import contextlib
import errno
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

from zlpr._errors import UserError
from zlpr.decoding import PerLabelThreshold, Rule, Threshold, ZeroBound
from zlpr.decoding.with_ancestors import bare
from zlpr.models.base import FittedModel
from zlpr.models.inputs import list_texts
from zlpr.models.products import quick_products
from zlpr.models.tokens import Padding, TokenizedTexts, readable_length, tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ROWS_AT_ONCE = 64
_TOKENS_AT_ONCE = 16_384
_LAYERS = 1_000  # made in a second, whatever a model has


class TransformerModel(FittedModel):
    """Scores from `AutoModelForSequenceClassification`, cut at 0.

    Attributes:
        network: the encoder and its head.
        tokenizer: what it was trained with.
        max_length: tokens read of a text.

    Examples:
        >>> model = zlpr.load("emotions")  # doctest: +SKIP
        >>> model.predict(["what a day"])  # doctest: +SKIP
        [('joy',)]
    """

    kind = "zlpr_transformer"

    def __init__(
        self,
        label_names: Sequence[str],
        network: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        max_length: int,
        **shared: Any,
    ) -> None:
        super().__init__(label_names, **shared)
        self.network = network
        self.tokenizer = tokenizer
        self.max_length = max_length

    def read(self, inputs: Any) -> TokenizedTexts:
        """The tokens of texts."""
        return tokenize(self.tokenizer, list_texts(inputs), self.max_length)

    def score(self, read: TokenizedTexts) -> NDArray[np.float32]:
        """Scores of shape (texts, labels), in the order of the texts."""
        return score(self.network, read, Padding.of(self.tokenizer))

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write what `AutoModelForSequenceClassification` and `AutoTokenizer` read.

        Where the rule is a bound for all labels or for each, the folder's bias has it subtracted,
        so that transformers' own cut, at 0 or at a sigmoid of 0.5, is the package's decision, but
        for the ancestors that a hierarchy adds. The bias as it was stands in `config.json`.
        """
        state, bias = self.network.state_dict(), self._bias_to_fold()
        bounds = fixed_bounds(self.decoder)
        held: dict[str, Any] = {}
        if bias is not None and bounds is not None and np.any(bounds):
            name, values = bias, state[bias]
            state[name] = values - torch.as_tensor(bounds, dtype=torch.float64).to(values)
            held = {"zlpr_bias": {"name": name, "values": values.tolist()}}
        with quiet():
            try:
                self.network.save_pretrained(folder, state_dict=state)
            except SafetensorError as fault:  # a full disk has no type of its own there
                raise OSError(errno.EIO, str(fault), str(folder / "model.safetensors")) from fault
            self.tokenizer.save_pretrained(folder)
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config.pop("zlpr_bias", None)  # of a folder that this one was loaded from
        return {**config, **held, "zlpr_max_length": self.max_length}

    def _bias_to_fold(self) -> str | None:
        """The name of the parameter that shifts the scores one by one, where there is one."""
        bias = last_layer(self.network).bias
        if bias is None or bias.shape != (len(self.label_names),):
            return None
        return next(name for name, held in self.network.named_parameters() if held is bias)

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "TransformerModel":
        """Read a folder that `save_parts` wrote, from this folder alone and without pickle."""
        _check_counts(folder, config)
        network, loading = load_network_with_report(
            str(folder), use_safetensors=True, local_files_only=True
        )
        for name in sorted({*loading["missing_keys"], *loading["unexpected_keys"]}):
            raise UserError(f"{folder}: config.json and the weights differ, as in {name!r}")
        if "zlpr_bias" in config:
            _restore_bias(network, config["zlpr_bias"])
        tokenizer = load_tokenizer(str(folder), local_files_only=True)
        if not all(bool(weight.isfinite().all()) for weight in network.parameters()):
            raise UserError(f"{folder}: a weight is not a finite number")
        length = config["zlpr_max_length"]
        if type(length) is not int:
            raise UserError(f"{folder}: zlpr_max_length is {length!r}, expected a whole number")
        length = readable_length(tokenizer, network.config, length)
        return cls(network=network, tokenizer=tokenizer, max_length=length, **shared)


def _check_counts(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse a number of labels or layers that is not of the folder, before these are made.

    transformers makes them first and looks for their weights then: of a thousand million that takes
    all time and memory. Layers may share their weights, so that some more are let through.
    """
    from safetensors import safe_open

    most_layers = _LAYERS
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            most_layers = max(most_layers, len(weights.keys()))
    for name, value in config.items():
        counts = name == "num_labels" or name.endswith(("layer", "layers"))
        most = len(config["id2label"]) if name == "num_labels" else most_layers
        if counts and type(value) is int and value > most:
            raise UserError(f"{folder}: config.json and the weights differ, as in {name!r}")


def fixed_bounds(rule: Rule) -> float | list[float] | None:
    """What scores are cut at, for all labels or for each; None where a rule does more than that.

    Examples:
        >>> from zlpr.decoding import Threshold, TopK
        >>> fixed_bounds(Threshold(0.25)), fixed_bounds(TopK(2))
        (0.25, None)
    """
    rule = bare(rule)
    if isinstance(rule, ZeroBound):
        return 0.0
    if isinstance(rule, Threshold):
        return rule.threshold
    return rule.thresholds if isinstance(rule, PerLabelThreshold) else None


def last_layer(network: torch.nn.Module) -> torch.nn.Linear:
    """The layer that gives the scores."""
    return [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]


def _restore_bias(network: "PreTrainedModel", held: Mapping[str, Any]) -> None:
    """Put back the bias from which a folder's has the bound subtracted."""
    parameter = network.get_parameter(str(held["name"]))
    values = torch.tensor(held["values"], dtype=torch.float64)
    if parameter is not last_layer(network).bias or values.shape != parameter.shape:
        raise UserError("zlpr_bias: expected a number for each label, of the last layer")
    with torch.no_grad():
        parameter.copy_(values)


def score(
    network: "PreTrainedModel", texts: TokenizedTexts, padding: Padding
) -> NDArray[np.float32]:
    """Scores of tokenized texts, of shape (texts, labels)."""
    if not len(texts):
        return np.empty((0, int(network.config.num_labels or 0)), dtype=np.float32)
    return read_all(network, texts, padding, lambda batch: network(**batch).logits)


def read_all(
    network: "PreTrainedModel",
    texts: TokenizedTexts,
    padding: Padding,
    read: Callable[[Mapping[str, torch.Tensor]], torch.Tensor],
) -> NDArray[np.float32]:
    """What a network gives for at least one text, longest first so that batches are of like length.

    Args:
        network: without dropout from here on, and on the graphics card where there is one.
        texts: in any order, which is that of the rows that are returned.
        padding: of the network's tokenizer.
        read: from a batch on the network's device to a tensor with a row for each of its texts.
    """
    device = torch.device("cuda") if torch.cuda.is_available() else network.device
    network = network.to(device).eval()  # type: ignore[arg-type]
    order = np.argsort(-texts.lengths, kind="stable")
    found, start = [], 0
    with torch.inference_mode(), quick_products():
        while start < len(order):
            longest = int(texts.lengths[order[start]])
            size = max(1, min(_ROWS_AT_ONCE, _TOKENS_AT_ONCE // longest))
            rows = order[start : start + size]
            batch = {key: value.to(device) for key, value in padding.batch(texts, rows).items()}
            found.append(read(batch).float().cpu().numpy())
            start += size
    joined = np.concatenate(found)
    ordered = np.empty_like(joined)
    ordered[order] = joined
    return ordered


def load_network(name_or_path: str, **options: Any) -> "PreTrainedModel":
    """A sequence classifier in float32, from the hub or a folder, without code of its own.

    Raises:
        UserError: there is no such model, or its files cannot be read.
    """
    return load_network_with_report(name_or_path, **options)[0]


def load_network_with_report(
    name_or_path: str, **options: Any
) -> tuple["PreTrainedModel", dict[str, Any]]:
    """As `load_network`, with transformers' report on weights that its files do not have."""
    from transformers import AutoModelForSequenceClassification

    with quiet():
        try:
            network, loading = AutoModelForSequenceClassification.from_pretrained(
                name_or_path,
                dtype=torch.float32,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
        except Exception as error:
            raise UserError(cannot_load("model", name_or_path, error)) from error
    answer_plainly(network)
    return network, loading


def answer_plainly(network: "PreTrainedModel") -> None:
    """Undo what a folder's configuration may ask for beyond scores and hidden states by name."""
    network.config.return_dict = True
    network.config.output_hidden_states = network.config.output_attentions = False


def load_encoder_config(name_or_path: str) -> Any:
    """The configuration of an encoder, from the hub or a folder."""
    from transformers import AutoConfig

    with quiet():
        try:
            return AutoConfig.from_pretrained(name_or_path, trust_remote_code=False)
        except Exception as error:
            raise UserError(cannot_load("model", name_or_path, error)) from error


def load_tokenizer(name_or_path: str, **options: Any) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model; one without a padding token pads with its end-of-text token.

    Raises:
        UserError: there is no such tokenizer, or it has nothing to pad with.
    """
    from transformers import AutoTokenizer

    with quiet():
        try:
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                name_or_path, trust_remote_code=False, **options
            )
        except Exception as error:
            raise UserError(cannot_load("tokenizer", name_or_path, error)) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise UserError(f"{name_or_path}: its tokenizer has no padding token")
    return tokenizer


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars, its report on a new head, and the hub's on retries."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub_verbosity = hub.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    hub.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub.set_verbosity(hub_verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def encoder_faults(name_or_path: str) -> list[str]:
    """What keeps an encoder from being loaded, found without reading its weights."""
    faults = []
    path = Path(name_or_path)
    with quiet():
        try:
            load_encoder_config(name_or_path)
            if path.is_dir() and not weight_files(path):
                faults.append(f"no weights in {path}, such as model.safetensors")
            load_tokenizer(name_or_path)
        except UserError as fault:
            faults.append(str(fault))
    return faults


def weight_files(folder: Path) -> list[Path]:
    """The files in which transformers looks for an encoder's weights."""
    patterns = ("model*.safetensors", "pytorch_model*.bin")
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def cannot_load(what: str, name_or_path: str, error: Exception) -> str:
    """One line: transformers explains at length, and its first line says what is wrong."""
    path = Path(name_or_path).expanduser()
    if not path.is_dir() and (path.is_absolute() or name_or_path.startswith(".")):
        reason = "no such folder"
    else:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"cannot load the {what} {name_or_path!r}: {reason}"
