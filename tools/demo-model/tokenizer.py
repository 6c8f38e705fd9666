#!/usr/bin/env python3
"""Trains and applies the demo model's byte-level BPE vocabulary.

    tokenizer.py --samples 20000 -o vocab.json      train on generated stories and write the vocabulary

The vocabulary is `tokenizer.ggml.model = gpt2` with `tokenizer.ggml.pre = qwen2`: ids 0..255 are the bytes in GPT-2's
order, then come the merges in order of rank, and last the four control tokens. The stories are ASCII, so `SPLIT` is
the qwen2 pre-tokenizer's regular expression with \\p{L} = A-Za-z and \\p{N} = 0-9; text outside ASCII is only ever seen
by engines with the full expression, and falls back to byte tokens there.
"""
import argparse
import json
import re
from collections import Counter, defaultdict

from stories import BOS, END, EOS, START, sample

VOCAB_SIZE = 2816
MIN_COUNT = 40     # rarer pre-tokens are invented names and leave no merges behind
SPECIALS = [BOS, EOS, START, END]
SPLIT = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|"
                   r"\s*[\r\n]+|\s+(?!\S)|\s+")
_SPECIAL = re.compile('(' + '|'.join(map(re.escape, SPECIALS)) + ')')


def byte_alphabet():
    """GPT-2's printable stand-in for each byte, as {byte: character}, in id order."""
    printable = [*range(ord('!'), ord('~') + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in alphabet:
            alphabet[byte] = chr(256 + len(alphabet) - len(printable))
    return alphabet


def count_words(samples, first_seed=10**9):
    """How often each frequent pre-token occurs in that many generated documents (control tokens left out)."""
    words = Counter()
    for seed in range(first_seed, first_seed + samples):
        for text, _ in sample(seed):
            for part in _SPECIAL.split(text):
                if part not in SPECIALS:
                    words.update(SPLIT.findall(part))
    return {word: count for word, count in words.items() if count >= MIN_COUNT}


def learn_merges(words, count):
    """The `count` most frequent pair merges over `words` {text: occurrences}; ties go to the smaller pair."""
    alphabet = byte_alphabet()
    spelled = [[alphabet[byte] for byte in word.encode()] for word in words]
    weights = list(words.values())
    pairs, where = Counter(), defaultdict(set)
    for index, symbols in enumerate(spelled):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += weights[index]
            where[pair].add(index)
    merges = []
    while len(merges) < count:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            raise ValueError(f'only {len(merges)} of {count} merges: more samples are needed')
        merges.append(best)
        for index in where.pop(best):
            symbols, weight = spelled[index], weights[index]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= weight
            merged = spelled[index] = merge_pair(symbols, best)
            for pair in zip(merged, merged[1:]):
                pairs[pair] += weight
                where[pair].add(index)
        del pairs[best]
    return merges


def merge_pair(symbols, pair):
    """`symbols` with every occurrence of `pair` joined, from left to right."""
    merged, position = [], 0
    while position < len(symbols):
        if position + 1 < len(symbols) and (symbols[position], symbols[position + 1]) == pair:
            merged.append(pair[0] + pair[1])
            position += 2
        else:
            merged.append(symbols[position])
            position += 1
    return merged


def train(samples, vocab_size=VOCAB_SIZE):
    """A vocabulary as {"tokens": [...], "merges": ["a b", ...]}."""
    base = list(byte_alphabet().values())
    merges = learn_merges(count_words(samples), vocab_size - len(base) - len(SPECIALS))
    tokens = base + [left + right for left, right in merges] + SPECIALS
    assert len(set(tokens)) == vocab_size, 'two merges made the same token'
    return {'tokens': tokens, 'merges': [f'{left} {right}' for left, right in merges]}


class Tokenizer:
    """Encodes and decodes with a trained vocabulary; pre-tokens are cached."""

    def __init__(self, vocabulary):
        self.tokens = vocabulary['tokens']
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self.ranks = {tuple(merge.split(' ')): rank for rank, merge in enumerate(vocabulary['merges'])}
        self.alphabet = byte_alphabet()
        self.bytes = {character: byte for byte, character in self.alphabet.items()}
        self.cache = {}

    def _encode_word(self, word):
        symbols = [self.alphabet[byte] for byte in word.encode()]
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda pair: self.ranks.get(pair, 1 << 30))
            if best not in self.ranks:
                break
            symbols = merge_pair(symbols, best)
        return [self.ids[symbol] for symbol in symbols]

    def encode(self, text):
        """Token ids of `text`; the control tokens in it are recognised."""
        out, cache = [], self.cache
        for part in _SPECIAL.split(text):
            if part in SPECIALS:
                out.append(self.ids[part])
                continue
            for word in SPLIT.findall(part):
                ids = cache.get(word)
                if ids is None:
                    ids = cache[word] = self._encode_word(word)
                out += ids
        return out

    def decode(self, ids):
        """The text of token ids; control tokens appear as they are spelled."""
        out = bytearray()
        for index in ids:
            token = self.tokens[index]
            out += token.encode() if token in SPECIALS else bytes(self.bytes[character] for character in token)
        return out.decode(errors='replace')


def main():
    """Trains a vocabulary and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--samples', type=int, default=20000)
    parser.add_argument('-o', '--out', required=True)
    args = parser.parse_args()
    vocabulary = train(args.samples)
    with open(args.out, 'w', encoding='utf-8') as file:
        json.dump(vocabulary, file, ensure_ascii=False)
    tokenizer, characters, count = Tokenizer(vocabulary), 0, 0
    for seed in range(1000):
        text = ''.join(text for text, _ in sample(seed))
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text, f'seed {seed} does not survive the round trip'
        characters, count = characters + len(text), count + len(ids)
    print(f'{len(vocabulary["tokens"])} tokens; {characters / count:.2f} characters a token over 1000 documents')


if __name__ == '__main__':
    main()
