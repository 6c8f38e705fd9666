"""Trains a small Unigram model, and writes it with hostile texts and SentencePiece's ids, for test/fixtures/unigram.json.

    pip install sentencepiece==0.2.2 protobuf==7.36.2
    python bench/peers/make-unigram.py build/unigram.json
    node bench/peers/make-unigram.mjs build/unigram.json -o test/fixtures/unigram.json

The rules of normalization are those of nmt_nfkc for some hundred characters and sequences, compiled by SentencePiece; with --full all
of nmt_nfkc. The second command adds llama.cpp's ids.
"""

import base64
import io
import json
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "Der schnelle braune Fuchs springt über den faulen Hund.", "Größe, Straße und Äpfel!",
    "Portez ce vieux whisky au juge blond qui fume.", "L'été à Noël, où ça ?", "El veloz murciélago hindú comía feliz cardillo y kiwi.",
    "Съешь ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.", "いろはにほへと ちりぬるを", "東京は日本の首都です。", "中国的首都是北京。",
    "대한민국의 수도는 서울입니다.", "ישראל היא מדינה קטנה", "العربية لغة جميلة", "हिन्दी भारत की भाषा है", "ภาษาไทย", "Tiếng Việt có dấu",
    "def main(): return 42 if x != 0 else {'a': [1, 2, 3]}", "https://example.org/a?b=c&d=e#f", "100 000,50 € = 1.2e+06 %", "embedding models rank documents by a query",
]  # fmt: skip

FIXED = [
    "", " ", "   ", "\t\n\r ", "The quick fox", " The  quick   fox ", "the", "THE", "unbelievable", "a.b.c", "<s> the </s>", "<unk>", "<pad>", "▁", "▁▁", "▁the", "the▁fox", "a ▁ b", " ▁",
    "\u3000the\u3000fox\u3000", "a\u00a0b", "a\u2003b", "a\u200bb", "a\u200db", "a\u2028b", "a\ufeffb", "\ufeffthe", "a\u00adb", "a\ufffdb", "a\u0000b", "\u0000", "a\u0007b", "a\u007fb", "a\u0085b",
    "café", "cafe\u0301", "e\u0301\u0302", "\u0301", "\u0301a", "Å å \u212b A\u030a", "ﬁ ﬂ ﬃ", "Ⅷ ⅷ ㎏ ㍿", "ＡＢＣ１２３！", "ｶﾞ ｶ ﾞ", "が か\u3099 ガ", "①②③ ½ ²", "…‥", "ﷺ", "ﷺ ﷺﷺ", "ª º µ",
    "中国人日本", "日本の人", "한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "हिन्दी", "עִבְרִית", "العربية", "😀 a😀b 👨\u200d👩", "\U0001f1e9\U0001f1ea", "\U00020000 \U0002f800", "\U0010ffff", "\ue000", "\u0378",
    "x" * 300, "the" * 100, "a" * 257, "😀" * 70, "éé" * 60, "! " * 80, " " * 200 + "a" + " " * 200, "\u0301" * 40, "日" * 90, "$5+3=8<9>~`|^", "don’t “stop”", "Noe\u0308l", "ĳ Ĳ ŉ", "ſ K Ω", "ǅ ǆ", "㌀", "ｰ", "″ ‴",
    "a [user] b", "[user]", "[USER] [user",
]  # fmt: skip

PARTS = [
    *["the", "quick", "embedding", "Fuchs", "über", "Größe", "été", "булок", "ψυχο", "いろは", "東京", "北京", "서울", "العربية", "हिन्दी", "ภาษา", "Việt", "42", "</s>", "<s>", "<mask>", "▁"],
    *" " * 8, *"abcdefghijklmnopqrstuvwxyz", *"ABCEINÉÜİΣßñø.,;:!?-_/()[]{}'\"", "\n", "\t", "\u3000", "\u00a0", "\u200b", "\u0301", "\u0308", "\u3099", "\u0000", "ﬁ", "Ａ", "１", "①", "ﷺ", "か", "ｶ", "ﾞ", "😀", "\U00020000", "\u1112", "\u1161", "\u11ab",
]  # fmt: skip


def texts() -> list[str]:
    draw = random.Random(17)
    drawn = ["".join(draw.choice(PARTS) for _ in range(draw.randint(1, 30))) for _ in range(300)]
    return [*FIXED, *drawn]


def rules() -> str:
    """Lines of code points and what they become, in hexadecimal."""
    ranges = [(0xA0, 0x17F), (0x1C4, 0x1CC), (0x2000, 0x205F), (0x2070, 0x209C), (0x2100, 0x2138), (0x2150, 0x217F), (0x2460, 0x24FF), (0x3000, 0x3000)]
    ranges += [(0x3300, 0x3357), (0x3380, 0x33DF), (0xFB00, 0xFB06), (0xFDFA, 0xFDFB), (0xFF01, 0xFFEE), (0x2F800, 0x2F810)]
    found = {chr(point): unicodedata.normalize("NFKC", chr(point)) for first, last in ranges for point in range(first, last + 1)}
    bases, marks = [*map(chr, range(0x41, 0x5B)), *map(chr, range(0x61, 0x7B))], [chr(point) for point in (0x300, 0x301, 0x302, 0x303, 0x308, 0x30A, 0x327)]
    found |= {base + mark: unicodedata.normalize("NFKC", base + mark) for base in bases for mark in marks}
    found |= {base + mark: unicodedata.normalize("NFKC", base + mark) for base in map(chr, range(0x3042, 0x30FB)) for mark in "\u3099\u309a"}
    found |= {base + mark: unicodedata.normalize("NFKC", base + mark) for base in map(chr, range(0xFF66, 0xFF9E)) for mark in "\uff9e\uff9f"}
    found |= {text: unicodedata.normalize("NFKC", text) for text in ("\u1112\u1161", "\u1112\u1161\u11ab", "\u1100\u116e", "\u1100\u116e\u11a8")}
    found |= dict.fromkeys([*"\t\n\r\u2028\u2029\u0085\u200b\u200c\u200d\u200e\u200f\ufeff\u00ad"], " ")
    found |= {chr(point): "" for point in [*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F]}
    code = lambda text: " ".join(f"{ord(character):X}" for character in text)
    return "".join(f"{code(key)}\t{code(value)}\n" for key, value in sorted(found.items()) if key != value)


def trained(is_full: bool) -> messages.ModelProto:
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(rules())
        file.flush()
        named = {"normalization_rule_name": "nmt_nfkc"} if is_full else {"normalization_rule_tsv": file.name}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 20), model_writer=model, model_type="unigram", vocab_size=420, hard_vocab_limit=False, character_coverage=1.0,
            pad_id=3, control_symbols=["<mask>"], user_defined_symbols=["[user]"], minloglevel=2, num_threads=1, **named,
        )  # fmt: skip
    found = messages.ModelProto()
    found.ParseFromString(model.getvalue())
    return found


model = trained("--full" in sys.argv)
encoder = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
cases = [{"text": text, "bySentencePiece": encoder.encode(text)} for text in texts()]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(
        {
            "source": f"sentencepiece {sentencepiece.__version__}",
            "charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
            "tokens": [piece.piece for piece in model.pieces],
            "types": [piece.type for piece in model.pieces],
            "scores": [piece.score for piece in model.pieces],
            "fixed": len(FIXED),
            "cases": cases,
        },
        file,
    )
print(f"{len(cases)} texts, {len(model.pieces)} tokens, {len(model.normalizer_spec.precompiled_charsmap)} bytes of rules")
