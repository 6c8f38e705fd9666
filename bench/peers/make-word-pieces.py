"""Writes hostile texts and what Hugging Face's library makes of them by WordPiece, for test/fixtures/word-pieces.json.

    pip install tokenizers==0.23.2
    python bench/peers/make-word-pieces.py build/word-pieces.json
    node bench/peers/make-word-pieces.mjs build/word-pieces.json -o test/fixtures/word-pieces.json

The second command adds llama.cpp's ids where they differ.
"""

import json
import random
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "fox", "play", "un", "believ", "able", "sea", "istanbul", "cafe", "naive", "strasse", "ok"]
ENDINGS = ["ing", "ed", "able", "ly", "ness", "er"]
LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789")
CAPITALS = list("ABCEINÉÜİΣ")
FOREIGN = list("éüñøßłđıſαβγσςωабвгйёאבגדابتहिनदीक्ा中国人日本が々かきはカぁ") + ["한", "국", "ᄒ", "ᅡ", "ᆫ", "ᄀ", "ᅮ", "ᆨ", "😀", "€", "×", "ﬁ", "Å", "ो", "ে", "া"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["…", "—", "“", "”", "。", "、", "！", "¿", "·", "॥"]


def vocabulary() -> list[str]:
    tokens = [*SPECIAL, *WORDS, *LETTERS, *CAPITALS, *FOREIGN, *PUNCTUATION]
    tokens += ["##" + piece for piece in [*ENDINGS, *LETTERS, *CAPITALS, *FOREIGN]]
    return list(dict.fromkeys(tokens))


FIXED = [
    "", " ", "\t\n\r ", "The fox", "Unbelievable!", "playing, played; player", "don't stop", "a.b.c", "[CLS] the [SEP]", "[MASK]",
    "café naïve", "cafe\u0301", "CAFÉ", "İstanbul", "ISTANBUL ıstanbul", "Straße STRASSE", "ΑΣΩ σς", "Å å \u212b", "ﬁ ﬂ",
    "中国人日本", "日本の人", "が か\u3099 ガ", "한국 한국인", "\u1112\u1161\u11ab", "हिन्दी", "कि का को", "\u09cb \u09c7\u09be", "עִבְרִית", "الْعَرَبِيَّة", "Йод йод", "ёлка",
    "a\u0000b", "a\u0007b", "a\u000bb", "a\u000cb", "a\u0085b", "a\u00a0b", "a\u00adb", "a\u200bb", "a\u200db", "a\u2028b", "a\ufeffb", "a\ufffdb",
    "a\u0378b", "a\ue000b", "a\u3000b", "a\u180eb", "\u0301a", "a\u0301\u0302\u0303b", "😀 a😀b 👨\u200d👩", "5€ €5 3×4", "x" * 99, "x" * 100, "x" * 101, "x" * 300,
    "x" * 60 + "é" * 41, "the" * 34, "!" * 120, "…—“the”", "a_b-c/d\\e", "$5+3=8<9>~`|^", "¿qué? ·a·", "。、！", "॥ the ॥", "々人", "ſ K", "Ⅷ ⅷ", "ǅ ǆ", "\U00020000 \U0002b81f \U0002b820 \U0002f800",
    "ŀ Ŀ", "ǭ Ǭ", "ẛ̣", "\u0f71\u0f72", "\ufb1d\ufb2a", "\u1e9e", "ὈΔΥΣΣΕΎΣ", "ΰ", "\u0345", "ᾳ ᾼ",
]  # fmt: skip


def texts() -> list[str]:
    draw = random.Random(11)
    parts = [*WORDS, *ENDINGS, *LETTERS, *CAPITALS, *FOREIGN, *PUNCTUATION, " ", " ", " ", "\n", "\t", "\u0301", "\u200b", "\u00a0", "\u0000", "\u3000"]
    drawn = ["".join(draw.choice(parts) for _ in range(draw.randint(1, 24))) for _ in range(260)]
    return [*FIXED, *drawn]


def encoder(tokens: list[str], lowercase: bool) -> Tokenizer:
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


tokens = vocabulary()
uncased, cased = encoder(tokens, True), encoder(tokens, False)
cases = [{"text": text, "uncased": uncased.encode(text).ids, "cased": cased.encode(text).ids} for text in texts()]
# As converters spell them: a mark in front of what begins a word.
spelled = [token if token in SPECIAL else token[2:] if token.startswith("##") else "▁" + token for token in tokens]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"source": "tokenizers 0.23.2", "tokens": spelled, "special": len(SPECIAL), "cases": cases}, file, ensure_ascii=True)
print(f"{len(cases)} texts, {len(tokens)} tokens")
