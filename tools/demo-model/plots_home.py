"""Plots about skills, sharing, truth, patience, work and friendship (see plots_quest.py for what a plot is)."""

SKILLS = {
    'swim': ('swim', 'swimming', 'sank like a stone', 'First you must learn to float', 'swam all the way across the '
    'pond'),
    'sing': ('sing', 'singing', 'only made a squeaky sound', 'Listen first, and then sing', 'sang a song so lovely '
    'that the birds fell silent'),
    'dance': ('dance', 'dancing', 'stepped on everyone\'s toes', 'Feel the beat in your belly', 'danced until the '
    'moon came up'),
    'bake': ('bake bread', 'baking', 'burned the bread until it was black', 'Watch the oven, not the window', 'baked '
    'a golden loaf of bread'),
    'paint': ('paint', 'painting', 'made a big blue mess', 'Look closely before you paint', 'painted a picture of '
    '{place_the} that everyone admired'),
    'ride a bicycle': ('ride a bicycle', 'riding', 'fell into a bush', 'Look ahead, not at the ground', 'rode all the '
    'way around {place_the}'),
    'whistle': ('whistle', 'whistling', 'only blew air', 'Make your lips small and round', 'whistled a merry tune'),
    'play the drum': ('play the drum', 'drumming', 'hit the drum so hard that everyone covered their ears', 'Count to '
    'four, again and again', 'played a song that made everyone dance'),
    'skate': ('skate on the ice', 'skating', 'slipped and sat down hard', 'Bend your knees a little', 'skated in a '
    'big circle without falling'),
    'juggle': ('juggle', 'juggling', 'dropped every ball', 'Start with just one ball', 'juggled five apples at once'),
    'read': ('read', 'reading', 'could not tell one letter from another', 'Learn one letter each day', 'read a whole '
    'story out loud'),
    'jump': ('jump over the brook', 'jumping', 'landed in the middle of the water', 'Run before you jump', 'jumped '
    'right over the brook'),
}


def learning(s):
    """The hero cannot do something, is taught, practices and succeeds."""
    verb, noun, failure, advice, success = SKILLS[s.slots['skill']]
    s.slots.update(verb=verb, practising=noun)
    return [
        ['More than anything, {hero} wanted to learn to {verb}.',
         '[One day {he} tried|{He} tried it for the first time], but {he} ' + failure + '. [Some of the others '
         'laughed.|"I will never learn it," {he} said sadly.|"This is too hard!" {he} cried.]'],
        ['{Mentor} saw it and [came over|sat down next to {him}]. "' + advice + '," said {mentor}. "[And do not give '
         'up|And practice every day|And then try again]."',
         '[So {hero} tried again and again.|{Hero} practiced in the morning and in the evening.|So {hero} practiced '
         'every day, even when it rained.] [The first week was hard.|At first {he} made many mistakes.|Some days went '
         'well, and some days did not.] But [little by little|day by day], it became easier.'],
        ['[Then, one fine day|At last, one morning|On the day of the summer fair], {hero} ' + success + '! [Everyone '
         'clapped.|{Mentor} clapped and cheered.|Even those who had laughed now cheered.]',
         '["You did not give up," said {mentor}. "That is the secret."|"I knew that you could do it," said '
         '{mentor}.|"Thank you for teaching me," {hero} said to {mentor}.] [Soon {hero} was teaching others to '
         '{verb}, too.|From then on, {hero} loved {practising}.|And {hero} was very happy.]'],
    ]


def sharing(s):
    """The hero keeps something good alone, sees a friend without, and shares."""
    return [
        ['One day, {mentor} gave {hero} some {food}. "[This is all mine|All of this is for me]!" said {hero}, and '
         '{he} [sat down under a tree|hid behind a wall|ran to a quiet corner] to eat.',
         'Then {afriend} came by. {Friend} looked very [hungry|tired and hungry]. "That smells so good," {fhe} said. '
         '"May I have a little?"',
         '"No," said {hero}. "[There is not enough for two|This is all mine]." {Friend} [nodded sadly|lowered {fhis} '
         'head] and walked away.'],
        ['[{Hero} took a bite, but the food did not taste good anymore.|{Hero} began to eat, but {he} could not enjoy '
         'the food.] [{He} kept thinking of {friend}\'s sad eyes.|{He} felt a heavy stone in {his} belly.]',
         '[So {he} jumped up and ran after {friend}.|Then {he} stood up and called {friend} back.] "I am sorry," {he} '
         'said. "[Let us share|Come and share with me]." {He} gave half of the food to {friend}.'],
        ['They sat [side by side|together in the sun] and ate. [The food tasted better than ever before.|Now '
         'everything tasted wonderful.] [The next day, {friend} came back with a basket of berries and shared them '
         'with {hero}.|"You are a good friend," said {friend}.]',
         '[{Hero} had learned that everything tastes better when it is shared.|"Sharing makes two happy," said '
         '{hero}.|And {hero} knew that a shared meal is the best meal.]'],
    ]


BREAKABLE = {
    'vase': ('bumped into the table, and the vase fell to the floor', 'glued the pieces together and put flowers in '
    'it'),
    'cup': ('reached for a cookie and knocked over the cup', 'glued the handle back on and painted little stars on '
    'the cup'),
    'clock': ('wanted to see how the clock worked and took it apart', 'put all the wheels back, one by one'),
    'plate': ('danced around the table and knocked down the plate', 'glued the plate and hung it on the wall'),
    'flower pot': ('ran around the corner and knocked over the flower pot', 'glued the pot and planted the flower '
    'again'),
}


def honesty(s):
    """The hero breaks something, hides it, feels bad, tells the truth and helps to mend it."""
    broke, mended = BREAKABLE[s.slots['broken']]
    return [
        ['[One day|One rainy day|One afternoon], {hero} was playing in {mentor}\'s house. {He} ' + broke + '. Crash!',
         '"Oh no!" {hero} whispered. It was {mentor}\'s favorite {broken}. [Nobody had seen it.|{He} was all alone in '
         'the room.] [{He} hid the pieces under the rug.|{He} hid everything behind the door and ran outside.]'],
        ['But {hero} [could not enjoy the day|could not eat {his} supper|could not sleep that night]. [{His} heart '
         'felt heavy.|{He} kept thinking about the {broken}.] When {mentor} asked, "Have you seen my {broken}?" '
         '{hero} [looked at the floor|turned red].',
         '[{He} took a deep breath.|Then {he} made up {his} mind.] "I broke it," {he} said. "I am very sorry. I was '
         'afraid that you would be angry."'],
        ['{Mentor} was quiet for a moment. Then {mhe} [smiled|hugged {him}]. "[A broken {broken} can be mended|It is '
         'only a {broken}]," {mhe} said. "[It was brave of you to tell me|I am glad that you told me the truth]."',
         'Together they ' + mended + '. [It looked almost like new.|It was not perfect, but {mentor} liked it even '
         'more.] [{Hero} felt as light as a feather.|From then on, {hero} always told the truth.|And {hero} slept '
         'well that night.]'],
    ]


PLANTS = {
    'sunflower': ('stood taller than the house', 'The birds came to eat the seeds, and everyone loved the golden '
    'flower.'),
    'pumpkin': ('was as round as a wheel', '{Hero} cooked a big pot of soup, and there was enough for everyone.'),
    'apple tree': ('carried its first red apples', '{Hero} gave an apple to everyone who came by.'),
    'rose': ('opened its first red flower', 'Its sweet smell filled the air, and visitors came from far away.'),
    'carrot': ('was so big that three friends had to pull it out', 'They washed it and shared it, and it was very '
    'sweet.'),
    'bean': ('climbed all the way up to the roof', '{Hero} picked a basket of beans and cooked them for supper.'),
    'strawberry': ('was full of sweet red berries', '{Hero} made jam and gave a jar to every friend.'),
}


def growing(s):
    """The hero plants a seed, is impatient, waits and is rewarded."""
    grown, end = PLANTS[s.slots['plant']]
    return [
        ['[One spring morning|In spring], {mentor} gave {hero} a small seed. "It will be {aplant}," said {mentor}. '
         '"[But you must be patient|But it needs time]."',
         '{Hero} dug a little hole, put the seed inside and [covered it with soft earth|gave it some water].'],
        ['The next day, {hero} ran outside, but there was nothing to see. [The day after that, there was still '
         'nothing.|A week went by, and there was still nothing.] "[It does not work|It will never grow|This seed is '
         'broken]!" said {hero}.',
         '[{He} wanted to dig it up, but {mentor} shook {mhis} head.|{He} almost gave up, but {mentor} stopped '
         '{him}.] "[Things grow in the dark before you see them|Good things take time]," said {mentor}. So {hero} '
         'watered the ground every morning and [pulled out the weeds|sang to the seed|waited].'],
        ['Then, one day, a tiny green leaf came out of the ground. {Hero} danced for joy! [It grew and grew.|It grew '
         'a little every day.] By the end of the summer, the {plant} ' + grown + '.',
         end, '["You were patient," said {mentor}, "and look what you have now!"|{Hero} put a new seed in {his} '
             'pocket for next year.|"It was worth the wait," said {hero}.]'],
    ]


def race(s):
    """A race; the hero stops to help a rival who falls, and both finish together."""
    prize = s.pick(['a golden ribbon', 'a big cake', 'a shiny medal', 'a basket of pears'])
    return [
        ['[One day|That summer], there was a big race {walk}. The prize was ' + prize + '. {Hero} wanted to win, and '
         'so did {afriend}.',
         '[For weeks they practiced.|{Hero} practiced every morning.|"[I will be faster than you|Nobody can beat '
         'me]," said {friend}.]'],
        ['"Ready, set, go!" called {mentor}. They ran [as fast as they could|side by side]. [First {friend} was in '
         'front, and then {hero} was.|{Hero} was in front, but {friend} was close behind.]',
         'Near the end, {friend} [tripped over a root|slipped on wet leaves] and [fell|hurt {fhis} foot]. {Hero} '
         'could see the finish line. {He} could win now!',
         '[But {he} stopped and turned around.|But {he} could not leave {friend} behind.] "[Lean on me|Hold on to '
         'me]," said {hero}, and {he} helped {friend} up.'],
        ['Together they walked across the finish line, last of all. [But everyone cheered louder than '
         'before.|Everyone clapped for them.] "[You stopped to help|You gave up the prize for a friend]," said '
         '{mentor}. "[That is worth more than winning|You are the true winner]."',
         '{Mentor} gave them the prize, and they shared it. [They were best friends from that day on.|"Next year we '
         'will race again," said {friend}, and they laughed.|"A friend is the best prize," said {hero}.]'],
    ]
