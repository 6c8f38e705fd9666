#!/usr/bin/env python3
"""Runs an exported model in plain numpy (f32, KV cache, one token a step) and prints its greedy answers.

    check.py model.gguf "Tell me a story about a brave fox." ...      one chat each
    check.py model.gguf --parity fixture.json                         compare with llama.cpp's tokens and logprobs
"""
import argparse
import json

import numpy as np

import gguf_file as gguf
from stories import START, turn
from tokenizer import Tokenizer


class Llama:
    """The forward pass of a llama GGUF with tied embeddings, one token at a time."""

    def __init__(self, path):
        self.metadata, self.weights = gguf.read(path)
        shape = {key[len('llama.'):]: value for key, value in self.metadata.items() if key.startswith('llama.')}
        self.layers, self.head_dim = shape['block_count'], shape['attention.key_length']
        self.heads, self.kv_heads = shape['attention.head_count'], shape['attention.head_count_kv']
        self.eps = shape['attention.layer_norm_rms_epsilon']
        frequency = shape['rope.freq_base'] ** -(np.arange(0, self.head_dim, 2) / self.head_dim)
        angles = np.arange(shape['context_length'])[:, None] * frequency
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self.reset()

    def reset(self):
        """Forgets the sequence."""
        self.keys = [[] for _ in range(self.layers)]
        self.values = [[] for _ in range(self.layers)]

    def _norm(self, x, name):
        return x / np.sqrt(np.mean(x * x) + np.float32(self.eps)) * self.weights[name]

    def _rope(self, x, position):
        """Rotates adjacent pairs (2i, 2i + 1) of [heads, head_dim]."""
        even, odd = x[:, ::2], x[:, 1::2]
        cos, sin = self.cos[position], self.sin[position]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def step(self, token):
        """Appends a token and returns the logits [vocab] that follow it."""
        position, w = len(self.keys[0]), self.weights
        x = w['token_embd.weight'][token]
        for layer in range(self.layers):
            b = f'blk.{layer}.'
            h = self._norm(x, b + 'attn_norm.weight')
            q = self._rope((w[b + 'attn_q.weight'] @ h).reshape(self.heads, self.head_dim), position)
            self.keys[layer].append(
                self._rope((w[b + 'attn_k.weight'] @ h).reshape(self.kv_heads, self.head_dim), position))
            self.values[layer].append((w[b + 'attn_v.weight'] @ h).reshape(self.kv_heads, self.head_dim))
            group = self.heads // self.kv_heads
            keys = np.repeat(np.stack(self.keys[layer], axis=1), group, axis=0)       # [heads, tokens, head_dim]
            values = np.repeat(np.stack(self.values[layer], axis=1), group, axis=0)
            scores = np.einsum('htd,hd->ht', keys, q) / np.float32(np.sqrt(self.head_dim))
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            x = x + w[b + 'attn_output.weight'] @ np.einsum('ht,htd->hd', weights, values).reshape(-1)
            h = self._norm(x, b + 'ffn_norm.weight')
            gate = w[b + 'ffn_gate.weight'] @ h
            x = x + w[b + 'ffn_down.weight'] @ (gate / (1 + np.exp(-gate)) * (w[b + 'ffn_up.weight'] @ h))
        return w['token_embd.weight'] @ self._norm(x, 'output_norm.weight')


def log_softmax(logits):
    """Log-probabilities in double."""
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def generate(model, prompt, limit, stops):
    """Greedy continuation of token ids, without the stop token that ends it."""
    model.reset()
    for token in prompt:
        logits = model.step(token)
    out = []
    while len(out) < limit and (token := int(np.argmax(logits))) not in stops:
        out.append(token)
        logits = model.step(token)
    return out


def compare(model, cases):
    """Teacher-forced comparison with a parity file: (steps, unequal argmaxes, differences in log-probability)."""
    steps, unequal, deltas = 0, 0, []
    for case in cases:
        model.reset()
        for token in case['prompt_tokens']:
            logits = model.step(token)
        for token, top in zip(case['tokens'], case['top']):
            logprobs = log_softmax(logits)
            steps, unequal = steps + 1, unequal + (int(np.argmax(logits)) != token)
            deltas += [abs(logprobs[index] - logprob) for index, logprob in top]
            logits = model.step(token)
    return steps, unequal, np.array(deltas)


def main():
    """Prints answers or a comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('requests', nargs='*')
    parser.add_argument('--parity')
    parser.add_argument('--limit', type=int, default=350)
    args = parser.parse_intermixed_args()
    model = Llama(args.model)
    meta = model.metadata
    tokenizer = Tokenizer({'tokens': meta['tokenizer.ggml.tokens'], 'merges': meta['tokenizer.ggml.merges']})
    stops = {meta['tokenizer.ggml.eos_token_id'], meta['tokenizer.ggml.eot_token_id']}
    if args.parity:
        with open(args.parity, encoding='utf-8') as file:
            steps, unequal, deltas = compare(model, json.load(file)['cases'])
        print(f'{steps} steps, {unequal} argmaxes differ; |Δ log-probability| mean {deltas.mean():.2e}, '
              f'max {deltas.max():.2e}')
    for request in args.requests:
        prompt = tokenizer.encode(turn('user', request) + f'{START}assistant\n')
        print(f'> {request}\n{tokenizer.decode(generate(model, prompt, args.limit, stops))}\n')


if __name__ == '__main__':
    main()
