"""Writes a tiny Llama to a directory: configuration and tokeniser, no weights.

    python model.py DIRECTORY

The engine makes up the weights (--load-format dummy), so that what it says is noise.
All else is real: a byte-level BPE that is trained here, a chat template, special tokens
and a BOS token in front of every text, as Llama 3 has it.
"""

import argparse
import inspect
import json
import json.decoder
import pathlib
import sys
import textwrap
import typing

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

CONTEXT = 4096
VOCABULARY = 2048
BOS, START, END, PAD = SPECIAL = ["<|bos|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokeniser():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    # Text that every Python has.
    texts = [inspect.getsource(m) for m in (argparse, inspect, json.decoder, pathlib, textwrap, typing)]
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, made.token_to_id(BOS))])
    assert made.get_vocab_size() == VOCABULARY, made.get_vocab_size()
    return made


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    made = tokeniser()
    made.save(str(directory / "tokenizer.json"))

    def write(name, **members):
        (directory / name).write_text(json.dumps(members, indent=1))

    names = {"bos_token": BOS, "eos_token": END, "pad_token": PAD}
    ids = {f"{name}_id": made.token_to_id(token) for name, token in names.items()}
    write("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast", model_max_length=CONTEXT,
          clean_up_tokenization_spaces=False, chat_template=TEMPLATE, **names)
    write("generation_config.json", **ids)
    write("config.json", architectures=["LlamaForCausalLM"], model_type="llama", torch_dtype="bfloat16",
          hidden_size=64, intermediate_size=128, num_hidden_layers=2,
          num_attention_heads=2, num_key_value_heads=1, head_dim=32,  # the smallest that the engine has on a CPU
          hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=CONTEXT,
          vocab_size=VOCABULARY, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, **ids)


main(pathlib.Path(sys.argv[1]))
