"""Small judges that the tests make: a random causal language model of transformers with a BPE, as a folder or a GGUF file."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HEADS, CONTEXT = 2, 64
STORY = (
    "The old house stood at the end of the lane, and nobody had lived in it for years. “Who’s there?” said the boy. "
    "There was no answer; only the wind, and a door that would not stay shut. He went in. The room was dark and cold, "
    "and the clock upon the stair had stopped at ten minutes to four, as it had stopped on the day when she went away. "
)


def tokenizer(size: int = 300) -> Tokenizer:
    """A byte-level BPE."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([STORY], trainer)
    return made


def language_model(vocab: int, seed: int = 0) -> LlamaForCausalLM:
    """With weights large enough that its opinions differ."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": HEADS}
    config = LlamaConfig(vocab_size=vocab, max_position_embeddings=CONTEXT, num_key_value_heads=HEADS, **shape)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * (0.3 if weight.dim() > 1 else 0.1) + (weight.dim() == 1))
    return model.eval()


def save_judge(folder: Path, seed: int = 0) -> Path:
    """A folder that transformers reads."""
    made = tokenizer()
    language_model(made.get_vocab_size(), seed).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<s>").save_pretrained(folder)
    return folder


def save_gguf(path: Path) -> Path:
    """The same model as a GGUF file."""
    made = tokenizer()
    model = language_model(made.get_vocab_size())
    shape = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(shape.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(shape.hidden_size // HEADS)
    writer.add_vocab_size(shape.vocab_size)
    said = json.loads(made.to_str())["model"]
    tokens = sorted(said["vocab"], key=said["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(tokens) - 1))
    writer.add_token_merges([" ".join(pair) for pair in said["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, weight in model.state_dict().items():
        writer.add_tensor(gguf_name(name), gguf_layout(name, weight.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name: str) -> str:
    """What GGUF calls a tensor of a Llama."""
    for theirs in sorted(NAMES, key=len, reverse=True):
        name = name.replace(theirs, NAMES[theirs])
    return name


def gguf_layout(name: str, weight: np.ndarray) -> np.ndarray:
    """GGUF keeps the two numbers that a rotation turns beside each other, transformers half a head apart."""
    if "q_proj" in name or "k_proj" in name:
        half = weight.shape[0] // HEADS // 2
        weight = weight.reshape(HEADS, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)
    return np.ascontiguousarray(weight)
