"""Plots about things that go missing, weather, getting lost, strange noises and fears.

A plot is a function of a story's `Narrator` whose slots hold the characters, the place and the object. It may add
slots of its own and returns paragraphs, each a list of sentence templates. The cause that it draws decides what
happens later: a kite that the wind takes is found in a tree, a marble that rolls away at the foot of the hill.
"""

# how an object gets lost -> (what happened, what the searcher works out, where it is and how it is got back)
LOSSES = {
    'wind': (
        '[Suddenly|Just then], a strong wind blew and [carried|swept] the {obj} away.|A gust of wind came, and the '
        '{obj} flew out of {his} {hand}.|The wind [pulled|tugged] at the {obj}, and [suddenly|all at once] it was '
        'gone.',
        '"The wind blew toward the [tall trees|old oak|pine trees]," said {friend}. "[Let us|We should] look there '
        'first."|"We must walk the way the wind blows," said {friend}.',
        'They [looked up|raised their heads], and there was the {obj}, stuck [in the branches of a tree|high in a '
        'tree|on a thorny branch]. {Friend} [climbed up|shook the branch|reached up with a long stick] and the {obj} '
        'came down, [safe and sound|without a scratch|only a little dusty].'),
    'roll': (
        'But {he} [tripped|stumbled] over a [root|stone], and the {obj} rolled away [down the slope|down the path], '
        'faster and faster.|But the {obj} slipped from {his} {hand} and rolled [down the path|away down the slope] '
        'until {he} could not see it anymore.',
        '"Round things roll downhill," said {friend}. "[Let us|We should] look at the bottom."|"It must have rolled '
        'all the way down," said {friend}. "[Come|Follow me]!"',
        'At the bottom of the slope there was a [ditch|small hollow] full of leaves. They [pushed|swept] the leaves '
        'aside, and there was the {obj}, [safe and sound|a little muddy, but whole].'),
    'pocket': (
        'But {he} did not know that there was a hole in {his} [pocket|bag]. The {obj} [fell|slipped] out without a '
        'sound.|But {his} [pocket|bag] had a small hole, and on the way the {obj} fell [out|to the ground].',
        '{Friend} looked at the [pocket|bag] closely. "There is a hole in it," {fhe} said. "[Let us|We should] walk '
        'back the same way."|"When did you see it last?" asked {friend}. "[Let us|We should] go back along the path, '
        'step by step."',
        'They walked back slowly and looked at every stone. Halfway along the path, [something lay in the '
        'dust|something lay in the grass]. It was the {obj}! {Friend} [picked it up|found it first], and {hero} sewed '
        'up the hole that same evening.'),
    'left': (
        'When {he} was tired, {he} put the {obj} down {spot} and [had a short rest|ate some {food}]. Then {he} walked '
        'home and forgot all about it.|{He} put the {obj} down {spot} because {he} wanted to [pick some flowers|watch '
        'the clouds]. Then {he} went home without it.',
        '"Where did you rest today?" asked {friend}. {Hero} thought hard. "I sat down for a while," {he} said.|"Think '
        'back," said {friend}. "Where did you stop on your way?"',
        'They went back to the place where {hero} had stopped. There, {spot}, was the {obj}, just where {he} had left '
        'it.|They hurried back, and {hero} looked {spot}. The {obj} was still there, waiting for {him}.'),
    'magpie': (
        'While {he} was [washing {his} face|taking a nap|looking the other way], a magpie came down without a sound. '
        'Magpies love things that shine, and it [took|picked up] the {obj} in its beak.|{He} put the {obj} on a stone '
        'for just a moment. When {he} turned around, it was gone, and a black and white feather lay there instead.',
        '{Friend} found a black and white feather. "This is from a magpie," {fhe} said. "Magpies love things that '
        'shine."|"I know who takes shiny things," said {friend}. "[Let us|We should] visit the magpie."',
        'In the magpie\'s nest they saw the {obj} [shining|sparkling] in the sun. "I am sorry," said the magpie. "I '
        'did not know that it was yours." And it gave the {obj} back.'),
}


def lost(s):
    """The hero loses the object; the cause tells the friend where to look."""
    happened, idea, found = LOSSES[s.slots['loss']]
    return [
        ['{Hero} had {aobj}. [It was a gift from {his} [grandmother|best friend|uncle].|{He} had found it long ago '
         'and kept it safe.|It was the thing {he} loved most.|{He} took it everywhere.]',
         '[One day|One morning|One [sunny|windy|bright] afternoon], {hero} went for a walk {walk} with the {obj}.',
         happened],
        ['["Oh no!" cried {name}. "My {obj} is gone!"|{Hero} looked everywhere, but the {obj} was gone.|When {hero} '
         'saw that the {obj} was gone, {he} felt [sad|very sad|like crying].]',
         '[{He} looked {otherspot}, but it was not there.|{He} searched {otherspot}, but {he} found only [leaves|a '
         'snail|an old shoe].|]',
         '[Just then|A little later|Soon], {afriend} came by. "[Why are you so sad|What is wrong|What are you looking '
         'for]?" {fhe} asked. "I lost my {obj}," said {hero}. [{Friend} wanted to help.|{Friend} thought for a '
         'moment.|{Friend} sat down next to {him}.]', idea],
        [found,
         '"[Thank you|Thank you so much]!" said {hero}, and {he} [hugged {friend}|jumped for joy|smiled from ear to '
         'ear].',
         '[To say thank you, {hero} shared some {food} with {fhim}.|They [walked|went] home together and ate '
         '{food}.|From then on, {hero} always took good care of the {obj}.|]'],
    ]


WEATHER = {
    'rain': (
        'dark clouds [covered|filled] the sky, and it began to rain|the first drops of rain fell, and soon it was '
        'raining hard',
        'The rain [made a small stream of the path|filled every hole with water], and [everything was|their feet '
        'were] wet.',
        '[They ran and hid under a [big leaf|thick tree|stone roof].|They sat close together under one umbrella.] '
        'Drip, drop, went the rain.',
        'When the rain stopped, there was a [rainbow|bright rainbow] in the sky and there were puddles everywhere. '
        '{Hero} jumped into the biggest puddle. Splash!'),
    'storm': (
        'a storm came up, and the wind [howled|roared]|thunder rolled in the distance, and the sky turned dark',
        'The wind [bent the trees|tore leaves from the branches], and lightning lit the sky.',
        '[They ran to {friend}\'s house and closed the door.|They ran home as fast as they could and shut the '
        'windows.] They lit a candle and told each other stories until the thunder was far away.',
        'In the morning the storm was over, but it had broken the [fence|roof|bridge]. {Hero} brought a hammer, '
        '{friend} brought wood, and together they mended it before noon.'),
    'snow': (
        'white flakes fell from the sky, and soon everything was covered with snow|it began to snow, and it did not '
        'stop for hours',
        'The snow [covered the path, and|was so deep that] {hero} could [hardly walk|not find the way home].',
        '[{Friend} had an idea. They made snowshoes from branches and walked on top of the snow.|{Friend} took a '
        'shovel, and together they dug a path through the snow.]',
        'Then they built a [big|funny] snowman and gave it [a carrot nose|a hat and a scarf]. Afterward they drank '
        'hot cocoa by the fire.'),
    'wind': (
        'a strong wind began to blow|the wind grew stronger and stronger',
        'It blew off {hero}\'s hat and [pushed the clouds across the sky|made the trees dance].',
        '"[We cannot walk against this wind|This wind is too strong]," said {friend}. "[But we can use it|But I have '
        'an idea]!" They [tied a cloth to two sticks and made a sail|made a kite from paper and string].',
        'The wind [took it|lifted it up], and {hero} laughed out loud. All afternoon they played with the wind, until '
        'it was tired and lay down to sleep.'),
    'fog': (
        'a thick fog came, and nobody could see anything|gray fog rolled in, and the world disappeared',
        'The fog was so thick that {hero} could not see {his} own feet.',
        '[{Friend} rang a bell, and {hero} followed the sound.|They held on to a long rope so that nobody got lost.] '
        'Step by step, they walked home.',
        'When the sun came out, the fog [melted away|was gone]. They saw that they had been only ten steps from the '
        'door, and they laughed and laughed.'),
    'sun': (
        'the sun grew so hot that nobody could walk any farther|it became so hot that even the birds stopped singing',
        'The flowers hung their heads, and everyone was [thirsty|hot and tired].',
        '[{Hero} remembered an old well. Together they pulled up [bucket after bucket|cool, clear water].|{Friend} '
        'knew a spring in the shade. Together they carried water from it.] They gave some to everyone, and they '
        'watered the flowers, too.',
        'In the evening a cool wind came, and the flowers [stood tall|raised their heads] again. Everyone sat in the '
        'shade and ate {food}.'),
}


def weather(s):
    """An outing that the weather changes; shelter or an idea, and something good afterwards."""
    begins, effect, shelter, after = WEATHER[s.slots['weather']]
    plan = '[go for a walk|gather wood|visit {mentor}]' if s.slots['weather'] == 'snow' else (
        '[have a picnic|go for a walk|look for berries]')
    return [
        ['[One day|One morning|One Saturday], {hero} and {buddy} wanted to ' + plan + ' together. [They packed some '
         '{food}.|{Friend} brought {food}.|{Hero} had looked forward to it all week.]'],
        ['But [before long|soon|on the way], [' + begins + '].', effect,
         '["Oh no!" said {hero}. "What should we do now?"|"This is not a good day for us," said {hero}.|"[Our plan is '
         'spoiled|Now we cannot go on]," said {hero} sadly.]',
         shelter],
        [after, '["This was even better than our plan!" said {friend}.|"I will never forget this day," said '
        '{hero}.|{Hero} smiled. "Next time I will not be angry about the weather," {he} said.]'],
    ]


def getting_lost(s):
    """The hero follows something too far, loses the way and finds it again by a sign."""
    lure = s.pick(['saw a [blue|yellow|big] butterfly', 'saw a [shiny|green] dragonfly', 'heard a [sweet|strange] song',
                   'found a trail of [berries|small footprints]'])
    way = s.pick([
        'Then {he} heard the sound of water. "{Mentor} always says that the brook runs past our home," {he} thought. '
        '{He} [followed|walked along] the brook, and [before long|soon] {he} saw {his} home.',
        'Then {he} met {afriend}. "I know the way," said {friend}. "[Walk behind me|Follow me]." They walked side by '
        'side until they saw the light in {hero}\'s window.',
        'Then {he} remembered what {mentor} had taught {him}. "Look for the brightest star," {he} said. "It stands '
        'over our home." {He} walked toward the star until {he} saw {his} door.',
        'In the distance a bell rang. "That is {mentor}, calling me for supper!" {he} said. {He} followed the sound, '
        'step by step, until {he} saw a lantern in the dark.'])
    return [
        ['[One day|One afternoon], {hero} was walking {walk} when {he} ' + lure + '. {He} followed it [farther and '
         'farther|around one corner and then another], and did not look at the path.'],
        ['[When {he} stopped|When {he} looked around], nothing looked familiar. "[Am I lost|Where am I]?" {he} '
         'whispered. The sun was going down, and [the shadows grew long|it was getting cold].',
         '[{He} wanted to cry, but {he} took a deep breath instead.|{He} was afraid, but {he} sat down and '
         'thought.|"I must stay calm," {he} told {himself}.]',
         way],
        ['["There you are!" cried {mentor}, and hugged {him} tightly.|At home, {mentor} was waiting with {food}.] '
         '[{Hero} promised to stay on the path from now on.|{Hero} told {mentor} everything, and {mentor} '
         'nodded.|"[Next time|From now on] I will look where I am going," said {hero}.]'],
    ]


NOISES = (
    ('[Tap, tap, tap|Knock, knock, knock]', 'It was only a branch that knocked against the window in the wind. "A '
     'branch!" {hero} laughed. In the morning, {he} tied the branch back with a string.'),
    ('[Hoo, hoo|Whoo, whoo]', 'It was a young owl that had fallen out of its nest. "I want my mother," said the owl. '
     '{Hero} and {friend} carefully put it back, and the mother owl thanked them.'),
    ('[Scratch, scratch|Rustle, rustle]', 'It was a little hedgehog that was looking for dry leaves. "I need a bed '
     'for the winter," it said. {Hero} and {friend} gathered a big pile of leaves for it.'),
    ('[Drip, drop|Plip, plop]', 'It was a bucket under the roof. The rain was dripping into it, drop by drop. {Hero} '
     'laughed, and in the morning they mended the roof together.'),
    ('[Boo-hoo, boo-hoo|Sniff, sniff]', 'It was a small mouse that was crying because it could not find its home. '
     '{Hero} and {friend} took the mouse by the paw and brought it back to its family.'),
    ('[Ding, ding|Jingle, jingle]', 'It was a lost lamb with a bell around its neck. {Hero} and {friend} gave it some '
     'water and led it back to the farmer.'),
)


def noise(s):
    """A strange noise at night; the hero and a friend find its harmless cause."""
    sound, cause = s.pick(NOISES)
    sound = s.tell(sound)
    return [
        ['[One night|One dark night|Late one evening], {hero} could not sleep. There was a strange noise outside. "' +
         sound + '," it went. [{Hero} pulled the blanket over {his} head.|{Hero} sat up and listened.|"What could '
             'that be?" {hero} wondered.]'],
        ['[The next night|Then] the noise came again. {Hero} ran to [wake|get] {buddy}. "[Maybe it is a monster|Maybe '
         'it is a ghost]!" {he} whispered. "[Let us|We should] find out," said {friend}.',
         'They took a lantern and went out into the dark. [Their hearts beat fast.|Step by step, they came closer to '
         'the noise.|They stayed very close together.] "' + sound + '," went the noise.'],
        ['{Hero} raised the lantern. ' + cause,
         '["Things are not so scary when you take a closer look," said {friend}.|"I am glad that we went to see," '
         'said {hero}.|After that, {hero} was not afraid of strange noises anymore.]'],
    ]


FEARS = {
    'the dark': (
        'When the sun went down, {he} always [lit three candles|hid under the blanket].',
        'a little [mouse|bird|kitten] was trapped in a dark cave',
        'It was so dark inside that {he} could not see anything. {He} put one foot in front of the other and [sang a '
        'quiet song|counted {his} steps]'),
    'thunder': (
        'Whenever it thundered, {he} [crawled under the bed|covered {his} ears].',
        'during a storm, a lost [lamb|puppy|duckling] was crying outside',
        'The thunder rolled, and {his} knees shook. {He} [took a deep breath|held {his} head high] and ran out into '
        'the rain'),
    'deep water': (
        'When the others swam, {he} only [sat on the bank|dipped one toe in the water].',
        'a [baby duck|small mouse|kitten] fell into the water and could not get out',
        'The water was cold and deep. {He} [took a deep breath|thought of nothing but the little one] and jumped in, '
        'holding on to a floating log'),
    'high places': (
        'When the others climbed, {he} only [stood below|watched from the ground].',
        'a [kitten|young bird|little squirrel] was stuck at the top of a tall tree',
        'The tree was very tall. {He} [did not look down|looked only at the next branch] and climbed up, one branch '
        'after another'),
}


def fear(s):
    """The hero is afraid of something, and overcomes it because somebody needs help."""
    habit, trouble, deed = FEARS[s.slots['fear']]
    return [
        ['But {hero} had a secret: {he} was afraid of {fear}. ' + habit,
         '["Everyone is afraid of something," said {mentor}.|"Being brave does not mean that you are never afraid," '
         'said {mentor}.|"One day you will be braver than your fear," said {mentor}.]'],
        ['[One day|One evening], ' + trouble + '. "Help! Please help me!" it cried.',
         '[{Hero} looked around, but nobody else was near.|{Hero} called for {mentor}, but nobody came.] "[I have to '
         'do it," said {hero}|If I do not help, who will?" said {hero}].',
         deed + '.', '[At last|Soon] {he} reached the little one and [took it in {his} arms|held it tight]. "[Do not '
             'be afraid|I have you]," said {hero}, and brought it back to safety.'],
        ['"You saved me!" [said|cried] the little one. [Everyone came and cheered for {hero}.|{Mentor} was so proud '
         'of {him}.] [{Hero} noticed that {he} was not afraid of {fear} anymore.|{Hero} was still a little afraid of '
         '{fear}, but now {he} knew that {he} could be brave.]'],
    ]
