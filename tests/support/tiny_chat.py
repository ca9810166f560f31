"""A chat model made on the spot: random weights, a tokenizer of bytes, a ChatML template; as files, as a repository holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}"
    "{% endfor %}"
)


def tokenizer(template: str | None = TEMPLATE) -> Any:
    """One token per byte, and the two control tokens of ChatML: so the length of a text is its bytes."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    found = PreTrainedTokenizerFast(tokenizer_object=made, bos_token=START, eos_token=END, pad_token=END)
    found.chat_template = template
    return found


def config(**changed: Any) -> Any:
    """A Llama of four layers whose context is 512 tokens."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    limits = {"vocab_size": 258, "max_position_embeddings": 512, "tie_word_embeddings": True}
    return LlamaConfig(**(sizes | limits | changed))


def save(folder: Path, template: str | None = TEMPLATE, *, endless: bool = True, **changed: Any) -> Path:
    """The model in a folder. An endless one has no end of text, so that it writes as much as it may."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(config(**changed))
    words = tokenizer(template)
    model.generation_config.eos_token_id = None if endless else words.eos_token_id
    if endless:
        words.eos_token = None
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder, safe_serialization=True)
    words.save_pretrained(folder)
    return folder
