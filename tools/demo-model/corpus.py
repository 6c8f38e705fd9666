"""Generated, tokenised and packed training rows.

A row is `context + 1` tokens of consecutive documents; the first one starts the row, the last one is cut off at its
end. A row is stored as int16, a token that counts in the loss as id + LEARNED, so that rows need no second array.
"""
import multiprocessing
import os
import time

import numpy as np

from stories import sample
from tokenizer import Tokenizer

LEARNED = 1 << 14
_worker = {}


def _start_worker(vocabulary):
    _worker['tokenizer'] = Tokenizer(vocabulary)


def encode_document(tokenizer, pieces):
    """One document's ids as a list, with LEARNED added to the tokens of learned pieces."""
    out = []
    for text, learned in pieces:
        ids = tokenizer.encode(text)
        out += [index + LEARNED for index in ids] if learned else ids
    return out


def pack(tokenizer, seeds, row_length, want_held_out=False):
    """The documents of an endless iterator of `seeds` as rows, without end."""
    while True:
        row = []
        while len(row) < row_length:
            row += encode_document(tokenizer, sample(next(seeds), want_held_out))
        yield row[:row_length]


def _make_rows(job):
    """`count` rows from the seeds first_seed, first_seed + 1, …; or as many as are done at the deadline."""
    first_seed, count, row_length, deadline, want_held_out = job
    seeds = iter(range(first_seed, first_seed + 1000 * count))
    rows = np.empty((count, row_length), np.int16)
    done = 0
    for row in pack(_worker['tokenizer'], seeds, row_length, want_held_out):
        rows[done] = row
        done += 1
        if done == count or time.time() > deadline:
            return rows[:done]


def make_rows(vocabulary, rows, row_length, first_seed, budget_s, want_held_out=False, chunk=2000):
    """About `rows` packed rows [rows, row_length] int16 from all cores, fewer if `budget_s` seconds run out.

    Chunk i draws its documents from seeds of its own, so the rows do not depend on the number of cores.
    """
    deadline = time.time() + budget_s
    chunks = -(-rows // chunk)
    jobs = [(first_seed + index * 1000 * chunk, min(chunk, rows - index * chunk), row_length, deadline, want_held_out)
            for index in range(chunks)]
    parts = []
    with multiprocessing.get_context('fork').Pool(os.cpu_count(), _start_worker, (vocabulary,)) as pool:
        for part in pool.imap(_make_rows, jobs):
            parts.append(part)
            if time.time() > deadline:
                break
    return np.concatenate(parts)


def split(rows):
    """Rows → (ids [n, row_length] int64, learned [n, row_length] bool)."""
    return (rows & (LEARNED - 1)).astype(np.int64), rows >= LEARNED
