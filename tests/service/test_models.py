"""From what a caller named to a spec: where it comes from, and what is said when it cannot be had."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from contract import TINY_CONFIG, TINY_PARAMETERS
from gguf_files import qwen3_06b
from hub_repos import LLAMA_8B, TINY, as_json, llama_8b, safetensors
from hub_stand_in import Blob, Repo, StandIn

from lib.errors import BadConfig, Busy, HubError, HubGarbage, InvalidInput, RepoNotFound, UnknownModel, UnsupportedModel
from lib.hub import model_files
from lib.hub.client import Cache
from lib.model.spec import Quantization
from lib.service import models as module
from lib.service.build_process import TooSlow
from lib.service.fair_turns import CALLER_GONE
from lib.service.models import Models
from lib.service.reference import reading_as


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A Hub that the models under test ask."""
    model_files.clear_cache()
    with StandIn() as served:
        monkeypatch.setattr(module, "read_model", lambda name, **how: model_files.read_model(name, endpoint=served.url, **how))
        yield served


def test_a_bundled_model_needs_no_hub(hub: StandIn) -> None:
    """Capitals do not matter; nothing is asked."""
    assert Models()("META-LLAMA/llama-3.1-8b-instruct").id == "meta-llama/Llama-3.1-8B-Instruct"
    assert hub.requests == []


def test_a_config_is_resolved_once_for_each_content() -> None:
    """The second call returns the same object; blanks around the text do not matter."""
    models = Models()
    first = models(TINY_CONFIG)
    assert first.parameters_total == TINY_PARAMETERS
    assert models(f"\n{TINY_CONFIG} ") is first


def test_a_model_on_the_hub_carries_what_its_files_tell(hub: StandIn) -> None:
    """Exact bytes by dtype, the licence, the commit as a source, and no unexplained difference."""
    hub.add(llama_8b())
    spec = Models()("org/llama-8b")
    assert spec.source == "safetensors"
    assert spec.stored.bytes_by_dtype == {"BF16": 16_060_522_496}
    assert spec.license == "llama3.1"
    assert hub.repos["org/llama-8b"].sha in spec.sources[0].source
    assert not {"unexplained_difference", "tied_weight_stored"} & {caveat.code for caveat in spec.caveats}


@pytest.mark.parametrize("closed", [{"gated": "auto"}, {"private": True}])
def test_a_closed_model_is_read_with_its_readers_token_alone(hub: StandIn, closed: dict[str, Any]) -> None:
    """A stranger asks first. What one token read is remembered for that token: nobody else gets it, and the other Hub's answers are."""
    hub.add(llama_8b("org/closed", readers=frozenset({"hf_ada"}), **closed))
    models, asked = Models(), ("RepoGated" if "gated" in closed else "RepoNotFound")
    with reading_as("hf_ada"):
        first = models("org/closed")
        sent = len(hub.requests)
        assert models("org/closed") is first
        assert models.config("org/closed")["num_hidden_layers"] == 32
    assert len(hub.requests) == sent
    assert {one.headers.get("authorization", "") for one in hub.requests} == {"", "Bearer hf_ada"}
    assert first.read_with_token
    for token in (None, "hf_bob"):
        with reading_as(token), pytest.raises(HubError) as refused:
            models("org/closed")
        assert type(refused.value).__name__ == asked
    assert "hf_ada" not in repr(vars(models))


def test_a_public_model_is_read_without_the_token(hub: StandIn) -> None:
    """It is everybody's: the token is not sent, and the next visitor finds it remembered."""
    hub.add(llama_8b())
    models = Models()
    with reading_as("hf_ada"):
        first = models("org/llama-8b")
    assert models("org/llama-8b") is first
    assert not any("authorization" in one.headers for one in hub.requests)


def test_a_stored_copy_of_a_tied_head_is_told(hub: StandIn) -> None:
    """The file holds the head; the config ties it: one table of 128256 x 4096 less, and the reason beside it."""
    repo = llama_8b("org/tied")
    config = repo.files["config.json"]
    assert isinstance(config, bytes)
    repo.files["config.json"] = config.replace(b'"tie_word_embeddings": false', b'"tie_word_embeddings": true')
    hub.add(repo)
    spec = Models()("org/tied")
    assert spec.parameters_total == 8_030_261_248 - 128_256 * 4_096
    assert "tied_weight_stored" in {caveat.code for caveat in spec.caveats}
    assert len(LLAMA_8B) == 9 * 32 + 3


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"adapter_config.json": as_json({"base_model_name_or_path": "org/base"}), "adapter_model.safetensors": safetensors(TINY)},
            "org/base",
        ),
        ({"README.md": b"nothing"}, "no config.json"),
        ({"model.safetensors": safetensors(TINY)}, "no config.json"),
    ],
)
def test_a_repository_without_an_architecture_says_what_to_name_instead(hub: StandIn, files: dict[str, bytes], says: str) -> None:
    """An adapter names its base model; the others ask for a config or a count."""
    hub.add(Repo(id="org/other", files=dict(files)))
    with pytest.raises(UnsupportedModel, match=says):
        Models()("org/other")


@pytest.mark.usefixtures("hub")
def test_a_missing_model_comes_with_near_matches() -> None:
    """One letter off a bundled id."""
    with pytest.raises(RepoNotFound, match=r"Near matches in the bundled catalog: .*meta-llama/Llama-3\.1-8B-Instruct"):
        Models()("meta-llama/Llama-3.1-8B-Instrukt")


def test_a_failure_of_the_hub_is_not_remembered(hub: StandIn) -> None:
    """It is there a moment later."""
    models = Models()
    with pytest.raises(HubError):
        models("org/llama-8b")
    hub.add(llama_8b())
    assert models("org/llama-8b").parameters_total == 8_030_261_248


def test_this_process_resolves_without_torch() -> None:
    """Neither torch nor transformers is imported for a configuration that was never asked before."""
    code = (
        "import sys\nfrom lib.service.models import Models\n"
        f"assert Models()({TINY_CONFIG!r}).parameters_total == {TINY_PARAMETERS}\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_a_gguf_file_is_named_after_a_colon(hub: StandIn) -> None:
    """By quantization, by name, by the address of its page; without a name the one that llama.cpp takes, with the others in a caveat."""
    hub.add(Repo(id="org/m-GGUF", files={"m-Q8_0.gguf": qwen3_06b(), "m-Q4_K_M.gguf": qwen3_06b("Q4_0", 15), "config.json": b"{}"}))
    models = Models()
    spec = models("org/m-GGUF:q8_0")
    assert (spec.id, spec.library, spec.source, spec.stored.quantization) == (
        "org/m-GGUF:Q8_0", "gguf", "gguf", Quantization(method="gguf", format="gguf:Q8_0"),
    )  # fmt: skip
    assert models("org/m-GGUF:m-Q8_0.gguf") is spec
    assert models("https://huggingface.co/org/m-GGUF/blob/main/m-Q8_0.gguf") is spec
    other = models("org/m-GGUF")
    assert other.id == "org/m-GGUF:Q4_K_M"
    assert [caveat.values["others"] for caveat in other.caveats if caveat.code == "gguf_default"] == ["Q8_0"]
    with pytest.raises(UnknownModel, match=r"no GGUF file 'Q9_0'.*Q8_0"):
        models("org/m-GGUF:Q9_0")
    with pytest.raises(UnsupportedModel, match="read as a GGUF file"):
        models.config("org/m-GGUF:Q8_0")


def test_of_very_many_gguf_files_some_are_listed(hub: StandIn) -> None:
    """Any of them can be named all the same."""
    file = qwen3_06b()
    hub.add(Repo(id="org/many", files={f"m-{at:04d}-Q8_0.gguf": file for at in range(600)}))
    spec = Models()("org/many:m-0599-Q8_0.gguf")
    assert (spec.id, len(spec.gguf_files)) == ("org/many:m-0599-Q8_0.gguf", 500)


def test_a_gguf_header_that_claims_more_than_its_file_is_refused(hub: StandIn) -> None:
    """Tensors beyond the end of the file."""
    whole = qwen3_06b()
    hub.add(Repo(id="org/lies", files={"m-Q8_0.gguf": Blob(head=whole.head, size=whole.size // 2)}))
    with pytest.raises(HubGarbage, match=r"has \d[\d,]+ bytes and its header describes \d[\d,]+ of tensors"):
        Models()("org/lies:Q8_0")


def test_copies_that_are_not_loaded_are_named(hub: StandIn) -> None:
    """Llama's original checkpoint beside the shards: 16.1 GB that do not count."""
    hub.add(llama_8b())
    spec = Models()("org/llama-8b")
    said = [caveat.values for caveat in spec.caveats if caveat.code == "other_copies"]
    assert said == [{"counted": "model-00001-of-00004.safetensors", "others": "original/consolidated.*.pth (16.1 GB)"}]


def test_a_sentence_transformer_counts_the_layers_behind_its_pooling(hub: StandIn) -> None:
    """A dense layer of 64 x 16 with its bias; texts of at most 128 tokens, whatever the encoder could read."""
    config = json.loads(TINY_CONFIG)
    hub.add(Repo(id="org/plain", files={"config.json": as_json(config)}))
    modules = [{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"}, {"path": "2_Dense", "type": "x.Dense"}]
    dense = {"linear.weight": ("F32", (16, 64)), "linear.bias": ("F32", (16,))}
    files = {
        "config.json": as_json(config),
        "modules.json": as_json(modules),
        "sentence_bert_config.json": b'{"max_seq_length": 128}',
        "1_Pooling/config.json": b"{}",
        "2_Dense/model.safetensors": safetensors(dense),
    }
    hub.add(Repo(id="org/sbert", files=files))
    models = Models()
    plain, spec = models("org/plain"), models("org/sbert")
    assert spec.parameters_total - plain.parameters_total == 16 * 64 + 16
    assert spec.parameters_by_component["dense"] == 16 * 64 + 16
    assert (plain.context_limit, spec.context_limit) == (2048, 128)


def test_a_model_of_timm_is_counted_by_its_header(hub: StandIn) -> None:
    """Parameters without the statistics of batch norms; no cache, no text."""
    config = {"architecture": "resnet18", "num_classes": 10, "pretrained_cfg": {"classifier": "fc"}}
    tensors = {
        "conv1.weight": ("F32", (64, 3, 7, 7)), "bn1.weight": ("F32", (64,)), "bn1.running_mean": ("F32", (64,)),
        "fc.weight": ("F32", (10, 64)),
    }  # fmt: skip
    hub.add(Repo(id="timm/resnet18", files={"config.json": as_json(config), "model.safetensors": safetensors(tensors)}))
    spec = Models()("timm/resnet18")
    assert (spec.library, spec.task, spec.work, spec.cache_terms) == ("timm", "image-classification", "other encoder", None)
    assert spec.parameters_by_component == {"backbone": 64 * 3 * 49 + 64, "head": 640}
    assert spec.stored.bytes_by_dtype == {"F32": 4 * (64 * 3 * 49 + 64 + 640)}
    hub.add(Repo(id="timm/old", files={"config.json": as_json(config), "pytorch_model.bin": b"x" * 9}))
    with pytest.raises(UnsupportedModel, match="a model of timm without safetensors"):
        Models()("timm/old")


def test_a_pipelines_bytes_are_told_by_component(hub: StandIn) -> None:
    """What is downloaded for each folder: the default copy, not the fp16 one beside it."""
    vae = {"_class_name": "AutoencoderKL", "block_out_channels": [32], "latent_channels": 4, "norm_num_groups": 8}
    files = {
        "model_index.json": as_json({"_class_name": "P", "vae": ["diffusers", "AutoencoderKL"]}),
        "vae/config.json": as_json(vae),
        "vae/diffusion_pytorch_model.safetensors": safetensors(TINY),
        "vae/diffusion_pytorch_model.fp16.safetensors": safetensors({"a": ("F16", (9,))}),
    }
    hub.add(Repo(id="org/pipe", files=files))
    spec = Models()("org/pipe")
    assert spec.stored.bytes_by_component == {"vae": 2 * 8 * 4 + 4 * 3}
    assert [caveat.values["others"] for caveat in spec.caveats if caveat.code == "other_copies"] == [
        "vae/diffusion_pytorch_model.fp16.safetensors (0.0 GB)"
    ]


def test_a_broken_configuration_is_remembered_for_half_a_minute_at_most(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner mends it: asked at once the Hub is not asked again, after 30 s it is, however often somebody asked meanwhile."""
    now = [0.0]
    for name in ("_cache", "_refused"):
        cache = getattr(model_files, name)
        seconds, most, weight = cache._entries.ttl, cache._entries.maxsize, cache._entries.getsizeof
        monkeypatch.setattr(model_files, name, Cache(most=most, seconds=seconds, weight=weight, clock=lambda: now[0]))
    hub.add(Repo(id="org/broken", files={"config.json": b'{"model_type": "llama", ', "model.safetensors": safetensors(TINY)}))
    models = Models()
    for now[0] in (0.0, 20.0):
        with pytest.raises(InvalidInput):
            models("org/broken")
    asked = len(hub.requests)
    hub.repos["org/broken"].files["config.json"] = TINY_CONFIG.encode()
    now[0] = 31.0
    assert models("org/broken").architecture
    assert len(hub.requests) > asked
    asked, now[0] = len(hub.requests), 500.0
    models("org/broken")
    assert len(hub.requests) == asked


class FakeProcess:
    """A process in which configurations of more than 1,000 layers take too long, or until they are given up."""

    def __init__(self, *, slow: bool) -> None:
        """`slow` waits for them."""
        self._slow, self.begun, self.ended = slow, threading.Event(), threading.Event()

    def __call__(self, _function: object, config: dict[str, Any], given_up: threading.Event | None = None) -> object:
        """The number of layers, in place of a spec."""
        if config["num_hidden_layers"] <= 1_000:
            return config["num_hidden_layers"]
        if not self._slow or given_up is None:
            raise TooSlow("more than 5 s")
        self.begun.set()
        assert given_up.wait(60)
        self.ended.set()
        raise BadConfig("given up")


def test_a_slow_question_keeps_no_quick_one_waiting_and_ends_with_its_connection() -> None:
    """Five callers with one heavy configuration each: a visitor's is worked out meanwhile. They go away: the slow process is free."""
    quick, slow, gone = FakeProcess(slow=False), FakeProcess(slow=True), threading.Event()
    who = ContextVar("who", default="ada")
    models = Models(quick, who.get, slow=slow)  # type: ignore[arg-type]  # they answer as it does

    def ask(caller: int) -> None:
        who.set(f"stranger {caller}")
        CALLER_GONE.set(gone.is_set)
        models(json.dumps({"model_type": "llama", "num_hidden_layers": 1_990 + caller}))

    with ThreadPoolExecutor(5) as pool:
        heavy = [pool.submit(ask, caller) for caller in range(5)]
        assert slow.begun.wait(60)
        assert models(json.dumps({"model_type": "llama", "num_hidden_layers": 2})) == 2
        assert not any(one.done() for one in heavy)
        gone.set()
        for one in heavy:
            with pytest.raises(Busy, match="connection was closed"):
                one.result(60)
    assert slow.ended.wait(60)
