"""Greedy stories on subjects that training never saw, and what can be counted about them."""
import random
import re
import time

import torch

from stories import END, EOS, START, draw_story, turn
from subjects import request, subject_phrase

REQUESTS = (
    'Tell me a story about a brave fox and a lost kite.', 'a story about a girl named Mia and a lost kite',
    'Write a short story about rain', 'Tell me a story about a dragon who is afraid of the dark.',
    'A story about a robot who wanted to learn to sing', 'Tell me a story about a lonely ghost.',
    'tell me a story about two friends who build a boat', 'Tell me a story about a purple elephant and a violin.',
    'Write a story about a hungry bear and honey.', 'Tell me a story about sharing.', 'the moon',
    'Can you tell me a story about a knight named Rosa in the forest?', 'Tell me a story.', 'Hello!',
    'Tell me a story about a shy dolphin.', 'a story about cats',
)
PLAIN = ('Once upon a time', 'One day, a little boy named Tim', 'In the forest, there lived', 'The old wizard',
         '"Help!"')
LIMIT = 360


@torch.no_grad()
def greedy(model, prompts, stops, limit, device, deadline):
    """Greedy continuations of prompts (lists of ids) as (ids before the stop token, whether a stop token came)."""
    longest = max(map(len, prompts))
    ids = torch.zeros((len(prompts), longest + limit), dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, :len(prompt)] = torch.tensor(prompt)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    rows = torch.arange(len(prompts), device=device)
    running = torch.ones(len(prompts), dtype=torch.bool, device=device)
    stop_ids = torch.tensor(sorted(stops), device=device)
    for produced in range(limit):
        logits = model(ids[:, :longest + produced])[rows, lengths - 1]
        following = logits.argmax(-1)
        running &= ~torch.isin(following, stop_ids)
        ids[rows, lengths] = torch.where(running, following, ids[rows, lengths])
        lengths += running.long()
        if not running.any() or time.time() > deadline:
            break
    ended = (~running).tolist()
    texts = [ids[row, len(prompt):lengths[row]].tolist() for row, prompt in enumerate(prompts)]
    return list(zip(texts, ended))


def names_held_out_pair(phrase, story):
    """Whether the phrase itself names both words of one of the story's held-out pairs."""
    return any(all(re.search(rf'\b{re.escape(word)}\b', phrase) for word in pair) for pair in story.held_out_pairs)


def evaluate_stories(model, tokenizer, device, path, small, deadline):
    """Writes samples to `path`; counts the held-out stories that end and the subject words that are found in them."""
    rng = random.Random(7)
    asked = []
    while len(asked) < (2 if small else 128):
        story = draw_story(rng, want_held_out=True)
        phrase = subject_phrase(rng, story)
        hero = story.hero.name if story.hero.is_child else story.hero.kind
        if not names_held_out_pair(phrase, story):
            continue
        words = [word for word in (hero, story.trait, story.object, story.option or '', story.friend.kind)
                 if word and word in phrase]
        asked.append((request(rng, phrase, 0), words))
    chats = [text for text, _ in asked] + list(REQUESTS)
    texts = [turn('user', text) + f'{START}assistant\n' for text in chats] + list(PLAIN)
    stops = {tokenizer.ids[END], tokenizer.ids[EOS]}
    results = greedy(model, [tokenizer.encode(text) for text in texts], stops, 20 if small else LIMIT, device, deadline)
    stories = [tokenizer.decode(ids) for ids, _ in results]
    with open(path, 'w', encoding='utf-8') as file:
        for title, story, (_, ended) in list(zip(chats + list(PLAIN), stories, results))[::-1]:
            file.write(f'> {title}\n{story}{"" if ended else " [cut]"}\n\n')
    held_out = list(zip(asked, stories, results))
    found = [word.lower() in story.lower() for (_, words), story, _ in held_out for word in words]
    return {'held_out_stories': len(held_out), 'held_out_ended': sum(ended for *_, (_, ended) in held_out),
            'subject_words': len(found), 'subject_words_found': sum(found),
            'distinct_stories': len(set(stories[:len(asked)]))}
