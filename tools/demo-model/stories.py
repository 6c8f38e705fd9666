#!/usr/bin/env python3
"""Writes the demo model's training text: seeded stories with a subject each, as chats and as plain text.

    stories.py --count 5                      five samples as they are trained on
    stories.py --bench                        megabytes a second on one core

Everything is a function of the seed. A combination of hero and second subject of which the hash falls into the
held-out part (1 in 16) never appears in training samples; `sample(seed, want_held_out=True)` draws only from those.
"""
import argparse
import random
import time

from grammar import Narrator, article, capitalise, paragraph, stable_hash
from lexicon import (ANIMALS, BOYS, COATS, FEMALE_KINDS, FOODS, GIRLS, HE, MALE_KINDS, OBJECTS, PET_BOYS,
                     PET_GIRLS, PLACES, PLAIN_TRAIT, PLAIN_TRAITS, ROLES, SHE, SYLLABLES, TRAITS)
from subjects import PLOTS, SMALL_TALK, SYSTEM_PROMPTS, request, subject_phrase

BOS, EOS, START, END = '<|begin_of_text|>', '<|end_of_text|>', '<|im_start|>', '<|im_end|>'
OLD = {'grandmother', 'grandfather', 'wizard', 'witch', 'king', 'queen', 'giant', 'troll', 'robot', 'owl', 'bear',
       'fox', 'dragon', 'turtle', 'tortoise', 'horse', 'donkey', 'elephant', 'toad', 'cat', 'dog', 'wolf', 'goat',
       'baker', 'farmer', 'fisherman', 'sailor', 'pirate', 'shepherd', 'tailor', 'clockmaker', 'knight', 'crow'}
SMALL = {'mouse', 'snail', 'bee', 'ladybug', 'ant', 'beetle', 'cricket', 'caterpillar', 'spider', 'firefly',
         'butterfly', 'fairy', 'gnome', 'elf', 'frog', 'newt', 'wren', 'robin', 'sparrow', 'chick', 'hamster', 'mole'}
ADULTS = {'grandmother', 'grandfather', 'king', 'queen', 'giant', 'troll'}
MENTORS = (('Grandmother', SHE), ('Grandfather', HE), ('Old Owl', HE), ('the old turtle', SHE), ('Aunt Rose', SHE),
           ('Uncle Jim', HE), ('Mrs. Brown', SHE), ('Mr. Green', HE))
OPENINGS = (
    'Once upon a time, {inplace}, there lived {atk} named {name}.',
    'Once upon a time there was {atk} named {name} who lived {inplace}.',
    '{Name} was {atk} who lived {inhome} {inplace}.',
    'There once was {atk} called {name}, who lived {inplace}.',
    '{Inplace}, in {home}, lived {atk} named {name}.',
    'Long ago, {atk} named {name} lived {inplace}.',
    'This is the story of {name}, {atk} who lived {inplace}.',
    'A long time ago, {atk} lived {inplace}. {Hishers} name was {name}.',
    'Do you know {name}? {Name} was {atk} who lived {inplace}.',
)
KNOWN_NAMES = {*GIRLS, *BOYS, *PET_GIRLS, *PET_BOYS}
BACKGROUND = (
    '[{He} loved {food} more than anything else.|{He} always wore a [red scarf|blue cap|yellow bow|straw hat].|All the '
    'neighbors liked {him}.|Every morning, {he} [said hello to the sun|looked out of the window|went for a short '
    'walk].|{He} liked to [count the stars|watch the clouds|collect pretty stones|listen to old stories].|In the '
    'evening, {he} liked to sit by the [fire|window|door] and [think|sing|rest].]')


def held_out(first, second):
    """Whether this combination is kept out of training."""
    return stable_hash(f'{first}+{second}') % 16 == 0


def _invented_name(rng):
    """A name of two or three syllables that is not in the lists (those have a gender)."""
    while True:
        name = capitalise(''.join(rng.choice(SYLLABLES) for _ in range(rng.choice((2, 2, 3)))))
        if name not in KNOWN_NAMES:
            return name


class Character:
    """Somebody in a story: a kind, a name, pronouns, and words for what it holds things with and where it lives."""

    def __init__(self, rng, other=None):
        """Draws a character that differs from `other` in kind and name."""
        while True:
            draw = rng.random()
            if draw < 0.3:
                self._child(rng)
            elif draw < 0.33:
                self._creature(rng, _invented_name(rng).lower(), {})
            elif draw < 0.75:
                self._creature(rng, rng.choice(ANIMAL_KINDS), ANIMALS)
            else:
                self._creature(rng, rng.choice(ROLE_KINDS), ROLES)
            if other is None or (other.name != self.name and (other.kind != self.kind or self.is_child)):
                return

    def _child(self, rng):
        girl = rng.random() < 0.5
        self.kind, self.pronouns = ('girl', SHE) if girl else ('boy', HE)
        self.name = _invented_name(rng) if rng.random() < 0.12 else rng.choice(GIRLS if girl else BOYS)
        self.hand, self.home, self.is_child = 'hand', 'a small house', True

    def _creature(self, rng, kind, table):
        girl = rng.random() < 0.5 if kind not in FEMALE_KINDS | MALE_KINDS else kind in FEMALE_KINDS
        hands, self.home = table.get(kind, ('feet', 'a little house'))
        self.kind, self.pronouns, self.is_child = kind, SHE if girl else HE, False
        self.hand = {'paws': 'paw', 'wings': 'wing', 'hands': 'hand', 'tiny hands': 'tiny hand'}.get(hands, 'grip')
        if rng.random() < 0.12:
            self.name = _invented_name(rng)
        elif table is ROLES:
            self.name = rng.choice(GIRLS if girl else BOYS)
        else:
            names = PET_GIRLS if girl else PET_BOYS
            # Each kind has favourite names, so that a greedy story does not always use the same one.
            start = stable_hash(kind) % len(names)
            self.name = names[(start + rng.choice((0, 0, 0, 1, 2, 5, rng.randrange(20)))) % len(names)]

    def references(self, other):
        """How a story refers to the character; "the girl" only where it cannot mean `other`."""
        if other is None or other.kind == self.kind:
            return [self.name]
        return [self.name, self.name, self.name, f'the {self.kind}']


ANIMAL_KINDS, ROLE_KINDS = list(ANIMALS), list(ROLES)


# traits that contradict a plot: who is patient does not learn patience, who is lonely has no friend yet
CONTRADICTIONS = {
    'growing': {'patient'}, 'honesty': {'honest'}, 'sharing': {'kind', 'gentle'},
    'noise': {'sleepy', 'lonely', 'fearless'}, 'weather': {'lonely'}, 'gift': {'lonely'}, 'building': {'lonely'},
    'wish': {'lonely'}, 'fear': {'fearless'},
}


def _fits(trait, kind, plot):
    """Whether a character of this kind can have the trait in this plot."""
    if trait in CONTRADICTIONS.get(plot.name, ()):
        return False
    if trait in COATS and (kind in ROLES or kind in ('girl', 'boy')):
        return False
    return not (trait == 'tiny' and kind not in SMALL or trait == 'old' and kind not in OLD or
                trait in ('young', 'little', 'small') and kind in ADULTS or trait == 'wise' and kind in ('girl', 'boy'))


class Story:
    """One story: its characters, its plot, and the words that fill the plot's slots."""

    def __init__(self, rng):
        self.hero = Character(rng)
        self.friend = Character(rng, self.hero)
        self.place = rng.choice(list(PLACES))
        self.object = rng.choice(list(OBJECTS))
        self.adjective = rng.choice(OBJECTS[self.object][0].split())
        self.plot = rng.choice(PLOTS)
        kind = self.hero.kind
        traits = PLAIN_TRAITS if rng.random() < 0.15 else list(TRAITS)
        self.trait = rng.choice([trait for trait in traits if _fits(trait, kind, self.plot)])
        options = [option for option in self.plot.options if (kind, option) not in self.plot.excluded]
        self.option = rng.choice(options) if options else None
        self.second = self.object if self.plot.name == 'lost' else self.option or self.plot.name
        taken = {kind, self.friend.kind}
        mentors = [mentor for mentor in MENTORS if mentor[0].lower().split()[-1] not in taken]
        # As with names: each hero has a favourite.
        start = stable_hash(self.hero.name)
        self.mentor = mentors[(start + rng.choice((0, rng.randrange(8)))) % len(mentors)]

    @property
    def held_out_pairs(self):
        """Those of the pairs hero and second subject, and trait and hero, that are held out."""
        hero = self.hero.name if self.hero.is_child else self.hero.kind
        return [pair for pair in ((hero, self.second), (self.trait, hero)) if held_out(*pair)]

    def _fill(self, s):
        """Fills the narrator's slots."""
        hero, friend, slots = self.hero, self.friend, s.slots
        s.set_person('hero', hero.references(friend), hero.pronouns)
        s.set_person('friend', friend.references(hero), friend.pronouns)
        s.set_person('mentor', *self.mentor)
        in_place, walk, spots = PLACES[self.place]
        spot, other_spot = s.random.sample(spots.split(';'), 2)
        slots.update(
            name=hero.name, kind=hero.kind, trait=self.trait, atk=article(f'{self.trait} {hero.kind}'), hand=hero.hand,
            home=hero.home, inhome='in ' + hero.home, inplace=s.tell(in_place), place_the='the ' + self.place,
            walk=walk, spot=spot, otherspot=other_spot, hishers=hero.pronouns[2], fname=friend.name, obj=self.object,
            afriend=f'{article(friend.kind)} named {friend.name}', aobj=article(f'{self.adjective} {self.object}'),
            buddy=f'{hero.pronouns[2]} friend {friend.name}' + ('' if friend.is_child else f' the {friend.kind}'),
            loss=s.pick(OBJECTS[self.object][1].split()), food=s.pick(FOODS))
        if self.option:
            slots[self.plot.slot] = self.option
            slots['a' + self.plot.slot] = article(self.option)

    def text(self, seed):
        """The story's text, paragraphs separated by an empty line."""
        s = Narrator(seed)
        hero = self.hero.name if self.hero.is_child else self.hero.kind
        s.styles = (stable_hash(hero) % 7, stable_hash(self.second + self.trait) % 7)
        self._fill(s)
        shows, ending = TRAITS.get(self.trait, PLAIN_TRAIT)
        paragraphs = self.plot.tell(s)
        opening = [s.pick(OPENINGS), f'[{shows}]']
        if s.chance(0.5):
            opening.append(BACKGROUND)
        if s.chance(0.4):
            paragraphs.insert(0, opening)
        else:
            paragraphs[0] = opening + paragraphs[0]
        if s.chance(0.75):
            paragraphs[-1] = [*paragraphs[-1], f'[{ending}]']
        if s.chance(0.12):
            paragraphs[-1] = [*paragraphs[-1], 'The end.']
        return '\n\n'.join(paragraph(s, sentences) for sentences in paragraphs)


def draw_story(rng, want_held_out=False):
    """A story from the training part, or from the held-out part."""
    while True:
        story = Story(rng)
        if bool(story.held_out_pairs) == want_held_out:
            return story


def turn(role, text):
    """One message of a chat, as the chat template renders it."""
    return f'{START}{role}\n{text}{END}\n'


def sample(seed, want_held_out=False):
    """One training document of (text, learned) pieces; only learned pieces count in the loss."""
    rng = random.Random(seed)
    if rng.random() < 0.15 and not want_held_out:
        return [(draw_story(rng).text(rng.random()) + EOS, True)]
    pieces = []
    if rng.random() < 0.1:
        pieces.append((turn('system', rng.choice(SYSTEM_PROMPTS)), False))
    turns = rng.choices((1, 2, 3), (85, 11, 4))[0]
    for number in range(turns):
        if rng.random() < 0.015:
            question, answer = rng.choice(SMALL_TALK)
        elif rng.random() < 0.02:
            story = draw_story(rng, want_held_out)
            question, answer = request(rng, None, number), story.text(rng.random())
        else:
            story = draw_story(rng, want_held_out)
            question, answer = request(rng, subject_phrase(rng, story), number), story.text(rng.random())
        pieces += [(turn('user', question) + f'{START}assistant\n', False), (answer + END, True), ('\n', False)]
    pieces[-1] = (EOS, True)
    return pieces


def main():
    """Prints samples, or measures the generator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=3)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--held-out', action='store_true')
    parser.add_argument('--bench', action='store_true')
    args = parser.parse_args()
    if args.bench:
        start, size = time.perf_counter(), 0
        for seed in range(5000):
            size += sum(len(text) for text, _ in sample(seed))
        seconds = time.perf_counter() - start
        print(f'{size / 1e6 / seconds:.2f} MB/s on one core, {size / 5000:.0f} characters a document')
        return
    for seed in range(args.seed, args.seed + args.count):
        print(''.join(text for text, _ in sample(seed, args.held_out)), end='\n\n-----\n\n')


if __name__ == '__main__':
    main()
