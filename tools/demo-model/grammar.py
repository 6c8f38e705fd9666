"""A small template language for English prose, and the referring expressions that go into it.

A template is text with two constructs:

    [one|two|three]   one alternative is chosen (they nest; an empty one is allowed)
    {slot}            the value of a slot; a slot spelled with a capital first letter capitalises its value

A slot's value is a string, or a list of strings of which one is drawn at each use. Alternatives are drawn partly
by *style*: a story carries a few small integers derived from its subject, and each choice point prefers one
alternative for each style. A model can learn this, so its greedy stories differ from subject to subject instead of
collapsing onto the alternative that is the most frequent one over all stories.
"""
import random
import re
import zlib

STYLE_WEIGHT = 0.4
_TOKENS = re.compile(r'[\[\]|]|\{[A-Za-z_]+\}|[^\[\]|{}]+')
_VOWEL_SOUND = re.compile(r'(?:[aeio]|u(?!ni|se|kulele)|hour|honest)', re.I)


def stable_hash(text):
    """A hash of `text` that is the same in every process (Python's own is salted)."""
    return zlib.crc32(text.encode())


def article(noun_phrase):
    """`noun_phrase` with its indefinite article: "an old map", "a unicorn"."""
    return ('an ' if _VOWEL_SOUND.match(noun_phrase) else 'a ') + noun_phrase


_PLURALS = {'mouse': 'mice', 'goose': 'geese', 'wolf': 'wolves', 'calf': 'calves', 'sheep': 'sheep', 'deer': 'deer',
            'moose': 'moose', 'elf': 'elves', 'fisherman': 'fishermen', 'snowman': 'snowmen'}


def plural(noun):
    """The plural of a regular noun or of one of the irregular ones in use here."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun.endswith('y') and noun[-2] not in 'aeou':
        return noun[:-1] + 'ies'
    return noun + ('es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's')


def capitalise(text):
    """`text` with its first letter in upper case and the rest untouched."""
    return text[:1].upper() + text[1:]


class Choice:
    """A choice point: alternatives, each a compiled template, and a salt that spreads styles over them."""
    __slots__ = ('options', 'salt')

    def __init__(self, options, salt):
        self.options = options
        self.salt = salt


class Slot:
    """A reference to a slot; `capital` asks for a capital first letter."""
    __slots__ = ('name', 'capital')

    def __init__(self, name):
        self.capital = name[0].isupper()
        self.name = name[0].lower() + name[1:]


def _parse(tokens, position, salt):
    """Parses alternatives up to `]` or the end; returns (list of compiled templates, next position)."""
    options, current = [], []
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token == '[':
            inner, position = _parse(tokens, position, salt * 31 + position)
            current.append(Choice(inner, (salt * 131 + position) & 0xffff))
        elif token == ']':
            break
        elif token == '|':
            options.append(current)
            current = []
        elif token[0] == '{':
            current.append(Slot(token[1:-1]))
        else:
            current.append(token)
    options.append(current)
    return options, position


_compiled = {}


def compile_template(text):
    """The compiled form of a template, cached: templates are constants, so the cache is bounded."""
    found = _compiled.get(text)
    if found is None:
        assert text.count('[') == text.count(']'), f'unbalanced: {text}'
        tokens = _TOKENS.findall(text)
        assert ''.join(tokens) == text, f'bad template: {text}'
        salt = stable_hash(text) & 0xffff
        options, end = _parse(tokens, 0, salt)
        assert end == len(tokens), f'unbalanced: {text}'
        found = options[0] if len(options) == 1 else [Choice(options, salt)]
        _compiled[text] = found
    return found


class Narrator:
    """Expands templates with one story's slots, random numbers and styles."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.slots = {}
        self.styles = (0, 0)

    def _styled(self, salt, count):
        """Which of `count` alternatives the story's style prefers at the choice point with this salt."""
        return ((self.styles[salt & 1] * 0x9e3779b1 + salt * 0x85ebca6b & 0xffffffff) >> 16) % count

    def pick(self, options):
        """One of `options`, in two of five draws the one that the story's style prefers."""
        draw = self.random.random
        if draw() < STYLE_WEIGHT:
            return options[self._styled(stable_hash(repr(options[0])), len(options))]
        return options[int(draw() * len(options))]

    def chance(self, probability):
        """True with the given probability."""
        return self.random.random() < probability

    def set_person(self, prefix, names, pronouns):
        """Fills the slots of a character: `<prefix>` is drawn from `names`; he, him, his, himself get the prefix's
        first letter, except for the hero, whose pronouns are the plain words."""
        self.slots[prefix] = names
        letter = '' if prefix == 'hero' else prefix[0]
        for key, word in zip(('he', 'him', 'his', 'himself'), pronouns):
            self.slots[letter + key] = word

    def tell(self, template):
        """The text of a template."""
        out = []
        self._expand(compile_template(template), out)
        return ''.join(out)

    def _expand(self, parts, out):
        draw = self.random.random
        for part in parts:
            if part.__class__ is str:
                out.append(part)
            elif part.__class__ is Slot:
                value = self.slots[part.name]
                if value.__class__ is list:
                    value = value[int(draw() * len(value))]
                out.append(capitalise(value) if part.capital else value)
            else:
                options, salt = part.options, part.salt
                if draw() < STYLE_WEIGHT:
                    chosen = self._styled(salt, len(options))
                else:
                    chosen = int(draw() * len(options))
                self._expand(options[chosen], out)


_SPACES = re.compile(r' {2,}')


def paragraph(narrator, sentences):
    """Sentence templates (empty expansions allowed) as one paragraph of text."""
    text = ' '.join(narrator.tell(sentence) for sentence in sentences)
    return _SPACES.sub(' ', text).strip()
