#!/usr/bin/env python3
"""Turns a training checkpoint into a GGUF model with F16 matrices and F32 norms.

    export.py --weights model.npz --vocab vocab.json -o ../../models/demo.gguf
    export.py --random --vocab vocab.json -o /tmp/random.gguf     random weights, to test the path

`add_bos_token` is false: a document starts with its first token, in training and in use, whether an engine renders the
chat template itself or encodes plain text, so that no path can add a token twice. A plain story ends with
<|end_of_text|> (eos), a chat message with <|im_end|> (eot); an engine stops at either.
"""
import argparse
import json
import os

import numpy as np

import gguf_file as gguf
from config import Config
from tokenizer import SPECIALS

CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                 "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
                 "{% endif %}")
NORMAL, CONTROL = 1, 3
FILE_TYPE_MOSTLY_F16 = 1


def metadata(config, vocabulary):
    """The GGUF metadata of the model, as (key, type, value) triples."""
    tokens = vocabulary['tokens']
    special = {token: tokens.index(token) for token in SPECIALS}
    eos, eot = special['<|end_of_text|>'], special['<|im_end|>']
    return [
        ('general.architecture', gguf.STRING, 'llama'),
        ('general.name', gguf.STRING, 'ROCmForge demo stories'),
        ('general.description', gguf.STRING, 'A small storyteller trained by ROCmForge on stories it generated itself'),
        ('general.license', gguf.STRING, 'mit'),
        ('general.file_type', gguf.U32, FILE_TYPE_MOSTLY_F16),
        ('llama.vocab_size', gguf.U32, config.vocab_size),
        ('llama.context_length', gguf.U32, config.context),
        ('llama.embedding_length', gguf.U32, config.hidden),
        ('llama.block_count', gguf.U32, config.layers),
        ('llama.feed_forward_length', gguf.U32, config.ffn),
        ('llama.attention.head_count', gguf.U32, config.heads),
        ('llama.attention.head_count_kv', gguf.U32, config.kv_heads),
        ('llama.attention.key_length', gguf.U32, config.head_dim),
        ('llama.attention.value_length', gguf.U32, config.head_dim),
        ('llama.attention.layer_norm_rms_epsilon', gguf.F32, config.norm_eps),
        ('llama.rope.dimension_count', gguf.U32, config.head_dim),
        ('llama.rope.freq_base', gguf.F32, config.rope_base),
        ('tokenizer.ggml.model', gguf.STRING, 'gpt2'),
        ('tokenizer.ggml.pre', gguf.STRING, 'qwen2'),
        ('tokenizer.ggml.tokens', (gguf.ARRAY, gguf.STRING), tokens),
        ('tokenizer.ggml.token_type', (gguf.ARRAY, gguf.I32),
         [CONTROL if token in SPECIALS else NORMAL for token in tokens]),
        ('tokenizer.ggml.merges', (gguf.ARRAY, gguf.STRING), vocabulary['merges']),
        ('tokenizer.ggml.bos_token_id', gguf.U32, special['<|begin_of_text|>']),
        ('tokenizer.ggml.eos_token_id', gguf.U32, eos),
        ('tokenizer.ggml.eot_token_id', gguf.U32, eot),
        ('tokenizer.ggml.padding_token_id', gguf.U32, eos),
        ('tokenizer.ggml.add_bos_token', gguf.BOOL, False),
        ('tokenizer.chat_template', gguf.STRING, CHAT_TEMPLATE),
    ]


def load_weights(path, config):
    """The checkpoint's tensors {name: f32 array}, or random ones for `path` None; shapes are checked."""
    rng = np.random.default_rng(0)
    checkpoint = np.load(path) if path else {
        name: rng.standard_normal(shape, np.float32) * 0.05 for name, shape in config.shapes().items()}
    weights = {}
    for name, shape in config.shapes().items():
        weights[name] = np.asarray(checkpoint[name], np.float32)
        assert weights[name].shape == shape, f'{name} is {weights[name].shape}, not {shape}'
        assert np.isfinite(weights[name]).all(), f'{name} holds a value that is not finite'
    return weights


def main():
    """Exports a model and prints its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--weights', help='checkpoint written by train.py')
    source.add_argument('--random', action='store_true')
    parser.add_argument('--vocab', required=True)
    parser.add_argument('-o', '--out', required=True)
    args = parser.parse_args()
    with open(args.vocab, encoding='utf-8') as file:
        vocabulary = json.load(file)
    config = Config()
    if args.weights:
        config = Config(**json.loads(str(np.load(args.weights)['config'])))
    weights = load_weights(args.weights, config)
    assert len(vocabulary['tokens']) == config.vocab_size, 'vocabulary and weights differ in size'
    tensors = [(name, array, gguf.TYPE_F16 if array.ndim == 2 else gguf.TYPE_F32) for name, array in weights.items()]
    gguf.write(args.out, metadata(config, vocabulary), tensors)
    count = sum(array.size for array in weights.values())
    print(f'{args.out}: {count:,} weights in {len(tensors)} tensors, {os.path.getsize(args.out):,} bytes')


if __name__ == '__main__':
    main()
