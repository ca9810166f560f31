"""The script that trains as asked, with TRL, and the line that starts it on Hugging Face Jobs.

The script is written for `uv run`: its head names every package with its release. Releases that the catalog of frameworks lacks stand below
with their source. Arguments are those of TRL's SFTConfig and peft's LoraConfig (huggingface.co/docs/trl/sft_trainer and /docs/peft), read
in TRL's source at f2cd57710 (1.10.0.dev0, 2026-07-24); those of SFTConfig's own stand in trl/trainer/sft_config.py at 016013e88 too. The
source of the pinned release was not read. TRL computes its loss in chunks of tokens
unless `loss_type="nll"` is asked for, and says that packing keeps rows apart for certain with FlashAttention alone.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from lib.present.setup_files import load_versions
from lib.present.snippets import python_literal

if TYPE_CHECKING:
    from lib.workload import TrainingRequest

RELEASES = {"trl": "1.16.0", "peft": "0.21.2", "kernels": "0.17.2"}
"""PyPI, read 2026-11-22."""
DATASET = "trl-lib/Capybara"
_OPTIMIZERS = {
    "adamw": "adamw_torch_fused", "adamw_foreach": "adamw_torch", "adamw_8bit": "adamw_8bit", "paged_adamw": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit", "adafactor": "adafactor", "sgd": "sgd",
}  # fmt: skip
_KERNELS = {"sdpa": "sdpa", "flash": "kernels-community/flash-attn2", "eager": "eager"}


def job_command(flavor: str, hours: float) -> str:
    """The line that starts `train.py` on a flavor of Jobs, with half as much time again as is predicted, an hour at least."""
    limit = max(1, math.ceil(1.5 * hours))
    return f"hf jobs uv run --flavor {shlex.quote(flavor)} --timeout {limit}h --secrets HF_TOKEN train.py"


def _packages(request: TrainingRequest) -> list[str]:
    known = {package.name: package.version for package in load_versions().packages}
    names = ["transformers", "accelerate", "trl"]
    names += ["peft"] if request.method != "full" else []
    names += ["bitsandbytes"] if request.method == "qlora" or "8bit" in request.optimizer or "paged" in request.optimizer else []
    names += ["kernels"] if request.attention == "flash" else []
    return [f"{name}=={RELEASES.get(name) or known[name]}" for name in names]


def training_script(model: str, request: TrainingRequest, *, fused: bool, epochs: float) -> str:
    """A script that trains the model with TRL as the request says; the dataset is an example to replace."""
    adapter, quantized = request.method != "full", request.method == "qlora"
    lines = ["# /// script", '# requires-python = ">=3.11"', "# dependencies = ["]
    lines += [f'#     "{package}",' for package in _packages(request)]
    lines += ["# ]", "# ///", "import torch", "from datasets import load_dataset"]
    lines += ["from peft import LoraConfig"] if adapter else []
    lines += ["from transformers import BitsAndBytesConfig"] if quantized else []
    lines += ["from trl import SFTConfig, SFTTrainer", ""]
    if request.packing and request.attention != "flash":
        lines += ["# Packed rows are kept apart for certain by FlashAttention alone; with another kernel look at TRL's warning.", ""]
    lines += [f"MODEL = {python_literal(model)}", f'DATASET = "{DATASET}"  # replace by your own', ""]
    dtype = "torch.float32" if request.precision == "fp32" or (request.precision == "mixed" and not adapter) else "torch.bfloat16"
    options = [f'"dtype": {dtype}', f'"attn_implementation": "{_KERNELS[request.attention]}"']
    if quantized:
        lines += [
            'four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16,',
            f"                               bnb_4bit_use_double_quant={request.double_quantization})",
        ]
        options.append('"quantization_config": four_bits')
    settings = {
        "output_dir": '"out"', "max_length": request.sequence_tokens, "packing": request.packing,
        "per_device_train_batch_size": request.micro_batch, "gradient_accumulation_steps": request.accumulation,
        "gradient_checkpointing": request.checkpointing != "none", "activation_offloading": request.checkpointing == "offloaded",
        "optim": f'"{_OPTIMIZERS.get(request.optimizer, "adamw_torch_fused")}"', "bf16": request.precision != "fp32",
        "loss_type": '"chunked_nll"' if fused else '"nll"', "num_train_epochs": f"{epochs:g}", "push_to_hub": True,
    }  # fmt: skip
    lines += ["arguments = SFTConfig(", *(f"    {name}={value}," for name, value in settings.items())]
    lines += ["    model_init_kwargs={" + ", ".join(options) + "},", ")"]
    if adapter:
        modules = request.target_modules
        targets = '"all-linear"' if modules == ("all-linear",) else "[" + ", ".join(python_literal(name) for name in modules) + "]"
        dora = ", use_dora=True" if request.method == "dora" else ""
        lines.append(
            f'adapter = LoraConfig(r={request.rank}, lora_alpha={2 * request.rank}, target_modules={targets}{dora}, task_type="CAUSAL_LM")'
        )
    more = ", peft_config=adapter" if adapter else ""
    lines += [
        f'trainer = SFTTrainer(model=MODEL, args=arguments, train_dataset=load_dataset(DATASET, split="train"){more})',
        "trainer.train()",
        'print(f"reserved {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB")',
        "trainer.push_to_hub()",
    ]
    return "\n".join(lines) + "\n"
