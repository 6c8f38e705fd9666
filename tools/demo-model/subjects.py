"""What a story can be about: the plots with their options, and the ways in which a user asks for a story."""
from dataclasses import dataclass, field
from typing import Callable

import plots_friends as friends
import plots_home as home
import plots_quest as quest

from grammar import article, plural
from lexicon import PLACE_PREPOSITIONS

_SWIMMERS = 'frog toad duck goose swan otter turtle beaver penguin crocodile newt pirate sailor fisherman'.split()
_SINGERS = 'robin wren sparrow parrot bird musician cricket'.split()
_CLIMBERS = ('squirrel chipmunk koala monkey owl robin sparrow crow bird wren parrot eagle goose duck swan bat dragon '
             'griffin bee butterfly ladybug firefly fairy spider cricket beetle panda').split()


@dataclass(frozen=True)
class Plot:
    """A plot: its function, the slot that its option fills, and phrases for requests.

    `tails` follow the hero ("a fox" + " who got lost"), `topics` stand alone ("a lost kite"); both are templates
    over {opt} (the option), {aopt} (with article), {obj}, {aobj}, {fac} (a friend's kind with article), {his}.
    `excluded` are (kind, option) pairs that make no sense.
    """
    name: str
    tell: Callable
    slot: str = ''
    options: tuple = ()
    tails: tuple = ()
    topics: tuple = ()
    excluded: frozenset = field(default_factory=frozenset)


def _pairs(**kinds):
    return frozenset((kind, option.replace('_', ' ')) for option, names in kinds.items() for kind in names)


PLOTS = (
    Plot('lost', quest.lost, tails=(' and a lost {obj}', ' and {aobj}', ' who lost {his} {obj}', ' with {aobj}',
                                    ' and the missing {obj}', ' who is looking for {his} {obj}'),
         topics=('a lost {obj}', '{aobj}', 'the missing {obj}', '{aobj} that got lost')),
    Plot('weather', quest.weather, 'weather', tuple(quest.WEATHER),
         (' and the {opt}', ' in the {opt}', ' and {fac} in the {opt}', ' and {fac}'), ('the {opt}', '{opt}', 'the '
          'weather')),
    Plot('getting lost', quest.getting_lost, tails=(' who got lost', ' who loses the way', ' who could not find the '
        'way '
                                                    'home', ' who is lost'),
         topics=('getting lost', 'finding the way home', 'losing the way')),
    Plot('noise', quest.noise, tails=(' and a strange noise', ' and a noise in the night', ' who heard a strange '
        'noise'),
         topics=('a strange noise', 'a noise in the night', 'a mystery', 'something scary')),
    Plot('fear', quest.fear, 'fear', tuple(quest.FEARS),
         (' who is afraid of {opt}', ' who was afraid of {opt}', ' who was scared of {opt}'),
         ('being afraid of {opt}', 'courage', 'being brave', 'fear', '{opt}'),
         _pairs(deep_water=_SWIMMERS, high_places=_CLIMBERS, the_dark=('owl', 'bat', 'firefly', 'mole'))),
    Plot('learning', home.learning, 'skill', tuple(home.SKILLS),
         (' who wanted to {opt}', ' who learns to {opt}', ' who could not {opt}', ' who wants to learn to {opt}'),
         ('learning to {opt}', 'practice', 'learning something new', 'not giving up'),
         _pairs(swim=_SWIMMERS, sing=_SINGERS, whistle=_SINGERS, bake=('baker', 'cook'), paint=('painter',),
                read=('librarian', 'teacher', 'wizard', 'scientist'), juggle=('juggler',), dance=(),
                jump=('frog', 'kangaroo', 'rabbit', 'cricket', 'deer', 'toad')) | _pairs(**{'play_the_drum': (
                    'musician',)})),
    Plot('sharing', home.sharing, tails=(' who learns to share', ' who did not want to share', ' who shares with '
        '{fac}'),
         topics=('sharing', 'learning to share', 'sharing food')),
    Plot('honesty', home.honesty, 'broken', tuple(home.BREAKABLE),
         (' and a broken {opt}', ' who broke a {opt}', ' who tells the truth'),
         ('a broken {opt}', 'honesty', 'telling the truth', 'a mistake')),
    Plot('growing', home.growing, 'plant', tuple(home.PLANTS),
         (' and {aopt}', ' who planted {aopt}', ' who grows {aopt}', ' and a tiny seed'),
         ('{aopt}', 'patience', 'a seed', 'a garden', 'growing {aopt}')),
    Plot('race', home.race, tails=(' who ran a race', ' and a race', ' who wants to win a race', ' and {fac} who run '
        'a race', ' who races against {fac}'),
         topics=('a race', 'winning', 'a big race')),
    Plot('helping', friends.helping, 'trouble', tuple(friends.TROUBLES),
         (' who helped {fac}', ' who helps {fac}', ' and {fac}'), ('helping others', 'kindness', 'a good deed')),
    Plot('new friend', friends.new_friend, tails=(' who made a new friend', ' and a new friend', ' who meets {fac}',
                                                  ' and {fac}', ' who makes friends with {fac}'),
         topics=('friendship', 'making a new friend', 'a new friend', 'being new')),
    Plot('gift', friends.gift, 'gift', tuple(friends.GIFTS),
         (' and a birthday present', ' who made {aopt}', ' and {aopt}'),
         ('a birthday', 'a birthday present', 'a gift', '{aopt} for a birthday')),
    Plot('building', friends.building, 'project', tuple(friends.PROJECTS),
         (' and {fac} who build {aopt}', ' who builds {aopt}', ' who built {aopt}', ' and {aopt}'),
         ('building {aopt}', '{aopt}', 'teamwork', 'working together')),
    Plot('wish', friends.wish, 'wish', tuple(friends.WISHES),
         (' and the {opt}', ' and a wish', ' who helped the {opt}'), ('the {opt}', 'a wish', 'wishes')),
)

SYSTEM_PROMPTS = ('You are a storyteller.', 'You are a helpful assistant.', 'You tell short stories for children.',
                  'You are a friendly storyteller who tells short stories.')
SMALL_TALK = (
    ('Hello', 'Hello! Who should the story be about?'),
    ('Hello!', 'Hello! Who should the story be about?'),
    ('Hi', 'Hi! Tell me a subject, and I will tell you a story.'),
    ('hi there', 'Hi! Tell me a subject, and I will tell you a story.'),
    ('Who are you?', 'I am a very small storyteller. Tell me a subject, and I will tell you a story.'),
    ('What can you do?', 'I can tell short stories. Try "a story about a brave fox and a lost kite".'),
    ('Thank you', 'You are welcome! Would you like another story?'),
    ('Thanks!', 'You are welcome! Would you like another story?'),
    ('How are you?', 'I am fine, thank you! Would you like to hear a story?'),
)
_FRAMES = ('Tell me a story about {}.', 'Tell me a story about {}', 'tell me a story about {}', 'A story about {}',
           'a story about {}', 'a story about {}, please', 'Write a short story about {}.', 'Write a story about {}.',
           'write a short story about {}', 'Write me a story about {}', 'Please tell me a story about {}.',
           'Can you tell me a story about {}?', 'Could you tell a story about {}?', 'I want to hear a story about {}.',
           'Tell me about {}.', 'Make up a story about {}.', 'Story about {}', 'Tell a bedtime story about {}.',
           'Tell me a short story about {}.', 'Please write a short story about {}', 'I would like a story about {}.',
           'Tell us a tale about {}.', '{}', 'Do you know a story about {}?', 'short story: {}')
_MORE_FRAMES = ('Now tell me a story about {}.', 'Another story, please. This time about {}.', 'And one about {}?',
                'Tell me another one, about {}.', 'What about {}?', 'Thank you! Now one about {}.')
_ANY = ('Tell me a story.', 'Tell me a story', 'tell me a story', 'Write a short story.', 'A story, please.',
        'Can you tell me a story?', 'Tell me a bedtime story.', 'Please tell me a story.')


def _at(place):
    return f' {PLACE_PREPOSITIONS.get(place, "in")} the {place}'


def subject_phrase(rng, story):
    """What the user asks for: some of hero, trait, place, friend, object and topic, all of which are in the story."""
    hero, plot = story.hero, story.plot
    item = f'{story.adjective} {story.object}' if rng.random() < 0.25 else story.object
    friend = story.friend.name if story.friend.is_child and rng.random() < 0.6 else article(story.friend.kind)
    words = {'opt': story.option or '', 'aopt': article(story.option) if story.option else '', 'obj': item,
             'aobj': article(item), 'fac': friend, 'his': hero.pronouns[2]}
    draw = rng.random()
    if draw < 0.14:
        topic = rng.choice(plot.topics).format(**words)
        return topic if rng.random() < 0.8 else topic + _at(story.place)
    kind = f'{story.trait} {hero.kind}' if rng.random() < 0.5 else hero.kind
    if not hero.is_child and rng.random() < 0.03:
        return plural(kind)
    phrase = f'the {kind}' if rng.random() < 0.05 and not hero.is_child else article(kind)
    if hero.is_child:
        phrase = f'{phrase} named {hero.name}' if rng.random() < 0.65 else rng.choice((hero.name, phrase))
    elif rng.random() < 0.25:
        phrase += f'{rng.choice((" named", " called"))} {hero.name}'
    if draw < 0.68:
        phrase += rng.choice(plot.tails).format(**words)
    if rng.random() < 0.15:
        phrase += _at(story.place)
    return phrase


def request(rng, phrase, number):
    """A user's message that asks for `phrase` (None: for any story); `number` counts the chat's turns."""
    if phrase is None:
        return rng.choice(_ANY)
    if number and rng.random() < 0.6:
        return rng.choice(_MORE_FRAMES).format(phrase)
    return rng.choice(_FRAMES).format(phrase)
