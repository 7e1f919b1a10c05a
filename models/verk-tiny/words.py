"""Vocabulary of the synthetic corpus. Every list is written for this model; nothing is taken from a text collection."""

NAMES = """Anna Ben Carla David Emma Felix Grace Henry Ida Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Umar Vera Will
Xenia Yuri Zoe Adam Bella Chris Diana Erik Fiona George Hanna Ivan Julia Karl Lena Marco Nina Oscar Petra Quinn Rita
Stefan Tom Ursula Victor Wendy Amir Bianca Cedric Dora Elias Frida Gustav Helen Igor Jonas Klara Lucas Maria Nora
Otto Pia Ralf Sara Theo Uma Viola Walter Yara Zack Alice Bob Clara Dan Eva Frank Gina Hugo Iris Joel Kim Lara Max
Nick Olivia Peter Ruth Simon Tara Vince""".split()

ANIMALS = """cat dog fox bear wolf horse cow pig goat sheep duck goose hen owl crow eagle mouse rat rabbit hare deer
lion tiger monkey camel snake frog toad fish shark whale seal crab snail bee ant spider bat hedgehog squirrel beaver
otter penguin parrot turtle lizard donkey zebra panda swan""".split()

SOUNDS = {
    "cat": "meow",
    "dog": "woof",
    "cow": "moo",
    "pig": "oink",
    "sheep": "baa",
    "duck": "quack",
    "hen": "cluck",
    "horse": "neigh",
    "frog": "ribbit",
    "crow": "caw",
    "bee": "buzz",
    "owl": "hoot",
    "lion": "roar",
    "snake": "hiss",
    "mouse": "squeak",
    "wolf": "howl",
}

THINGS = """apple book cup key lamp chair table door window clock spoon fork plate bottle box bag ball coin pen pencil
letter map shoe hat coat ring rope stone shell leaf flower seed nut egg cake pie bread cheese cookie candle bell
drum kite boat cart wheel ladder hammer nail brush basket blanket pillow mirror bucket button card ticket stamp
orange pear plum lemon cherry carrot potato onion tomato bean""".split()

PLACES = """forest village river lake mountain valley garden farm market castle harbour island bridge meadow desert
town city school library kitchen cave beach hill field park mill tower barn station museum""".split()

ADJECTIVES = """small big old young red blue green yellow white black brown quiet loud quick slow kind brave clever shy
happy sad tired hungry warm cold soft hard bright dark heavy light clean dirty round long short strange funny gentle
proud lazy busy careful curious lonely merry""".split()

JOBS = """baker farmer teacher doctor sailor painter singer gardener carpenter cook writer miller fisher tailor pilot
nurse guard king queen piper smith shepherd driver librarian""".split()

COLOURS = "red blue green yellow white black brown orange purple pink grey".split()

COLOUR_OF = {
    "the sky": "blue",
    "grass": "green",
    "snow": "white",
    "blood": "red",
    "a banana": "yellow",
    "coal": "black",
    "a lemon": "yellow",
    "milk": "white",
    "a carrot": "orange",
    "a tomato": "red",
    "chocolate": "brown",
    "the sun": "yellow",
    "a leaf": "green",
    "an elephant": "grey",
    "a flamingo": "pink",
    "the sea": "blue",
    "a strawberry": "red",
    "night": "black",
    "a plum": "purple",
    "salt": "white",
}

OPPOSITES = dict(
    p.split("-")
    for p in """big-small hot-cold up-down left-right day-night old-new young-old happy-sad
fast-slow high-low open-closed full-empty good-bad light-dark hard-soft wet-dry near-far early-late strong-weak
rich-poor long-short thick-thin clean-dirty loud-quiet in-out on-off yes-no first-last true-false black-white
love-hate win-lose buy-sell give-take start-stop push-pull day-night summer-winter friend-enemy front-back
top-bottom inside-outside sharp-blunt brave-afraid deep-shallow wide-narrow heavy-light sweet-sour""".split()
)

CAPITALS = dict(
    p.split("-")
    for p in """France-Paris Germany-Berlin Italy-Rome Spain-Madrid Portugal-Lisbon Austria-Vienna
Poland-Warsaw Norway-Oslo Sweden-Stockholm Finland-Helsinki Denmark-Copenhagen Greece-Athens Ireland-Dublin
Belgium-Brussels Hungary-Budapest Japan-Tokyo China-Beijing India-Delhi Russia-Moscow Egypt-Cairo Kenya-Nairobi
Canada-Ottawa Cuba-Havana Peru-Lima Chile-Santiago Turkey-Ankara Iceland-Reykjavik England-London Thailand-Bangkok
Switzerland-Bern""".split()
)

CITIES = sorted(
    {
        *CAPITALS.values(),
        *"""Hamburg Munich Zurich Geneva Milan Naples Venice Porto Lyon Nice Boston Chicago
Denver Dallas Seattle Toronto Sydney Perth Osaka Mumbai Lagos Cairo Dubai Bergen Prague Riga Kyoto Austin Miami""".split(),
    }
)

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASONS = "spring summer autumn winter".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty""".split()

GOOD = """great wonderful lovely excellent superb delightful perfect fantastic amazing charming brilliant pleasant
beautiful helpful friendly""".split()
BAD = """terrible awful horrible boring broken ugly rude useless dreadful poor disappointing annoying nasty slow
unpleasant""".split()
REVIEWED = """film book meal hotel game song phone service trip show concert lamp chair app car coffee soup pizza museum
teacher waiter room story party course""".split()

VERBS = """run walk jump sing dance read write cook sleep swim climb paint laugh dream listen whisper shout smile cry
build carry catch dig drink eat fall find fly follow help hide hold hunt learn look lose make move open play pull
push sit speak stand swing talk teach think throw travel turn visit wait wash watch work""".split()

MISC = """water fire earth wind rain snow cloud storm sun moon star sky sea sand wood iron gold silver glass paper
silk wool salt sugar honey milk tea rice soup music story song poem word name game prize gift friend mother father
sister brother child baby night morning evening summer winter spring autumn hour minute week month year road path
street house home roof wall floor bed fish bird tree grass root branch model train data reward token batch server
planet rocket engine robot pixel""".split()

FOREIGN = "café naïve über señor jalapeño Zürich São Łódź Malmö Grüße façade crème piñata Ærø Привет Москва 東京 大阪 😀 🚀 🎉 🌍 🐢 🦊 ✨ 👍".split()

WORDS = sorted({w for group in (ANIMALS, THINGS, PLACES, ADJECTIVES, JOBS, COLOURS, VERBS, MISC, list(OPPOSITES)) for w in group})

TOPICS = """quantum physics|the stock market|ancient history|cooking rice|fixing a car|the weather on Mars|black holes|
tax law|chess openings|football scores|learning the piano|deep sea fish|the Roman empire|making cheese|space travel|
volcanoes|dinosaurs|the human brain|blockchains|climate|philosophy|modern art|gardening|electric cars|the internet|
medicine|politics|poetry|photography|cryptography|biology|chemistry|knitting|sailing|mathematics|programming in Rust|
the French language|film music|train timetables|coffee beans""".replace("\n", "").split("|")
