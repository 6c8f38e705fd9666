#!/usr/bin/env python3
"""Trains the demo model on freshly generated stories, within a wall-clock budget, on one GPU.

    train.py --out DIR --time-budget-s 520      writes model.npz, vocab.json, metrics.json, samples.txt and log.txt
    train.py --smoke --out DIR                  a short run of every step with a smaller model, 10 s on one CPU core

Budget: generation gets --generate-s seconds, evaluation and samples EVALUATION_S at the end, training all between. The
learning rate follows a cosine of the time used, so it reaches its end whatever the speed. Python, torch and numpy only.
"""
import argparse
import contextlib
import json
import math
import os
import time

import numpy as np
import torch

from config import Config
from corpus import make_rows, split
from evaluate import evaluate_stories
from llama import Llama, loss_of
from tokenizer import Tokenizer, train as train_vocabulary

EVALUATION_S, CHECKPOINT_S, SYNC_STEPS = 45, 120, 10
HELD_OUT_SEED, VALIDATION_SEED = 2 * 10**12, 10**12
START = time.time()


class Log:
    """Prints lines with the seconds since the start, and keeps them in a file."""

    def __init__(self, path):
        self.file = open(path, 'w', encoding='utf-8')

    def __call__(self, message):
        line = f'[{time.time() - START:6.1f}s] {message}'
        print(line, flush=True)
        print(line, file=self.file, flush=True)


def autocast(device):
    """bf16 on a GPU; plain f32 on a CPU."""
    return torch.autocast('cuda', torch.bfloat16) if device == 'cuda' else contextlib.nullcontext()


def save_weights(model, config, path):
    """The parameters under their GGUF names as f16, with the configuration."""
    arrays = {name: parameter.detach().float().cpu().numpy().astype(np.float16)
              for name, parameter in model.named_parameters()}
    np.savez(path, config=np.array(json.dumps(config.as_dict())), **arrays)


def make_optimizer(model, args, device):
    """AdamW; weight decay on matrices only."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim == 2]
    norms = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{'params': matrices, 'weight_decay': args.weight_decay}, {'params': norms, 'weight_decay': 0.0}]
    options = {'lr': args.lr, 'betas': (0.9, 0.95), 'eps': 1e-9}
    if device == 'cuda':
        options['fused'] = True
    return torch.optim.AdamW(groups, **options)


def compiled(model, batch, device, log):
    """The model's loss function, compiled if the compiler works on a whole step, else as it is."""
    if device == 'cuda' and hasattr(torch, 'compile'):
        try:
            began = time.time()
            fast = torch.compile(loss_of)
            with autocast(device):
                fast(model, *batch).backward()
            torch.cuda.synchronize()
            model.zero_grad(set_to_none=True)
            log(f'compiled in {time.time() - began:.1f} s')
            return fast
        except Exception as error:
            log(f'runs uncompiled: {type(error).__name__}: {str(error)[:200]}')
            model.zero_grad(set_to_none=True)
    return loss_of


def batches(rows, size, device, rng):
    """Shuffled batches (ids, learned) on the device, without end."""
    while True:
        order = rng.permutation(len(rows))
        for start in range(0, len(order) - size + 1, size):
            ids, learned = split(rows[np.sort(order[start:start + size])])
            ids, learned = torch.from_numpy(ids), torch.from_numpy(learned)
            if device == 'cuda':
                ids, learned = ids.pin_memory(), learned.pin_memory()
            yield ids.to(device, non_blocking=True), learned.to(device, non_blocking=True)


def learning_rate(peak, step, warmup, progress):
    """Linear warm-up over steps, then a cosine over `progress` (0..1 of the time) down to a hundredth."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return peak * min(1.0, (step + 1) / warmup) * (0.01 + 0.99 * cosine)


def fit(model, rows, args, config, device, log):
    """Trains until the time is used up or `args.max_steps` are done; returns the number of steps."""
    source = batches(rows, args.batch, device, np.random.default_rng(1))
    optimizer = make_optimizer(model, args, device)
    step_loss = compiled(model, next(source), device, log)
    began = last_save = time.time()
    end = START + args.time_budget_s - EVALUATION_S
    step, progress, running = 0, 0.0, 0.0
    while progress < 1.0 and step < args.max_steps:
        for group in optimizer.param_groups:
            group['lr'] = learning_rate(args.lr, step, args.warmup, progress)
        with autocast(device):
            loss = step_loss(model, *next(source))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % SYNC_STEPS == 0 or step == args.max_steps:
            running = loss.item()
            progress = max((time.time() - began) / max(1.0, end - began), step / args.max_steps)
            if not math.isfinite(running):
                raise RuntimeError(f'the loss is {running} at step {step}')
            if step % args.log_steps == 0:
                rate = step * args.batch * config.context / (time.time() - began)
                log(f'step {step}: loss {running:.4f}, {rate / 1e6:.2f} M tokens/s, {100 * progress:.0f} % of the time')
            if time.time() - last_save > CHECKPOINT_S:
                save_weights(model, config, os.path.join(args.out, 'model.npz'))
                last_save = time.time()
    log(f'{step} steps, last loss {running:.4f}')
    return step


@torch.no_grad()
def mean_loss(model, rows, size, device):
    """Mean loss over all rows; every batch counts the same."""
    losses = []
    for start in range(0, len(rows) - size + 1, size):
        ids, learned = (torch.from_numpy(array).to(device) for array in split(rows[start:start + size]))
        with autocast(device):
            losses.append(loss_of(model, ids, learned).item())
    return sum(losses) / len(losses)


def arguments():
    """The command line; --smoke shrinks everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', required=True)
    parser.add_argument('--time-budget-s', type=float, default=520)
    parser.add_argument('--generate-s', type=float, default=70)
    parser.add_argument('--rows', type=int, default=700_000, help='training rows, of 1024 tokens each')
    parser.add_argument('--batch', type=int, default=128)
    parser.add_argument('--lr', type=float, default=3e-3)
    parser.add_argument('--warmup', type=int, default=200)
    parser.add_argument('--weight-decay', type=float, default=0.1)
    parser.add_argument('--max-steps', type=int, default=100_000)
    parser.add_argument('--log-steps', type=int, default=100)
    parser.add_argument('--smoke', action='store_true')
    args = parser.parse_args()
    if args.smoke:
        args.time_budget_s, args.generate_s, args.rows = EVALUATION_S + 40, 8, 200
        args.batch, args.warmup, args.max_steps, args.log_steps = 2, 5, 10, 5
    return args


def main():
    """Vocabulary, corpus, training, evaluation, in this order and within the budget."""
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    log = Log(os.path.join(args.out, 'log.txt'))
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    assert device == 'cuda' or args.smoke, 'there is no GPU: use --smoke'
    if args.smoke:
        torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    log(f'torch {torch.__version__} on {device}, {os.cpu_count()} cores')

    vocabulary = train_vocabulary(samples=20000)
    with open(os.path.join(args.out, 'vocab.json'), 'w', encoding='utf-8') as file:
        json.dump(vocabulary, file, ensure_ascii=False)
    log(f'vocabulary of {len(vocabulary["tokens"])} tokens')

    config = Config(hidden=64, layers=2, heads=2, kv_heads=1, ffn=128, context=256) if args.smoke else Config()
    row_length, few = config.context + 1, 8 if args.smoke else 512
    held_out = make_rows(vocabulary, few, row_length, HELD_OUT_SEED, 30, want_held_out=True, chunk=64)
    validation = make_rows(vocabulary, few, row_length, VALIDATION_SEED, 30, chunk=64)
    rows = make_rows(vocabulary, args.rows, row_length, 0, args.generate_s)
    log(f'{len(rows):,} rows, {rows.size / 1e6:.1f} M tokens; held out {len(held_out)}, validation {len(validation)}')

    model = Llama(config).to(device)
    names = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert names == config.shapes(), 'the model and its configuration disagree'
    began = time.time()
    steps = fit(model, rows, args, config, device, log)
    training_seconds = time.time() - began
    save_weights(model, config, os.path.join(args.out, 'model.npz'))

    model.eval()
    tokens = steps * args.batch * config.context
    metrics = {
        'config': config.as_dict(), 'weights': sum(parameter.numel() for parameter in model.parameters()),
        'torch': torch.__version__, 'steps': steps, 'tokens_seen': tokens, 'corpus_tokens': int(rows.size),
        'training_seconds': training_seconds, 'epochs': tokens / rows.size,
        'validation_loss': mean_loss(model, validation, min(few, 32), device),
        'held_out_loss': mean_loss(model, held_out, min(few, 32), device),
    }
    log(f'validation loss {metrics["validation_loss"]:.4f}, held-out loss {metrics["held_out_loss"]:.4f}')
    with autocast(device):
        metrics.update(evaluate_stories(model, Tokenizer(vocabulary), device, os.path.join(args.out, 'samples.txt'),
                                        small=args.smoke, deadline=START + args.time_budget_s))
    metrics['seconds'] = time.time() - START
    with open(os.path.join(args.out, 'metrics.json'), 'w', encoding='utf-8') as file:
        json.dump(metrics, file, indent=2)
    log(json.dumps({key: value for key, value in metrics.items() if key != 'config'}))


if __name__ == '__main__':
    main()
