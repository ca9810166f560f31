"""From a configuration to the real architecture, on the meta device: every module, every shape, no memory.

`transformers`' own config class reads the file and its own model class is constructed, so that a count or a trace is taken from
the code that would run. Nothing is downloaded and no code from outside is run: `auto_map` is never followed, the network is closed
to the build (`lib.model.offline`), and a class is only ever looked up among the model classes of `transformers`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

from lib.errors import AdvisorError, BadConfig, UnsupportedModel
from lib.model.llama_shape import as_llama
from lib.model.offline import no_network
from lib.provenance import Caveat

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

LOCK = RLock()
"""One build or meta run at a time: Python's warning filters and some of `transformers`' registries belong to the process."""

SMALLEST = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 100,
}
"""A configuration for a first build, which imports what every build needs."""

_DROPPED = frozenset(
    {
        "auto_map",  # remote code
        "quantization_config",  # read by lib.model.quantization; shapes are those of the unquantized model
        "attn_implementation", "_attn_implementation", "_attn_implementation_internal",  # kernels that are not installed
        "_attn_implementation_autoset",
        "experts_implementation", "_experts_implementation",
        "_name_or_path", "name_or_path", "use_pretrained_backbone", "_commit_hash",  # would be looked up on the Hub
        "gradient_checkpointing", "torchscript", "pruned_heads",
    }
)  # fmt: skip
_FETCHING = re.compile(r"[a-z_-]+:|[^/\\]*[/\\]")
_LONGEST_COMPLAINT = 4_000  # a complaint may quote the whole configuration
_BACKBONE_KEYS = frozenset({"backbone", "architecture"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Built:
    """A model on the meta device.

    `model` is in evaluation mode, with parameters in the dtype of the load; `config` is its normalised configuration and `raw` the
    file it came from. `architecture` is the class really built, `model_type` the file's own.
    """

    model: PreTrainedModel
    config: PreTrainedConfig
    raw: Mapping[str, Any]
    architecture: str
    model_type: str
    caveats: tuple[Caveat, ...]


def _cleaned(value: Any) -> Any:
    """The configuration without keys that would fetch, run or require something."""
    if isinstance(value, Mapping):
        for key in _BACKBONE_KEYS & value.keys():
            if isinstance(value[key], str) and _FETCHING.match(value[key]):
                raise UnsupportedModel(
                    f"The config's '{key}' points to another repository or file, which is not fetched here. Accepted: a plain name."
                )
        return {k: _cleaned(v) for k, v in value.items() if k not in _DROPPED}
    if isinstance(value, (list, tuple)):
        return [_cleaned(v) for v in value]
    return value


def _sentence(error: BaseException) -> str:
    """The first words of a library's complaint, on one line and without paths."""
    text = re.sub(r"(?:[A-Za-z]:)?(?:/[\w.\-]+){2,}", "…", " ".join(str(error)[:_LONGEST_COMPLAINT].split()))
    text = "".join(c if c.isprintable() else "·" for c in text)
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _refused(error: Exception, what: str) -> AdvisorError:
    """The sentence for whatever `transformers` raised on a configuration it cannot use."""
    if isinstance(error, AdvisorError):
        return error
    if isinstance(error, ImportError):
        missing = re.search(r"requires the (\S+) library", str(error)[:_LONGEST_COMPLAINT])
        needs = missing[1] if missing else "a library"
        return UnsupportedModel(
            f"{what} needs {needs}, which is not installed here. Install it, or give the parameter count instead (such as '7B')."
        )
    return BadConfig(
        f"{what} cannot be built from this configuration ({_sentence(error)}). Check the sizes, or paste the published config.json."
    )


def word_table(model: PreTrainedModel) -> Any:
    """The module that turns token ids into vectors, or None in a model without one."""
    try:
        return model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None


def output_head(model: PreTrainedModel) -> Any:
    """The module that turns vectors into word scores, or None in a model without one."""
    try:
        return model.get_output_embeddings()  # type: ignore[no-untyped-call]
    except (NotImplementedError, AttributeError):
        return None


def _untie_head(model: PreTrainedModel, raw: Mapping[str, Any]) -> tuple[Caveat, ...]:
    """Give the output head its own weight where the file says so and the class ties regardless until weights are loaded.

    T5 1.1 and FLAN files state `tie_word_embeddings: false`; the class overwrites that and unties when it finds both tensors.
    """
    from torch.nn import Parameter  # noqa: PLC0415 loaded when first needed

    if raw.get("tie_word_embeddings") is not False or not model.config.tie_word_embeddings:
        return ()
    table, head = word_table(model), output_head(model)
    if head is None or table is None or head.weight is not table.weight:
        return ()
    head.weight = Parameter(head.weight.detach().clone(), requires_grad=False)
    said = "The config states an output head of its own (tie_word_embeddings is false); it is counted, as the published weights hold it."
    return (Caveat(code="separate_head", message=said),)


def _without_values(model: PreTrainedModel) -> None:
    """Put on the meta device what a legacy constructor (`torch.FloatTensor(…)` in XLNet) put into memory: it would be computed with."""
    from torch.nn import Parameter  # noqa: PLC0415 loaded when first needed

    moved: dict[int, Parameter] = {}
    for module in model.modules():
        for name, held in module.named_parameters(recurse=False):
            if not held.is_meta:
                setattr(module, name, moved.setdefault(id(held), Parameter(held.detach().to("meta"), requires_grad=False)))


def build(config: Mapping[str, Any], dtype: str = "bfloat16") -> Built:
    """Construct the architecture that a parsed config.json describes.

    Args:
        config: the parsed file; its ranges are checked by `lib.model.config.check`.
        dtype: dtype of the load, "bfloat16", "float16" or "float32".

    Raises:
        BadConfig: the file does not describe a model that can be constructed.
        UnsupportedModel: it needs remote code or a library that is not installed.
    """
    with LOCK, no_network(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _build(config, dtype)


def _build(raw: Mapping[str, Any], dtype: str) -> Built:
    import torch  # noqa: PLC0415 loaded when first needed
    import transformers  # noqa: PLC0415 loaded when first needed

    from lib.model.meta import MetaMode  # noqa: PLC0415 loaded when first needed
    from lib.model.model_class import config_class, model_class  # noqa: PLC0415 loaded when first needed
    from lib.model.vision_stand_in import register as register_vision_stand_in  # noqa: PLC0415 loaded when first needed

    register_vision_stand_in()
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    caveats: tuple[Caveat, ...] = ()
    what = f"model_type {str(raw.get('model_type'))[:60]!r}"
    try:
        model_type = raw.get("model_type")
        known = not isinstance(model_type, str) or model_type in transformers.CONFIG_MAPPING
        llama = None if known else as_llama(raw)
        if llama is not None:
            said = f"{what} needs remote code, which is never run here; every size in it is one of a Llama decoder: counted as one."
            caveats = (Caveat(code="remote_code_as_llama", message=said),)
        used = _cleaned(llama or raw)
        config = config_class(used).from_dict(dict(used))
        kind, inferred = model_class(config, used)
        what = kind.__name__
        with MetaMode(getattr(torch, dtype)):
            model = kind(config)
        _without_values(model)
        model.eval()  # type: ignore[no-untyped-call]
        caveats += inferred + _untie_head(model, raw)
    except Exception as error:  # noqa: BLE001 a hostile file can make any constructor raise anything
        raise _refused(error, what) from None
    return Built(model=model, config=config, raw=raw, architecture=kind.__name__, model_type=str(raw["model_type"]), caveats=caveats)
