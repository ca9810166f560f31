"""Models read from a local stand-in of the Hub: every layout that a repository may have, and what is counted in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from hub_repos import LLAMA_8B, TINY, as_json, dense_135, experts_135, llama_8b, safetensors, shard_tensors
from hub_stand_in import Blob, Fault, Repo, StandIn
from huggingface_hub import constants
from llama import LLAMA_8B_CONFIG
from safetensors.numpy import save

from lib.errors import RepoNotFound, UnsupportedModel
from lib.hub import client, model_files, search
from lib.hub.model_files import read_model
from lib.hub.search import find_quantized, suggest_models

# Llama 3.1 8B: 8 030 261 248 parameters (its card on the Hub), two bytes each.
LLAMA_8B_PARAMETERS = 8_030_261_248
# TINY: 8·4 elements of bfloat16 and 3 of float32.
TINY_BYTES = {"BF16": 64, "F32": 12}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """An empty Hub that huggingface_hub takes for the real one."""
    with StandIn() as stand_in:
        monkeypatch.setattr(constants, "ENDPOINT", stand_in.url)
        model_files.clear_cache()
        search.clear_cache()
        yield stand_in


def make_repo(name: str = "org/tiny", **files: bytes | Blob) -> Repo:
    """A repository with the given files; `__` in a keyword stands for a dot and `___` for a slash."""
    return Repo(id=name, files={key.replace("___", "/").replace("__", "."): value for key, value in files.items()})


def test_four_shards_are_counted_to_the_byte(hub: StandIn) -> None:
    """Four files on a Hub that does not give all headers at once: one request each for listing, that, config, index and shard."""
    hub.add(llama_8b())
    model = read_model("org/llama-8b")
    assert model.bytes_by_dtype == {"BF16": 2 * LLAMA_8B_PARAMETERS}
    assert model.total_bytes == 2 * LLAMA_8B_PARAMETERS
    assert len(hub.requests) == 1 + 1 + 2 + 4
    assert json.loads(model.config_text or "") == LLAMA_8B_CONFIG
    assert (model.kind, model.pipeline_tag, model.license) == (
        "transformers",
        "text-generation",
        "llama3.1",
    )
    assert model.tensors["model.norm.weight"] == ("BF16", (4096,), "model-00004-of-00004.safetensors")
    assert model.caveats == ()


def test_the_original_checkpoint_is_told_apart(hub: StandIn) -> None:
    """Copies that transformers does not load are listed with their size and not counted."""
    repo = hub.add(llama_8b())
    repo.files |= {f"consolidated-{at:05}-of-00002.safetensors": Blob(head=b"", size=10) for at in (1, 2)}
    repo.files["optimizer.pt"] = b"state"
    model = read_model("org/llama-8b")
    assert [(copy.pattern, copy.files, copy.total_bytes) for copy in model.other_weights] == [
        ("original/consolidated.*.pth", 1, 16_060_617_592),
        ("consolidated-*.safetensors", 2, 20),
    ]
    assert model.total_bytes == 2 * LLAMA_8B_PARAMETERS


def test_it_agrees_with_huggingface_hub(hub: StandIn, tmp_path: Path) -> None:
    """The real client's own reader, asked about the same stand-in, finds the same tensors."""
    hub.add(llama_8b())
    code = (
        "import json; from huggingface_hub import HfApi; found = HfApi(token=False).get_safetensors_metadata('org/llama-8b');"
        "shapes = {name: tensor.shape for part in found.files_metadata.values() for name, tensor in part.tensors.items()};"
        "print(json.dumps([found.parameter_count, shapes]))"
    )
    env = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    count, shapes = json.loads(done.stdout)
    ours = read_model("org/llama-8b")
    assert {dtype: 2 * number for dtype, number in count.items()} == ours.bytes_by_dtype
    assert {name: list(tensor.shape) for name, tensor in ours.tensors.items()} == shapes


def test_every_header_of_135_shards_takes_one_request(hub: StandIn) -> None:
    """The index foretells each header's length, so no shard is asked twice."""
    hub.add(dense_135())
    model = read_model("org/dense-135")
    assert len(hub.requests) == 1 + 1 + 2 + 135
    # Llama 405B with 8 key/value heads: 126·(2·16384² + 2·1024·16384 + 3·16384·53248 + 2·16384) + 2·128256·16384 + 16384
    assert model.bytes_by_dtype == {"BF16": 2 * 405_853_388_800}


def test_45_thousand_tensors_over_135_shards_are_read(hub: StandIn) -> None:
    """The limits on an index and a header leave room for the largest models that are published."""
    hub.add(experts_135())
    model = read_model("org/experts-135")
    assert len(model.tensors) == 59 * 128 * 3 * 2
    assert len(hub.requests) == 1 + 1 + 2 + 135


def test_all_headers_come_in_one_request_where_the_hub_gives_them(hub: StandIn) -> None:
    """45,312 tensors over 135 files in three requests: listing, config, headers; equal to what the files themselves say."""
    alone = read_model(hub.add(experts_135()).id)
    together = experts_135("org/together")
    together.headers_at_once = True
    hub.add(together)
    hub.requests.clear()
    model = read_model("org/together")
    assert len(hub.requests) == 3
    assert model.components == alone.components
    hub.requests.clear()
    read_model("org/together", revision="main")
    assert len(hub.requests) == 1 + 2 + 135  # a named revision may be another commit than that of the answer


@pytest.mark.parametrize("said", ["other files", "fewer files", "more bytes", "no headers"])
def test_headers_that_are_not_those_of_the_listing_are_not_believed(hub: StandIn, said: str) -> None:
    """The files themselves are asked instead."""
    repo = hub.add(llama_8b())
    headers = {}
    for at in range(1, 5):
        head = bytes(repo.blob(f"model-0000{at}-of-00004.safetensors").head)  # type: ignore[union-attr]
        headers[f"model-0000{at}-of-00004.safetensors"] = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])
    if said == "more bytes":
        headers["model-00001-of-00004.safetensors"] = {"extra": {"dtype": "F32", "shape": [2**33], "data_offsets": [0, 2**35]}}
    elif said == "fewer files":
        del headers["model-00004-of-00004.safetensors"]
    elif said == "other files":
        headers = {"ghost-00001-of-00001.safetensors": headers["model-00001-of-00004.safetensors"]}
    else:
        headers = {}
    hub.faults["safetensors-metadata"] = Fault(body=as_json({"index": {}, "headers": headers}))
    assert read_model("org/llama-8b").total_bytes == 2 * LLAMA_8B_PARAMETERS


def test_a_file_written_by_safetensors_is_read(hub: StandIn) -> None:
    """A real file, as the library writes it: bytes and shapes are those of its arrays."""
    arrays = {"w": np.zeros((3, 5), np.float16), "b": np.zeros((7,), np.float32), "n": np.zeros((), np.int64)}
    hub.add(make_repo(config__json=b"{}", model__safetensors=save(arrays)))
    model = read_model("org/tiny")
    assert model.bytes_by_dtype == {"F16": 30, "F32": 28, "I64": 8}
    assert {name: tensor.shape for name, tensor in model.tensors.items()} == {"w": (3, 5), "b": (7,), "n": ()}


def test_long_texts_and_many_names_count_as_memory(hub: StandIn) -> None:
    """What is remembered is bounded by it: 400 repositories of one tensor and 4 MiB of blanks would fill a small machine."""
    hub.add(make_repo("org/plain", config__json=b"{}"))
    hub.add(make_repo("org/long", config__json=b"{}" + b" " * 2**20))
    many = {f"{'folder' * 20}/{at}.txt": b"" for at in range(5_000)} | {"config.json": b"{}"}
    hub.add(Repo(id="org/many", files=dict(many)))
    plain = read_model("org/plain").weight
    assert read_model("org/long").weight > plain + 2 * 2**20 // 400  # the text stands in the documents and in its component
    assert read_model("org/many").weight > plain + sum(map(len, many)) // 400


def test_a_long_header_takes_a_second_request(hub: StandIn) -> None:
    """A single file has no index to foretell its header; the rest is asked for."""
    many = {f"layer.{at}.weight": ("F32", (1,)) for at in range(6000)}
    hub.add(make_repo(model__safetensors=safetensors(many), config__json=b"{}"))
    assert read_model("org/tiny").bytes_by_dtype == {"F32": 24_000}
    assert sum("model.safetensors" in path for path in hub.paths()) == 2


def test_a_server_that_ignores_ranges_is_cut_off(hub: StandIn) -> None:
    """Status 200 with the whole file: its start is read and the rest is left."""
    hub.add(make_repo(model__safetensors=safetensors(TINY), config__json=b"{}"))
    hub.faults["model.safetensors"] = Fault(ignore_range=True)
    assert read_model("org/tiny").bytes_by_dtype == TINY_BYTES


def test_redirects_within_the_hub_are_followed(hub: StandIn) -> None:
    """Large files are answered by a redirect, as the Hub does."""
    repo = hub.add(llama_8b())
    repo.xet = True
    assert read_model("org/llama-8b").bytes_by_dtype == {"BF16": 2 * LLAMA_8B_PARAMETERS}


def test_a_renamed_model_is_read_under_its_new_name(hub: StandIn) -> None:
    """The Hub redirects an old id, and the answer names the new one."""
    hub.add(llama_8b("new/llama"))
    hub.faults["/api/models/old/llama"] = Fault(status=307, headers=(("Location", "/api/models/new/llama?blobs=true"),))
    assert read_model("old/llama").id == "new/llama"


def test_a_revision_is_asked_for_by_name(hub: StandIn) -> None:
    """The commit behind the name is what files are read at."""
    repo = hub.add(llama_8b())
    model = read_model("org/llama-8b", revision="main")
    assert model.revision == repo.sha
    assert hub.paths()[0].startswith("/api/models/org/llama-8b/revision/main")
    assert all(f"/resolve/{repo.sha}/" in path for path in hub.paths()[1:])


def test_a_pipeline_is_read_by_component(hub: StandIn) -> None:
    """Diffusers: each folder of model_index.json with its default copy; a fp16 copy beside it is not counted."""
    index = {"_class_name": "P", "unet": ["diffusers", "U"], "text_encoder": ["transformers", "T"], "safety_checker": [None, None]}
    repo = make_repo(
        model_index__json=as_json(index),
        unet___config__json=b'{"_class_name": "U"}',
        unet___diffusion_pytorch_model__safetensors=safetensors(TINY),
        unet___diffusion_pytorch_model__fp16__safetensors=safetensors({"a": ("F16", (9,))}),
        text_encoder___config__json=b'{"model_type": "clip"}',
        text_encoder___model__fp16__safetensors=safetensors({"a": ("F16", (5,))}),
        pipe__safetensors=safetensors(TINY),
    )
    hub.add(repo)
    model = read_model("org/tiny")
    assert [(part.folder, part.class_name) for part in model.components] == [
        ("unet", "U"),
        ("text_encoder", "T"),
    ]
    assert model.bytes_by_dtype == TINY_BYTES | {"F16": 10}
    assert set(model.tensors) == {"unet/a.weight", "unet/b.weight", "text_encoder/a"}
    assert model.components[0].config_text == '{"_class_name": "U"}'
    assert [caveat.code for caveat in model.caveats] == ["weights_variant"]


def test_two_pipelines_in_one_repository_are_refused(hub: StandIn) -> None:
    """The sentence names their folders, and another way."""
    index = as_json({"_class_name": "P", "unet": ["diffusers", "U"]})
    hub.add(make_repo(base___model_index__json=index, refiner___model_index__json=index))
    with pytest.raises(UnsupportedModel, match=r"holds 2 pipelines, in the folders 'base', 'refiner'\. Accepted: a repository with one"):
        read_model("org/tiny")


def test_a_sentence_transformer_is_read_by_module(hub: StandIn) -> None:
    """The root holds the encoder, a further folder a dense layer; pooling has no weights."""
    modules = [{"path": path, "type": f"sentence_transformers.models.{path or 'Transformer'}"} for path in ("", "1_Pooling", "2_Dense")]
    repo = make_repo(
        modules__json=as_json(modules),
        config__json=b'{"model_type": "bert"}',
        model__safetensors=safetensors(TINY),
        pytorch_model__bin=b"x" * 80,
    )
    repo.files |= {
        "1_Pooling/config.json": b"{}",
        "2_Dense/config.json": b"{}",
        "2_Dense/model.safetensors": safetensors({"w": ("F32", (2, 2))}),
    }
    hub.add(repo)
    model = read_model("org/tiny")
    assert model.kind == "sentence-transformers"
    assert model.bytes_by_dtype == {"BF16": 64, "F32": 12 + 16}
    assert model.config_text == '{"model_type": "bert"}'


def test_an_adapter_names_its_base(hub: StandIn) -> None:
    """A LoRA repository: the adapter's own weights, and the model it belongs to."""
    config = as_json({"base_model_name_or_path": "org/base", "peft_type": "LORA"})
    hub.add(make_repo(adapter_config__json=config, adapter_model__safetensors=safetensors(TINY)))
    model = read_model("org/tiny")
    assert (model.kind, model.base_model, model.bytes_by_dtype) == ("adapter", "org/base", TINY_BYTES)


def test_pickles_are_weighed_and_never_opened(hub: StandIn) -> None:
    """Only sizes are known of .bin files; the index states the bytes of the weights."""
    index = {
        "metadata": {"total_size": 190},
        "weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"},
    }
    repo = make_repo(config__json=b"{}", pytorch_model__bin__index__json=as_json(index))
    repo.files |= {f"pytorch_model-0000{at}-of-00002.bin": b"p" * 100 for at in (1, 2)}
    hub.add(repo)
    model = read_model("org/tiny")
    assert (model.total_bytes, model.bytes_by_dtype) == (190, {})
    assert [caveat.code for caveat in model.caveats] == ["pickle_not_opened"]
    assert not any(path.endswith("of-00002.bin") for path in hub.paths())


def written_gguf(path: Path) -> bytes:
    """A small GGUF file from gguf's own writer: two tensors, a vocabulary of 3 and its keys."""
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_token_list(["a", "b", "c"])
    writer.add_tensor("output_norm.weight", np.zeros((32,), np.float32))
    # 2 rows of 256 weights: one Q4_K block of 144 bytes each
    writer.add_tensor("token_embd.weight", np.zeros((2, 144), np.uint8), raw_dtype=GGMLQuantizationType.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def test_a_gguf_repository_is_read_as_llama_cpp_would(hub: StandIn, tmp_path: Path) -> None:
    """Of several quantizations Q4_K_M is taken; keys, shapes and bytes come from its header."""
    file = written_gguf(tmp_path / "m.gguf")
    hub.add(make_repo(**{"m-Q8_0__gguf": b"x" * 9, "m-Q4_K_M__gguf": file, "mmproj-Q4_K_M__gguf": b"x"}))
    model = read_model("org/tiny")
    assert model.kind == "gguf"
    assert model.tensors["token_embd.weight"] == ("Q4_K", (2, 256), "m-Q4_K_M.gguf")
    assert model.bytes_by_dtype == {"F32": 128, "Q4_K": 288}
    assert model.gguf["llama.context_length"] == 2048
    assert [copy.pattern for copy in model.other_weights] == ["m-Q8_0.gguf", "mmproj-Q4_K_M.gguf"]


def test_a_split_gguf_is_read_in_all_its_parts(hub: StandIn, tmp_path: Path) -> None:
    """Both parts' tensors count."""
    whole = written_gguf(tmp_path / "m.gguf")
    writer = GGUFWriter(tmp_path / "n.gguf", "llama")
    writer.add_tensor("blk.0.weight", np.zeros((4,), np.float16))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    hub.add(make_repo(**{"q-00001-of-00002__gguf": whole, "q-00002-of-00002__gguf": (tmp_path / "n.gguf").read_bytes()}))
    model = read_model("org/tiny")
    assert model.bytes_by_dtype == {"F32": 128, "Q4_K": 288, "F16": 8}
    assert model.other_weights == ()


def test_the_vendors_format_alone_is_read_with_a_caveat(hub: StandIn) -> None:
    """Mistral's consolidated.safetensors without a transformers copy."""
    hub.add(make_repo(params__json=b"{}", consolidated__safetensors=safetensors(TINY)))
    model = read_model("org/tiny")
    assert (model.kind, model.bytes_by_dtype, model.config_text) == ("weights", TINY_BYTES, None)
    assert [caveat.code for caveat in model.caveats] == ["weights_consolidated"]


def test_a_repository_without_weights_says_so(hub: StandIn) -> None:
    """A config alone is still a model; the caveat tells that no weights were seen."""
    hub.add(make_repo(config__json=b'{"model_type": "llama"}'))
    model = read_model("org/tiny")
    assert (model.total_bytes, [caveat.code for caveat in model.caveats]) == (0, ["no_weights"])


def test_index_and_files_that_disagree_are_told(hub: StandIn) -> None:
    """Files are believed; the index's other total and missing tensor become caveats."""
    files = shard_tensors(TINY, 2)
    index = json.loads(bytes(files["model.safetensors.index.json"]))  # type: ignore[arg-type]
    index["metadata"]["total_size"] += 1
    index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    files["model.safetensors.index.json"] = as_json(index)
    hub.add(Repo(id="org/tiny", files={"config.json": b"{}", **files}))
    model = read_model("org/tiny")
    assert model.bytes_by_dtype == TINY_BYTES
    assert {caveat.code for caveat in model.caveats} == {"index_total_differs", "tensors_missing"}


def test_a_second_reader_is_answered_from_memory(hub: StandIn) -> None:
    """A stranger's read is kept; the Hub is asked once."""
    hub.add(llama_8b())
    first = read_model("org/llama-8b")
    asked = len(hub.requests)
    assert read_model("org/llama-8b") is first
    assert len(hub.requests) == asked


def test_what_a_token_may_read_is_not_kept_for_others(hub: StandIn) -> None:
    """A private model read with its owner's token stays unknown to the next visitor."""
    hub.add(llama_8b(private=True, readers=frozenset({"hf_owner"})))
    assert read_model("org/llama-8b", token="hf_owner").total_bytes == 2 * LLAMA_8B_PARAMETERS  # noqa: S106 - of the stand-in
    with pytest.raises(RepoNotFound, match="private"):
        read_model("org/llama-8b")


def test_search_suggests_public_models_once(hub: StandIn) -> None:
    """The words are searched for; the same words again need no request."""
    for name in ("org/llama-8b", "org/llama-70b", "org/other"):
        hub.add(llama_8b(name))
    assert suggest_models("llama").ids == ("org/llama-8b", "org/llama-70b")
    assert suggest_models(" LLAMA ").ids == ("org/llama-8b", "org/llama-70b")
    assert len(hub.requests) == 1


def test_quantized_checkpoints_are_found_by_their_base_model(hub: StandIn) -> None:
    """By the Hub's tags, the most downloaded of a format; eight bits are no four bits; asked once."""
    base = "base_model:quantized:org/llama-8b"
    hub.add(llama_8b())
    for name, *tags in (
        ("org/llama-8b-gptq8", base, "gptq", "8-bit"),
        ("org/llama-8b-gptq", base, "gptq", "4-bit"),
        ("org/llama-8b-awq", base, "awq", "4-bit"),
        ("org/llama-8b-other-awq", base, "awq"),
        ("org/llama-8b-files", base, "gguf"),
        ("org/other-awq", "base_model:quantized:org/other", "awq"),
    ):
        hub.add(llama_8b(name)).info["tags"] = tags
    found = find_quantized("org/llama-8b")
    assert found == {"gptq-4": "org/llama-8b-gptq", "awq-4": "org/llama-8b-awq", "gguf": "org/llama-8b-files"}
    assert find_quantized("org/llama-8b") is found
    assert len(hub.requests) == 1
    assert find_quantized("org/llama-70b") == {}


def test_a_hub_that_fails_is_not_asked_for_every_model(hub: StandIn) -> None:
    """It is not known then whether there are any, and the next question waits for nothing."""
    hub.faults["/api/models?"] = Fault(status=500)
    assert find_quantized("org/llama-8b") is None
    asked = len(hub.requests)
    assert find_quantized("org/llama-70b") is None
    assert len(hub.requests) == asked


@pytest.mark.parametrize("words", ["", "x", "x" * 97, "a\0b"])
def test_words_that_cannot_be_searched_are_not_sent(hub: StandIn, words: str) -> None:
    """Too short, too long or unprintable: a reason, and no request."""
    found = suggest_models(words)
    assert found.ids == ()
    assert "2 to 96" in found.reason
    assert hub.requests == []


def test_hf_endpoint_is_honoured_and_the_servers_token_is_not_sent() -> None:
    """A fresh process with HF_ENDPOINT and HF_TOKEN set reads the stand-in, and sends no Authorization."""
    code = (
        "from lib.hub.model_files import read_model; from lib.hub.search import find_quantized, suggest_models;"
        "print(read_model('org/llama-8b').total_bytes, suggest_models('llama').ids)"
    )
    with StandIn() as hub:
        hub.add(llama_8b())
        env = os.environ | {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_server_secret", "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
        )
        assert done.stdout.split()[0] == str(2 * LLAMA_8B_PARAMETERS)
        assert "org/llama-8b" in done.stdout
        assert len(hub.requests) == 9
        assert not [seen for seen in hub.requests if "authorization" in seen.headers or "hf_server_secret" in str(seen)]
        assert "hf_server_secret" not in done.stdout + done.stderr


def test_the_stand_in_runs_by_itself() -> None:
    """`python tests/support/hub_stand_in.py --port 0` prints its address and serves the demonstration models."""
    script = Path(__file__).parents[1] / "support" / "hub_stand_in.py"
    with subprocess.Popen([sys.executable, str(script), "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert read_model("org/llama-8b", endpoint=url).bytes_by_dtype == {"BF16": 2 * LLAMA_8B_PARAMETERS}
        finally:
            process.terminate()


def test_the_shape_used_here_is_llamas() -> None:
    """The stand-in's Llama has the published number of parameters."""
    assert sum(int(np.prod(shape)) for _, shape in LLAMA_8B.values()) == LLAMA_8B_PARAMETERS


def test_look_ups_that_an_answer_can_do_without_wait_in_few_places(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every place taken the Hub is not asked, what is missing is said or left out, and nothing of it is remembered."""
    taken = threading.BoundedSemaphore(1)
    monkeypatch.setattr(client, "_brief", taken)
    with taken:
        assert "look-ups wait for the Hub already" in suggest_models("llama").reason
        assert find_quantized("org/llama-8b") is None
    assert hub.requests == []
    suggest_models("llama")
    assert find_quantized("org/llama-8b") is not None
    assert len(hub.requests) == 2
