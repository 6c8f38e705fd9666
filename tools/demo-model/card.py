#!/usr/bin/env python3
"""Writes the model card of an exported demo model from its training metrics and its own answers.

    card.py --model ../../models/demo.gguf --metrics metrics.json -o ../../models/README.md
"""
import argparse
import hashlib
import json
import os

from check import Llama, generate
from lexicon import ANIMALS, OBJECTS, PLACES, ROLES
from stories import START, turn
from subjects import PLOTS
from tokenizer import Tokenizer

REQUESTS = (
    'Tell me a story about a brave fox and a lost kite.', 'Write a short story about rain.',
    'Tell me a story about a robot who learns to sing.', 'a story about a girl named Mia who is afraid of thunder',
    'Tell me a story about a grumpy troll and a broken vase.', 'Write a story about a wizard who plants a pumpkin.',
    'Tell me a story about two friends who share a cake.', 'I would like a story about a duck and a strange noise.',
    'Tell me a story about a lonely ghost.', 'Can you tell me a story about a clever mouse on the farm?')
CARD = '''# The demo model

`{file}` is a small storyteller: a llama-architecture model of {weights:,} weights that this project trained from nothing on
stories that this project generated. No outside text, weights or vocabulary went into it. Licence: MIT, as the project.

| | |
|---|---|
| file | {size:,} bytes, GGUF v3, matrices F16, norms F32, SHA-256 `{sha256}` |
| shape | {layers} layers, hidden {hidden}, {heads} heads / {kv_heads} KV heads of {head_dim}, SwiGLU {ffn}, tied embeddings |
| context | {context} tokens |
| vocabulary | {vocab_size} tokens: own byte-level BPE (`gpt2` / `qwen2` pre-tokenizer), 4 control tokens |
| chat | ChatML; `<\\|im_end\\|>` (eot) ends a message, `<\\|end_of_text\\|>` (eos) a plain story; no BOS is added |
| training | {steps:,} steps, {tokens_seen:,} tokens ({epochs:.2f} passes) in {training_seconds:.0f} s on one NVIDIA H200; \
{seconds:.0f} s with vocabulary, corpus and evaluation |
| loss a token | {validation_loss:.3f} on fresh stories, {held_out_loss:.3f} on fresh stories with a held-out pair |
| stories | of {held_out_stories} whose request names a held-out pair, {held_out_ended} end by themselves, \
{distinct_stories} are distinct; {subject_words_found} of the requests' {subject_words} subject words appear |

A held-out pair is a hero with a second subject, or a trait with a hero, that no training story has; 1 in 16 is. Each
word of it, and the plots, are well known from training: the figures say that the model combines what it knows, not that
it copes with what it does not. The loss is over whole stories, of which the pair is a few words.

It can tell short English stories (100 to 250 words) about a subject, and go on from "Once upon a time". It knows
{animals} animals, {roles} roles, {objects} objects, {places} places and {plots} plots; other words it carries into the
story as well as it can. It makes mistakes, such as two characters of one name. It can do nothing else: it knows no
facts and follows no other instruction.

## How it was made

`tools/demo-model/`: `stories.py` (the generator), `tokenizer.py`, `train.py` (one GPU, {minutes:.0f} minutes), `export.py`, `check.py`
(the same model in numpy) and this card's writer, `card.py`.

## Ten greedy answers

The first answers that the model gave to these requests, unchosen and unedited.

{answers}
'''


def answers(path):
    """The model's greedy answers to REQUESTS, as Markdown quotes."""
    model = Llama(path)
    meta = model.metadata
    tokenizer = Tokenizer({'tokens': meta['tokenizer.ggml.tokens'], 'merges': meta['tokenizer.ggml.merges']})
    stops = {meta['tokenizer.ggml.eos_token_id'], meta['tokenizer.ggml.eot_token_id']}
    parts = []
    for request in REQUESTS:
        prompt = tokenizer.encode(turn('user', request) + f'{START}assistant\n')
        story = tokenizer.decode(generate(model, prompt, 360, stops))
        parts.append(f'**{request}**\n\n> ' + story.strip().replace('\n\n', '\n>\n> '))
    return '\n\n'.join(parts)


def main():
    """Writes the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True)
    parser.add_argument('--metrics', required=True)
    parser.add_argument('-o', '--out', required=True)
    args = parser.parse_args()
    with open(args.metrics, encoding='utf-8') as file:
        metrics = json.load(file)
    with open(args.model, 'rb') as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    card = CARD.format(file=os.path.basename(args.model), size=os.path.getsize(args.model), sha256=digest,
                       answers=answers(args.model), animals=len(ANIMALS), roles=len(ROLES),
                       minutes=metrics['seconds'] / 60,
                       objects=len(OBJECTS), places=len(PLACES), plots=len(PLOTS), **metrics, **metrics['config'])
    with open(args.out, 'w', encoding='utf-8') as file:
        file.write(card)


if __name__ == '__main__':
    main()
