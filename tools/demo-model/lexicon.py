"""The words of the stories: names, characters, traits, objects, places, and what each of them implies."""

GIRLS = ('Mia Lily Anna Emma Zoe Ruby Nora Ella Lucy Rosa Ivy Maya Clara Hana Leila Sofia Alice Daisy Molly Tara Jane '
    'Eva Amy Sara Nina Grace Freya Olivia Poppy Hazel Wren Stella Luna Priya Mei Kate Beth Sue Penny Dora').split()
BOYS = ('Tom Ben Max Leo Sam Jack Oliver Finn Noah Theo Hugo Ravi Omar Eli Peter Tim Luke Adam Milo Oscar Henry Felix '
    'Jonah Kai Diego Arun Paul Will Toby George Simon Marco Emil Rory Nils Jun Dan Joe Fred Bob').split()
PET_GIRLS = ('Amber Willow Pearl Tilly Nutmeg Pepper Clover Bella Dot Snowy Misty Pippa Honey Minnie Sunny Olive '
    'Bramble Fern Juniper Coco').split()
PET_BOYS = ('Rusty Bruno Pip Hopper Barnaby Ollie Biscuit Otto Patch Copper Monty Bertie Chip Gus Rufus Ziggy Mossy '
    'Teddy Sparky Dusty').split()
SYLLABLES = ('ba be bo da do fi ga jo ka ki la lo lu ma mi mo na ni no pa pe ra ri ro sa su ta te ti to va ve vi zu '
    'zo wi').split()

SHE, HE = ('she', 'her', 'her', 'herself'), ('he', 'him', 'his', 'himself')

# kind -> (hand word, home); the kinds of one line share both
_ANIMAL_LINES = {
    ('paws', 'a cozy den'): 'fox bear wolf lion tiger badger raccoon panda',
    ('paws', 'a warm burrow'): 'rabbit mole hedgehog groundhog hamster',
    ('paws', 'a hollow tree'): 'squirrel chipmunk raccoon koala',
    ('paws', 'a small house'): 'mouse cat dog kitten puppy otter beaver kangaroo',
    ('wings', 'a snug nest'): 'owl robin sparrow crow duck bird goose swan wren parrot eagle penguin chick hen',
    ('hooves', 'a big barn'): 'horse pony goat lamb sheep cow donkey pig calf foal',
    ('feet', 'a little hut'): 'elephant giraffe hippo zebra rhino camel monkey deer moose llama',
    ('feet', 'a muddy hole by the water'): 'frog turtle toad crocodile newt tortoise lizard',
    ('tiny hands', 'a house as small as a thimble'): 'snail bee ladybug ant beetle cricket caterpillar spider firefly '
     'butterfly',
    ('claws', 'a dry cave'): 'dragon bat dinosaur griffin',
}
ANIMALS = {kind: traits for traits, kinds in _ANIMAL_LINES.items() for kind in kinds.split()}
_ROLE_LINES = {
    'a small house': 'baker farmer gardener painter teacher fisherman tailor shepherd miller carpenter potter '
    'musician clockmaker mail_carrier doctor nurse librarian firefighter blacksmith juggler grandmother grandfather '
    'explorer inventor astronaut train_driver cook scientist',
    'a tall castle': 'knight princess prince king queen',
    'a crooked tower': 'wizard witch',
    'an old wooden ship': 'pirate sailor',
    'a tidy workshop': 'robot elf toymaker',
    'a house of stones': 'giant troll ghost snowman',
    'a hollow tree': 'fairy gnome unicorn',
}
ROLES = {kind.replace('_', ' '): ('hands', home) for home, kinds in _ROLE_LINES.items() for kind in kinds.split()}
ROLES['unicorn'] = ('hooves', 'a hollow tree')
FEMALE_KINDS = {'princess', 'queen', 'witch', 'grandmother', 'fairy', 'hen', 'cow'}
MALE_KINDS = {'prince', 'king', 'wizard', 'fisherman', 'grandfather', 'snowman'}

# trait -> (sentences that show it, last sentences that come back to it)
TRAITS = {
    'brave': ('{He} was not afraid to try [new|hard|difficult] things.|{He} [liked|loved] a good adventure.',
              'Everyone agreed that {hero} was the bravest {kind} they knew.|{Hero} had always been brave, and now '
              '{he} was wise, too.'),
    'kind': ('{He} had a [good|friendly|warm] word for everyone.|{He} liked to help others [every day|whenever {he} '
    'could].',
             'Everyone was glad to know such a kind {kind}.|And that is why everyone loved the kind {kind}.'),
    'curious': ('{He} asked questions about everything.|{He} wanted to know how everything worked.',
                'And the curious {kind} already had a new question to ask.|{Hero} was more curious than ever.'),
    'clever': ('{He} could solve almost any riddle.|{He} always had a good idea.',
               'Everyone agreed that {hero} was a very clever {kind}.|A clever head is good, but a kind heart is '
               'better still.'),
    'shy': ('{He} spoke in a very [quiet|soft] voice.|{He} often hid when visitors came.',
            'Best of all, {hero} was not so shy anymore.|And the shy {kind} found that it was easy to smile at '
            'others.'),
    'little': ('{He} was small, but {he} had a big heart.|{He} was the smallest of all, but {he} did not mind.',
               'Even a little {kind} can do great things.|{Hero} was still little, but {he} felt very tall.'),
    'tiny': ('{He} was so small that {he} could sleep in a teacup.|{He} was not much bigger than an acorn.',
             'Even a tiny {kind} can do great things.|{Hero} was still tiny, but {he} felt as big as a mountain.'),
    'lazy': ('{He} liked naps much better than work.|{He} often said, "I will do it tomorrow."',
             'Best of all, {hero} was not so lazy anymore.|Then the {kind} took a long nap, and this time {he} had '
             'earned it.'),
    'grumpy': ('{He} complained about everything, even the [sunshine|birds|flowers].|{He} hardly ever smiled.',
               'And best of all, {hero} was not so grumpy anymore.|And the grumpy {kind} smiled all the way home.'),
    'clumsy': ('{He} often tripped over {his} own feet.|{He} bumped into things almost every day.',
               '{Hero} was still a little clumsy, but nobody minded at all.|On the way home the clumsy {kind} tripped '
               'again, and everyone laughed, {hero} most of all.'),
    'cheerful': ('{He} whistled a [happy|merry] tune all day long.|{He} woke up with a smile every morning.',
                 'And the cheerful {kind} whistled a new tune all the way home.|{Hero} had never been so cheerful.'),
    'hungry': ('{He} was always thinking about {his} next meal.|{He} could eat three breakfasts and still ask for '
    'more.',
               'Then the hungry {kind} went home and ate a very big supper.|"And now," said {name}, "I am really '
               'hungry!"'),
    'sleepy': ('{He} yawned all day long.|{He} could fall asleep anywhere, even on a pile of stones.',
               'Then the sleepy {kind} yawned and went straight to bed.|That night the sleepy {kind} slept better '
               'than ever.'),
    'proud': ('{He} thought that {he} could do everything alone.|{He} liked to tell everyone how great {he} was.',
              'Best of all, the proud {kind} did not boast so much anymore.|{Hero} learned that nobody can do '
              'everything alone.'),
    'gentle': ('{He} never hurt anyone, not even a fly.|{He} always spoke softly.',
               'Everyone felt safe with the gentle {kind}.|A gentle heart can be very strong.'),
    'silly': ('{He} wore a spoon on {his} head and called it a hat.|{He} told [funny|silly] jokes all day long.',
              'And the silly {kind} told a joke that made everyone laugh.|{Hero} danced a silly dance, and everyone '
              'danced along.'),
    'lonely': ('{He} often wished for someone to talk to.|{He} had nobody to play with.',
               'And the lonely {kind} was not lonely anymore.|From that day on, {hero} never felt lonely again.'),
    'forgetful': ('{He} often forgot what day it was.|{He} once forgot {his} own birthday.',
                  '{Hero} forgot many things, but {he} never forgot that day.|And this was one thing that the '
                  'forgetful {kind} always remembered.'),
    'patient': ('{He} never hurried and never complained.|{He} knew how to wait for good things.',
                'Good things come to a patient {kind}.|{Hero} was glad that {he} had been patient.'),
    'old': ('{He} had seen many summers and many winters.|{He} walked slowly and knew many stories.',
            '{Hero} was old, but {he} had learned something new.|Even an old {kind} can have a new adventure.'),
    'young': ('{He} had so much to learn.|Every day was a new adventure for {him}.',
              'The young {kind} had learned something important.|{Hero} was still young, but {he} felt a little older '
              'now.'),
    'happy': ('{He} [sang|laughed] all day long.|{He} loved [sunny|bright] mornings best of all.',
              'And the happy {kind} was happier than ever.|{Hero} sang all the way home.'),
    'wise': ('Everyone came to {him} with their questions.|{He} thought carefully before {he} spoke.',
             'Even a wise {kind} can learn something new.|Everyone said that {hero} had grown even wiser.'),
    'honest': ('{He} never told a lie.|Everyone could trust {his} word.',
               'Everyone knew that they could trust the honest {kind}.|{Hero} was glad that {he} was honest.'),
    'noisy': ('{He} banged on pots and pans all morning.|{He} sang loudly, even at night.',
              'For once, the noisy {kind} was quiet and happy.|Then {hero} cheered so loudly that the birds flew up.'),
}

# object -> (adjectives, ways in which it gets lost); see plots_quest.LOSSES
OBJECTS = {
    'kite': ('red blue yellow striped', 'wind'), 'hat': ('green red straw woolly', 'wind left'),
    'scarf': ('warm red long striped', 'wind left'), 'balloon': ('red blue golden big', 'wind'),
    'map': ('old yellow torn secret', 'wind left'), 'letter': ('long important secret kind', 'wind pocket'),
    'feather': ('white golden blue soft', 'wind pocket'), 'ball': ('red blue bouncy green', 'roll left'),
    'marble': ('green blue glass shiny', 'roll pocket'), 'apple': ('red golden shiny big', 'roll'),
    'coin': ('gold silver lucky shiny', 'roll pocket magpie'), 'pumpkin': ('round orange big heavy', 'roll'),
    'key': ('silver golden rusty tiny', 'pocket magpie'), 'ring': ('golden silver shiny tiny', 'pocket magpie'),
    'button': ('blue shiny wooden red', 'pocket magpie'), 'whistle': ('tin silver wooden loud', 'pocket left'),
    'bell': ('silver little golden bright', 'pocket magpie'), 'shell': ('pink white pretty smooth', 'pocket left'),
    'pebble': ('smooth white round lucky', 'pocket roll'), 'spoon': ('wooden silver shiny long', 'left magpie'),
    'book': ('thick old blue favorite', 'left'), 'umbrella': ('yellow blue big red', 'wind left'),
    'basket': ('wicker big round little', 'left'), 'drum': ('red little loud round', 'left roll'),
    'teddy bear': ('brown soft old fluffy', 'left'), 'lantern': ('bright old brass small', 'left'),
    'bucket': ('blue tin red small', 'left roll'), 'flute': ('wooden silver sweet little', 'left pocket'),
    'doll': ('rag pretty little wooden', 'left'), 'toy boat': ('little blue wooden white', 'left'),
    'blanket': ('soft blue warm patchwork', 'wind left'), 'mitten': ('red woolly warm white', 'left pocket'),
    'paintbrush': ('thin fine old new', 'left pocket'), 'crown': ('golden paper shiny tiny', 'left magpie'),
    'mirror': ('small round silver old', 'left magpie'), 'lamp': ('golden old dusty small', 'left'),
    'backpack': ('green heavy blue new', 'left'), 'watch': ('gold old shiny silver', 'pocket magpie'),
}

PLACE_PREPOSITIONS = {'beach': 'at', 'mountain': 'on', 'farm': 'on', 'river': 'by', 'lake': 'by', 'island': 'on',
                      'hill': 'on', 'castle': 'at'}
# place -> (where one lives, how one walks there, spots)
PLACES = {
    'forest': ('in [the|a deep green|a quiet] forest', 'through the forest',
               'under a big fern;behind a mossy log;next to a hollow tree;between the roots of an oak'),
    'meadow': ('near [the|a sunny|a wide green] meadow', 'across the meadow',
               'in the tall grass;under a daisy;behind a white stone;beside the old fence'),
    'village': ('in [a small|a pretty|a little] village', 'through the village',
                'next to the well;behind the bakery;under the wooden bench;beside the old gate'),
    'beach': ('near [the|a sandy|a long white] beach', 'along the beach',
              'behind a sand dune;under a wooden boat;beside a pool of salty water;between two rocks'),
    'mountain': ('at the foot of [a tall|a high|a snowy] mountain', 'up the mountain path',
                 'behind a gray rock;under a small pine tree;beside the spring;at the mouth of a cave'),
    'farm': ('on [a|a busy|a big] farm', 'around the farm',
             'behind the barn;under the hay cart;beside the duck pond;next to the chicken house'),
    'park': ('near [the|a big|a pretty] park', 'through the park',
             'under the swings;behind a bench;beside the fountain;in a flower bed'),
    'river': ('by [a|a quick|a wide] river', 'along the river',
              'in the reeds;under the stone bridge;beside a willow tree;on a flat rock'),
    'lake': ('by [a|a deep blue|a calm] lake', 'around the lake',
             'in the reeds;under the wooden dock;beside a birch tree;on a flat stone'),
    'garden': ('next to [a|a lovely|a big] garden', 'through the garden',
               'between the cabbages;under the rose bush;behind the watering can;beside the apple tree'),
    'town': ('in [a|a busy|a noisy] town', 'through the town',
             'on the steps of the library;next to the fountain;under a market stall;beside the clock tower'),
    'castle': ('near [an old|a tall|a gray] castle', 'around the castle',
               'behind the stable;under the stone stairs;beside the moat;next to the iron gate'),
    'island': ('on [an|a small|a sunny] island', 'across the island',
               'under a palm tree;behind a rock;beside a pool of clear water;in the soft sand'),
    'valley': ('in [a|a green|a hidden] valley', 'down the valley',
               'beside the brook;under a cherry tree;behind a stone wall;in the clover'),
    'hill': ('on [a|a windy|a green] hill', 'over the hill',
             'under the lone tree;behind a big stone;in the heather;beside the windmill'),
    'jungle': ('in [the|a warm|a leafy] jungle', 'through the jungle',
               'under a giant leaf;behind a tangle of vines;beside a small waterfall;next to a banana tree'),
}
# traits without a sentence of their own: they teach the model to carry any adjective of a request into the story
PLAIN_TRAITS = ('purple blue green golden pink striped magic magical strange beautiful friendly funny smart fast slow '
    'strong sad angry nice good small big wild famous poor rich polite white black gray quiet busy sweet fluffy cute '
    'mysterious fearless wonderful lovely playful careful stubborn bored').split()
COATS = {'purple', 'blue', 'green', 'golden', 'pink', 'striped', 'white', 'black', 'gray', 'fluffy'}
PLAIN_TRAIT = ('Nobody had ever seen such {atk} before.|There was no other {kind} like {him}.|Everybody knew the '
    '{trait} {kind}.', 'And everyone loved the {trait} {kind}.|There was never another {kind} like {hero}.|And that '
    'is the story of the {trait} {kind}.')
FOODS = ('apple pie;honey cake;blueberry muffins;warm bread;vegetable soup;sweet pears;ginger cookies;pancakes;cherry '
    'tart;oat cookies;roasted nuts;strawberry jam').split(';')
