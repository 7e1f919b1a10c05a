"""Simple English by grammar: short stories that hang together, small descriptions, poems."""

from random import Random

import words
from kit import Example, article, ask, coined, plural

OPENINGS = [
    "Once upon a time there was {a_hero} called {name}.",
    "There was once {a_hero} named {name}.",
    "In a {place} far away lived {a_hero} called {name}.",
    "{name} was {a_hero} who lived near the {place}.",
    "Long ago, {a_hero} named {name} lived by the {place}.",
]
WANTS = [
    "{name} wanted to find the {thing} that was lost in the {place}.",
    "One day {name} lost a {adj} {thing}.",
    "{name} dreamed of a {adj} {thing}.",
    "Every day {name} looked for a {thing} in the {place}.",
    "One morning {name} heard that a {adj} {thing} was hidden in the {place}.",
]
TROUBLES = [
    "But the way was long, and the night was {dark}.",
    "But a {adj2} {other} stood in the way.",
    "Then a big storm came, and {name} had to hide.",
    "But nobody wanted to help.",
    "But the bridge was broken and the river was cold.",
    "Then it began to rain, and the path was hard to see.",
]
HELPERS = [
    'A {adj2} {other} named {friend} came by and said: "I will help you."',
    "{name} met {friend} the {other}, and they went on together.",
    '"Do not be sad," said {friend} the {other}. "Come with me."',
    "Then {friend}, {a_other}, showed {name} the right way.",
]
TURNS = [
    "They walked over the hill and looked behind every tree.",
    "Together they worked until the sun went down.",
    "They asked the old {job}, who knew every stone.",
    "They climbed the tower and looked around.",
    "They waited, and they listened, and they did not give up.",
]
FINDS = [
    "At last they found the {thing} under a {adj} stone.",
    "In the evening they saw the {thing} near the old mill.",
    "At the end of the path lay the {thing}.",
    "And there it was: the {thing}, {adj} and bright.",
]
ENDINGS = [
    "{name} was very happy, and from that day they were friends.",
    "{name} thanked {friend}, and they shared a {food}.",
    "They went home and told everyone the story.",
    "That night {name} slept well.",
    "And so {name} learned that a friend is worth more than a {thing}.",
]

HEROES = "dragon robot wizard princess knight ghost unicorn giant dwarf pirate prince boy girl man woman monster fairy king queen elephant dinosaur tree model computer".split()
CHARACTERS = "small big old young quiet quick slow kind brave clever shy happy tired hungry gentle proud lazy curious lonely merry white black brown".split()


def story_slots(rng: Random, animal: str | None = None) -> dict[str, str]:
    hero, other = animal or rng.choice(words.ANIMALS), rng.choice(words.ANIMALS)
    adj = rng.choice(CHARACTERS)
    name, friend = rng.sample(words.NAMES, 2)
    return {
        "a_hero": f"{article(adj)} {hero}",
        "hero": hero,
        "name": name,
        "friend": friend,
        "place": rng.choice(words.PLACES),
        "thing": rng.choice(words.THINGS),
        "adj": rng.choice(words.COLOURS),
        "adj2": rng.choice(["kind", "proud", "lazy", "brave", "clever", "shy", "strange", "funny"]),
        "other": other,
        "a_other": article(other),
        "dark": rng.choice(["dark", "cold", "long"]),
        "job": rng.choice(words.JOBS),
        "food": rng.choice(["cake", "pie", "soup", "cookie"]),
    }


def story(rng: Random, animal: str | None = None, length: int = 7) -> str:
    slots = story_slots(rng, animal)
    parts = [OPENINGS, WANTS, TROUBLES, HELPERS, TURNS, FINDS, ENDINGS]
    if length <= 5:
        parts = [OPENINGS, WANTS, HELPERS, FINDS, ENDINGS]
    return " ".join(rng.choice(part).format(**slots) for part in parts).replace("a orange", "an orange")


def scene(rng: Random) -> str:
    """A paragraph of plain statements around one place."""
    place, one, two = rng.choice(words.PLACES), *rng.sample(words.ANIMALS, 2)
    name, job = rng.choice(words.NAMES), rng.choice(words.JOBS)
    lines = [
        f"The {place} is {rng.choice(['quiet', 'warm', 'bright', 'cold', 'busy'])} in the {rng.choice(['morning', 'evening'])}.",
        f"{article(rng.choice(CHARACTERS)).capitalize()} {one} sits near the {rng.choice(words.THINGS)}.",
        f"{name}, the {job}, {rng.choice(['opens the window', 'drinks a cup of tea', 'reads a letter', 'walks to work', 'sings a song'])}.",
        f"Two {plural(two)} {rng.choice(['play', 'sleep', 'run', 'wait', 'look around'])} in the {rng.choice(['grass', 'sun', 'rain', 'snow'])}.",
        f"In {rng.choice(words.SEASONS)} the {rng.choice(['days are long', 'wind is cold', 'trees are green', 'nights are quiet'])}.",
        f"Nobody knows where the {rng.choice(words.ADJECTIVES)} {rng.choice(words.THINGS)} came from.",
        f"It is a good day for {rng.choice(['a walk', 'a story', 'work', 'music', 'a rest'])}.",
    ]
    return " ".join(rng.sample(lines, rng.randint(3, 6)))


RHYMES = [
    ("tree", "bee", "sea", "knee"),
    ("night", "light", "kite", "knight"),
    ("day", "hay", "bay", "clay"),
    ("moon", "spoon", "tune", "noon"),
    ("rain", "train", "grain", "lane"),
    ("snow", "crow", "bow", "glow"),
    ("sky", "fly", "pie", "spy"),
]


def poem(rng: Random) -> str:
    a, b = rng.sample(rng.choice(RHYMES), 2)
    c, d = rng.sample(rng.choice(RHYMES), 2)
    animal, adjective = rng.choice(words.ANIMALS), rng.choice(CHARACTERS)
    return f"The {adjective} {animal} dreams of the {a},\nit sings a song about the {b}.\nIt looks at the {c} and waits for the {d},\nand all the {rng.choice(words.PLACES)} is still."


def told(rng: Random) -> Example:
    roll = rng.random()
    if roll < 0.25:
        return Example(
            "poem",
            ask(
                rng,
                [
                    "Write a poem.",
                    "Write a short poem.",
                    "Tell me a poem.",
                    "Can you write a poem?",
                    "Write a haiku.",
                    "Write a haiku about the sea.",
                    "Write a poem about love.",
                    "Write a poem about rain.",
                    "Write a poem for me.",
                ],
            ),
            poem(rng),
        )
    if roll < 0.4:
        return Example("story", ask(rng, ["Write something.", "Describe a place.", "Write a paragraph.", "Tell me something.", "Say something."]), scene(rng))
    animal = rng.choice(rng.choice([words.ANIMALS, words.ANIMALS, HEROES, words.WORDS, [coined(rng)]])) if rng.random() < 0.75 else None
    templates = (
        ["Tell me a story about {x}.", "Write a story about {x}.", "Tell a story with {x}.", "Can you tell me a story about {x}?"]
        if animal
        else [
            "Tell me a story.",
            "Write a story.",
            "Do you know a story?",
            "Once upon a time",
            "Tell a story.",
            "Write a very long story.",
            "Write a story for children.",
            "Write a fairy tale.",
        ]
    )
    if rng.random() < 0.3:
        templates = [t.replace("a story", "a short story") for t in templates]
        return Example("story", ask(rng, templates, x=article(animal) if animal else ""), story(rng, animal, 5))
    return Example(
        "story",
        ask(rng, templates, x=article(animal) if animal else ""),
        story(rng, animal),
        short=story(rng, animal, 5),
        long=story(rng, animal) + " " + scene(rng),
    )


def page(rng: Random) -> str:
    return "\n\n".join(rng.choice([story, scene, scene, poem])(rng) for _ in range(rng.randint(1, 3)))
