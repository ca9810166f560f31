"""`app.py` for a recommendation: a whole Gradio app around the model, which starts as it is written.

    write_app("text-generation", "Qwen/Qwen3-8B", AppPlace(precision="bf16", where="gpu"))

Text generation chats, text classification and embeddings take a text. What else models do has no app here. A format that is a checkpoint
of its own is loaded as it is stored; one that transformers makes while it loads is asked for. Written for transformers 5.23, gradio 6.31
and spaces 0.51 (whose `@spaces.GPU` does nothing off ZeroGPU); the tests run what can run on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lib.precision import TORCH_DTYPES, weight_format

_ANSWER_TOKENS = 512
_NEEDS_CARD = frozenset({"bnb8", "bnb4", "bnb4_double"})
"""Laws of formats that are made on a card while the model loads; ZeroGPU lends none then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPlace:
    """Where the app runs and how its model is loaded: on a processor, on one or more cards, or on ZeroGPU in one of its sizes."""

    precision: str
    where: Literal["cpu", "gpu", "zerogpu"]
    devices: int = 1
    size: str = ""


def _loading(place: AppPlace) -> tuple[list[str], list[str]]:
    """Names to import of transformers, and the arguments of `from_pretrained`."""
    law = weight_format(place.precision).law
    half = "bfloat16" if place.where != "cpu" else "float32"
    names: list[str] = []
    if place.precision in TORCH_DTYPES:
        arguments = [f"dtype=torch.{TORCH_DTYPES[place.precision]}"]
    elif law in {"bnb4", "bnb4_double"}:
        names = ["BitsAndBytesConfig"]
        double = ", bnb_4bit_use_double_quant=True" if law == "bnb4_double" else ""
        kind = "fp4" if place.precision == "bnb-fp4" else "nf4"
        how = f'load_in_4bit=True, bnb_4bit_quant_type="{kind}", bnb_4bit_compute_dtype=torch.{half}{double}'
        arguments = [f"dtype=torch.{half}", f"quantization_config=BitsAndBytesConfig({how})"]
    elif law == "bnb8":
        names = ["BitsAndBytesConfig"]
        arguments = [f"dtype=torch.{half}", "quantization_config=BitsAndBytesConfig(load_in_8bit=True)"]
    else:
        arguments = ['dtype="auto"']
    if place.where == "gpu":
        arguments.append('device_map="auto"' if place.devices > 1 else 'device_map="cuda"')
    return names, arguments


def write_app(task: str, model: str, place: AppPlace) -> str | None:
    """The file, ending with a line break; `None` for a task or a file format that has no app here. `model` is a Hub id."""
    law = weight_format(place.precision).law
    if task not in _KINDS or law == "gguf" or (place.where == "zerogpu" and law in _NEEDS_CARD):
        return None
    names, arguments = _loading(place)
    auto, body = _KINDS[task]
    streams = ["TextIteratorStreamer"] if task == "text-generation" else []
    imports = [*(["import threading", ""] if streams else []), *(["import spaces"] if place.where == "zerogpu" else [])]
    loaders = ", ".join(sorted([auto, "AutoTokenizer", *names, *streams]))
    uses_torch = "torch." in body or any("torch." in argument for argument in arguments)
    imports += ["import gradio as gr", *(["import torch"] if uses_torch else []), f"from transformers import {loaders}"]
    to_card = '.to("cuda")' if place.where == "zerogpu" else ""
    lines = [
        *imports,
        "",
        f'MODEL = "{model}"',
        "tokenizer = AutoTokenizer.from_pretrained(MODEL)",
        f"model = {auto}.from_pretrained(MODEL, {', '.join(arguments)}){to_card}.eval()",
    ]
    size = f'(size="{place.size}")' if place.size else ""
    decorator = f"@spaces.GPU{size}\n" if place.where == "zerogpu" else ""
    return "\n".join(lines) + "\n" + body.replace("@GPU\n", decorator).replace("ANSWER_TOKENS", str(_ANSWER_TOKENS))


_CHAT = '''

def words(content):
    """The text of a message, which Gradio gives in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@GPU
def answer(message, history):
    messages = [{"role": turn["role"], "content": words(turn["content"])} for turn in history] + [{"role": "user", "content": message}]
    if tokenizer.chat_template:
        inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    else:
        inputs = tokenizer(message, return_tensors="pt")
    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    writing = threading.Thread(
        target=model.generate, kwargs={**inputs.to(model.device), "streamer": streamer, "max_new_tokens": ANSWER_TOKENS}
    )
    writing.start()
    text = ""
    for piece in streamer:
        text += piece
        yield text
    writing.join()


gr.ChatInterface(answer, api_name="chat").launch()
'''
_CLASSIFY = """

@GPU
@torch.inference_mode()
def classify(text):
    inputs = tokenizer(text, return_tensors="pt", truncation=True).to(model.device)
    shares = model(**inputs).logits[0].float().softmax(-1).tolist()
    return {model.config.id2label[index]: share for index, share in enumerate(shares)}


gr.Interface(classify, gr.Textbox(label="Text"), gr.Label(), api_name="classify").launch()
"""
_EMBED = """

@GPU
@torch.inference_mode()
def embed(text):
    inputs = tokenizer(text, return_tensors="pt", truncation=True).to(model.device)
    # The mean over the tokens: models that pool otherwise say so on their card.
    return model(**inputs).last_hidden_state[0].float().mean(0).tolist()


gr.Interface(embed, gr.Textbox(label="Text"), gr.JSON(label="Embedding"), api_name="embed").launch()
"""
_KINDS = {
    "text-generation": ("AutoModelForCausalLM", _CHAT),
    "text-classification": ("AutoModelForSequenceClassification", _CLASSIFY),
    "feature-extraction": ("AutoModel", _EMBED),
}
"""By task: the class that loads the model, and the app around it."""
