"""Plots about friends, gifts, work done together and wishes (see plots_quest.py for what a plot is)."""

TROUBLES = {
    'stuck cart': (
        'saw {afriend} whose cart was stuck in the mud. "I cannot get it out," said {friend}',
        '{Hero} put flat stones under the wheels and pushed with all {his} strength. One, two, three! The cart rolled '
        'out of the mud.'),
    'broken bridge': (
        'met {afriend} who could not cross the brook because the bridge was broken. "How will I get home?" asked '
        '{friend}',
        '{Hero} found a long log and laid it over the water. Then {he} held {friend} tightly, and they walked across '
        'together.'),
    'thorn': (
        'met {afriend} who was sitting by the path and crying. "I have a thorn in my foot," said {friend}',
        '{Hero} pulled out the thorn very carefully and tied a clean cloth around the foot. Soon it did not hurt '
        'anymore.'),
    'heavy bags': (
        'met {afriend} who was carrying three heavy bags. "I am so tired," said {friend}',
        '{Hero} took two of the bags and walked with {friend} all the way home. They sang a song on the way, and the '
        'bags felt lighter.'),
    'sick neighbor': (
        'heard that {buddy} was ill in bed. "I cannot even cook for myself," said {friend}',
        '{Hero} made hot soup, lit the fire and read {fhim} a story. After three days, {friend} was well again.'),
    'well': (
        'heard a cry from an old, dry well. It was {afriend}. "I fell in and cannot get out," said {friend}',
        '{Hero} found a long rope and tied it to a tree. {He} let the other end down, and {friend} climbed out.'),
}
RETURNS = (
    'A few weeks later, {hero} was fishing and fell into the water. [The current was strong.|The water was cold.] '
    '"Help!" {he} cried. {Friend} heard it and [threw {him} a rope|held out a long branch] and pulled {him} out.',
    'That winter, {hero} had nothing left to eat. There was a knock at the door. It was {friend} with [a basket of '
    '{food}|a big pot of soup]. "You helped me," said {friend}. "Now I am helping you."',
    'Some time later, the wind tore the roof off {hero}\'s home. {Hero} did not know what to do. But {friend} came '
    'with a ladder and nails, and together they built a new roof in one day.',
    'A month later, {hero} lost {his} way in the fog. {He} called out, and {friend} heard {him}. "Follow my voice," '
    'called {friend}, and led {him} safely home.',
)


def helping(s):
    """The hero helps somebody, and later the help comes back."""
    trouble, deed = TROUBLES[s.slots['trouble']]
    return [
        ['[One day|One morning|On a cold day], {hero} ' + trouble + '.',
         '"[Do not worry|Wait a moment]," said {hero}. "[I will help you|I think I can help]."', deed,
         '["How can I ever thank you?" asked {friend}.|"Thank you so much!" said {friend}.] "[It was nothing|I was '
         'happy to help]," said {hero}.'],
        [s.pick(RETURNS)],
        ['"[Thank you, {fname}|You came just in time]!" said {hero}. [They were friends for the rest of their '
         'lives.|From then on, they helped each other whenever they could.] [Kindness always comes back.|And so a '
         'good deed came back.|"When you help others, you are never alone," said {friend}.]'],
    ]


def new_friend(s):
    """Somebody new is alone; the hero makes the first step."""
    return [
        ['[One day|One autumn day|On Monday], somebody new came to {place_the}. It was {afriend}. {Friend} did not '
         'know anyone and [sat alone|stood behind a tree and watched the others play].',
         '["Who is that?" asked the others. "{Fhe} looks strange." And they went on with their game.|The others did '
         'not notice {fhim} at all.]'],
        ['{Hero} remembered how it felt to be alone. {He} [walked over|went up to {friend}] and said, "Hello, my name '
         'is {name}. [Would you like to play with us|Do you want to play]?"',
         '{Friend} [looked up|smiled shyly]. "[Nobody has ever asked me that|I would like that very much]," {fhe} '
         'said. [{Hero} showed {fhim} all the best places.|{Hero} shared some {food} with {fhim}.]',
         'It turned out that {friend} [knew the funniest stories|could do wonderful tricks|knew a hundred games|could '
         'whistle like a bird]. Soon everyone [sat around {fhim} and listened|wanted to play, too].'],
        ['[From that day on, {hero} and {friend} were best friends.|After that, {friend} was never alone '
         'again.|{Hero} and {friend} met every day after that.] "[Thank you for saying hello|You were the first one '
         'to smile at me]," said {friend}. [A small hello can be the start of a big friendship.|And it had all begun '
         'with one small word.|]'],
    ]


GIFTS = {
    'cake': ('bake a big cake', 'was as flat as a plate', 'cut it into little stars and put a cherry on each one'),
    'picture': ('paint a picture', 'got wet in the rain, and all the colors ran together',
                'turned the colored spots into a field of flowers'),
    'necklace': ('make a necklace of shells', 'broke, and the shells rolled everywhere',
                 'glued the shells on a small wooden box'),
    'scarf': ('knit a warm scarf', 'was much too short', 'sewed the ends together, and it became a soft hat'),
    'basket': ('weave a basket', 'had a big hole in the bottom', 'turned it upside down and made a summer hat of it'),
    'wooden boat': ('carve a wooden boat', 'cracked down the middle', 'made two small boats out of it'),
}


def gift(s):
    """A birthday present goes wrong and becomes something better."""
    plan, wrong, instead = GIFTS[s.slots['gift']]
    return [
        ['[The next day was|Soon it would be] {mentor}\'s birthday, and {hero} wanted to give {mhim} something '
         'special. "[I know|I have an idea]!" {he} said. "I will ' + plan + '."',
         '{He} worked [all morning|until late at night|for hours]. {Buddy} came to [help|watch].'],
        ['But then something went wrong. The {gift} ' + wrong + '. "[Now I have nothing|Everything is ruined]!" cried '
         '{hero}. [A tear ran down {his} cheek.|{He} sat down and hid {his} face.]',
         '"[Do not be sad|Wait]," said {friend}. "[Let us see what we can do with it|Maybe we can still use it]." '
         '{Hero} thought for a while. Then {he} ' + instead + '.'],
        ['[On the birthday|At the party], {hero} gave the present to {mentor}. "[It is not what I had planned|It is '
         'only a small thing]," {he} said softly. But {mentor}\'s eyes shone. "[It is the best present of all|I have '
         'never had such a lovely present]," {mhe} said, "[because you made it yourself|because it comes from your '
         'heart]."',
         '[They all ate {food} and laughed together.|Then they danced until the stars came out.|And {hero} was the '
         'happiest of all.]'],
    ]


PROJECTS = {
    'tree house': ('a tree house', 'the floor broke', 'used thick boards and strong ropes', 'they could see the whole '
    'of {place_the} from up there'),
    'raft': ('a raft', 'it sank at once', 'tied the logs together with strong knots', 'they floated slowly across the '
    'water'),
    'bridge': ('a bridge over the brook', 'the water washed it away', 'put heavy stones on both sides', 'everyone '
    'could cross the brook with dry feet'),
    'sandcastle': ('a sandcastle', 'a big wave washed it away', 'built it farther from the water and put a wall '
    'around it',
                   'it had four towers and a flag'),
    'snow house': ('a snow house', 'the roof fell in', 'pressed the snow into hard blocks', 'it was warm and bright '
    'inside'),
    'flying machine': ('a flying machine', 'it fell apart on the first hill', 'made it lighter, with wings of '
    'silk', 'it really flew over the grass for a moment'),
    'boat': ('a little boat', 'water came in through the cracks', 'filled every crack with wax', 'it sailed like a '
    'swan'),
}


def building(s):
    """Two friends build something; the first one fails, the second is better."""
    what, failure, second, result = PROJECTS[s.slots['project']]
    when = '[One winter day|One snowy morning]' if s.slots['project'] == 'snow house' else (
        '[One day|One summer morning|On the first day of the holidays]')
    return [
        [when + ', {hero} said to {buddy}, "[Let us|We should] build ' + what + '!" "[What a great idea|Yes, let us '
        'do it]!" said {friend}.',
         '{Hero} wanted to [start at once|be quick]. "[We do not need a plan|It is easy]," {he} said. They worked for '
         'an hour. But when they tried it, ' + failure + '.'],
        ['["It is your fault!" said {friend}. "No, it is your fault!" said {hero}.|"You were too fast!" said '
         '{friend}. "And you were too slow!" said {hero}.] They sat back to back and did not talk.',
         '[After a while|Then], {hero} [sighed|turned around]. "I am sorry," {he} said. "I wanted to be too quick." '
         '"I am sorry, too," said {friend}. "[Let us|We should] try again, and this time we will make a plan."',
         'So they drew a plan [with a stick|on a big piece of paper]. This time they ' + second + '. [It took all '
         'day.|It took three whole days.|They worked slowly and carefully.]'],
        ['[At last|When the sun went down], it was ready, and ' + result + '. [They shouted for joy.|"We did it!" '
         'they cried.|"Together we can do anything," said {friend}.] [Then they shared some {food}.|"Two heads are '
         'better than one," said {hero}.|They were prouder than ever before.]'],
    ]


WISHES = {
    'star': ('[One night|One quiet evening]', 'a small star fell from the sky and landed {spot}. "I am lost," said '
    'the star',
             'carried it to the top of the highest hill and held it up. The wind lifted the star, and it flew back to '
             'the sky', 'That night the star shone brighter than ever.'),
    'moon': ('[One night|One quiet evening]', 'the moon was caught in the top of a tree. "I cannot get free," said '
    'the moon',
             'climbed up and bent the branches, one by one. The moon rose into the sky again',
             'That night the moon seemed to smile.'),
    'cloud': ('[One day|One bright morning]', 'a little cloud came down and sat on the grass. "I have lost my way," '
    'said the cloud', 'blew as hard as {he} could and showed it where the others were. The cloud floated up to its '
    'family',
              'High above them, a little cloud danced in the wind.'),
    'rainbow': ('[One day|After a long rain]', 'the end of the rainbow lay {spot}. "I have lost my blue," said the '
    'rainbow',
                'brought it a bunch of blue flowers. The rainbow took the blue from them and was whole again',
                'And every time it rained, a rainbow came to say hello.'),
}
CARES = (('was ill in bed', 'well'), ('had been sad for days', 'happy'), ('had lost {fhis} voice', 'able to sing'))


def wish(s):
    """Something from the sky needs help and grants a wish, which the hero spends on another."""
    when, trouble, deed, end = WISHES[s.slots['wish']]
    care, cured = s.pick(CARES)
    return [
        [when + ', {hero} went outside and saw something strange: ' + trouble + '.',
         '"[Do not be afraid|I will help you]," said {hero}. {He} ' + deed + '.'],
        ['"Thank you," said the {wish}. "You may make one wish." {Hero} thought of [a mountain of cake|a big new '
         'house|a room full of toys]. But then {he} thought of {buddy}, who ' + care + '. "I wish that {fname} will '
         'be ' + cured + ' again," {he} said.'],
        ['The next morning, there was a knock at the door. It was {friend}, [smiling from ear to ear|laughing and '
         'dancing]! "I feel wonderful," {fhe} said. {Hero} looked up and whispered, "Thank you."',
         '[' + end + '|A wish for a friend is the best wish of all.]'],
    ]
