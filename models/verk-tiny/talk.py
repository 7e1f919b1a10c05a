"""Small talk, what the model says about itself and about Verk, and what it says when it does not know."""

from random import Random

import words
from kit import Example, ask, coined
from turns import SKILLS, TURNS


def small_talk(rng: Random) -> Example:
    questions, answers, short, long = rng.choice(TURNS[:7]) if rng.random() < 0.4 else rng.choice(TURNS)
    answer = answers[0] if rng.random() < 0.7 else rng.choice(answers)
    return Example("talk", ask(rng, questions), answer, short=short, long=long, value=short)


NO_IDEA = "I do not know that. I am a very small model."
LOST = "I did not understand that. Try: What is 3 + 4?"


def topic_of(rng: Random) -> str:
    word = lambda: coined(rng) if rng.random() < 0.3 else rng.choice(words.WORDS)
    forms = [
        lambda: rng.choice(words.TOPICS),
        lambda: rng.choice(words.TOPICS),
        word,
        lambda: f"{word()} {word()}",
        lambda: f"the {word()} of {rng.choice(words.CITIES)}",
        lambda: rng.choice(words.NAMES),
        lambda: f"the {word()} {word()}",
        lambda: f"{word()} and {word()}",
    ]
    return rng.choice(forms)()


def unknown(rng: Random) -> Example:
    topic = topic_of(rng)
    question = ask(
        rng,
        [
            "What do you know about {t}?",
            "Tell me about {t}.",
            "Explain {t}.",
            "Can you explain {t}?",
            "Write an essay about {t}.",
            "Tell me something about {t}.",
            "Give me advice on {t}.",
            "Teach me about {t}.",
            "Write about {t}.",
        ],
        t=topic,
    )
    answer = f"I do not know much about {topic}. I am a very small model."
    return Example("unknown", question, answer, short="I do not know.", long=f"{answer} {SKILLS}", value="I do not know.")


def hard_question(rng: Random) -> Example:
    """Questions of every shape that it cannot answer; the answer repeats nothing, so it stays clean on words never seen."""
    word = lambda: coined(rng) if rng.random() < 0.25 else rng.choice(words.WORDS)
    slots = {
        "x": word(),
        "y": word(),
        "z": word(),
        "n": rng.choice(words.NAMES),
        "c": rng.choice([*words.CAPITALS, *words.CITIES]),
        "t": topic_of(rng),
        "j": rng.choice([*words.JOBS, "president", "boss", "mayor", "capital"]),
        "v": rng.choice(words.VERBS),
        "k": rng.randint(1, 2000),
    }
    question = ask(
        rng,
        [
            "Who invented the {x}?",
            "How do I {v} a {x}?",
            "How do I {v} the {x} of the {y}?",
            "Who is the {j} of {c}?",
            "Why is the {x} {y}?",
            "Where is {c}?",
            "When was {n} born?",
            "Who was {n}?",
            "What is the meaning of the word {x}?",
            "What does {x} mean?",
            "What is the {x} of the {y}?",
            "How many {x}s are in a {y}?",
            "How far is it to {c}?",
            "Who wrote {t}?",
            "How does {t} work?",
            "Why is {t} important?",
            "What happened in {k}?",
            "How old is {n}?",
            "What is a {x} {y}?",
            "Where can I buy a {x}?",
            "Why do {x}s {v}?",
            "When does the {x} {v}?",
            "Which {x} is the best?",
            "How much does a {x} cost?",
            "What is the best way to {v}?",
            "How can I {v} better?",
            "Should I {v} the {x}?",
            "Is the {x} a {y}?",
            "Can a {x} {v}?",
            "What is {t}?",
            "What is the name of the {x}?",
            "Who won the {x} in {k}?",
            "What should I {v} today?",
            "Why?",
            "How?",
            "Why not?",
            "Who is the president of the United States?",
            "How do I bake bread?",
        ],
        **slots,
    )
    return Example("unknown", question, NO_IDEA, short="I do not know.", long=f"{NO_IDEA} {SKILLS}", value="I do not know.")


def noise(rng: Random) -> Example:
    kind = rng.random()
    if kind < 0.5:
        question = "".join(rng.choice("qwertzuiopasdfghjklyxcvbnm") for _ in range(rng.randint(1, 9)))
    elif kind < 0.7:
        question = rng.choice(
            ["", " ", "?", "...", "!", "hm", "hmm", "what", "uh", "eh?", "1", "42", "???", "-", "abc", "foo", "bar", "lorem ipsum", "x", "null"]
        )
    else:
        question = " ".join(rng.choice(words.WORDS) for _ in range(rng.randint(1, 5)))
    return Example("noise", question, LOST, short="I did not understand that.", long=f"{LOST} {SKILLS}", value=None)


def statement(rng: Random) -> Example:
    word = rng.choice(words.WORDS)
    question = ask(
        rng,
        [
            "I like {w}.",
            "I love {w}!",
            "I have a {w}.",
            "I want a {w}.",
            "My {w} is {a}.",
            "The {w} is {a}.",
            "I went to the {p} today.",
            "I saw a {w}.",
            "It is {a} today.",
            "I work as a {j}.",
            "I do not like {w}.",
            "I bought a {w} in {c}.",
            "There is a {w} in my {p}.",
            "Yesterday I lost my {w}.",
            "We have a new {w}.",
        ],
        w=word,
        a=rng.choice(words.ADJECTIVES),
        p=rng.choice(words.PLACES),
        j=rng.choice(words.JOBS),
        c=rng.choice(words.CITIES),
    )
    return Example("talk", question, "I see. Tell me more, or ask me something.", short="I see.", value="I see.")


FAVOURITES = {
    "animal": "the fox",
    "colour": "blue",
    "color": "blue",
    "food": "cake",
    "number": "7",
    "word": "token",
    "city": "Rome",
    "season": "spring",
    "song": "the one about rain",
    "book": "a short one",
    "day": "Friday",
    "film": "a short one",
}


def favourite(rng: Random) -> Example:
    kind = rng.choice(list(FAVOURITES))
    question = ask(rng, ["What is your favourite {k}?", "What's your favorite {k}?", "Do you have a favourite {k}?", "Which {k} do you like best?"], k=kind)
    return Example("talk", question, f"I am a model, but I think I like {FAVOURITES[kind]}.", short=FAVOURITES[kind], value=FAVOURITES[kind])


CONCEPTS = {
    "Verk": 13,
    "GRPO": 14,
    "a reward function": 15,
    "a reward": 15,
    "a dataset": 16,
    "a deployment": 17,
    "LoRA": 18,
    "an adapter": 18,
    "a token": 19,
    "a language model": 19,
}


def concept(rng: Random) -> Example:
    name = rng.choice(list(CONCEPTS))
    _, answers, short, long = TURNS[CONCEPTS[name]]
    bare = name.split(" ", 1)[-1] if name[0] == "a" else name
    question = ask(
        rng,
        [
            "Explain what {x} is.",
            "What's {x}?",
            "Can you explain {x}?",
            "Define {x}.",
            "Tell me what {x} is.",
            "What does {b} mean?",
            "I want to know what {x} is.",
            "what is {x}",
            "What exactly is {x}?",
            "Explain {x} to me.",
            "Do you know what {x} is?",
            "Explain {b}.",
        ],
        x=name,
        b=bare,
    )
    return Example("talk", question, answers[0], short=short, long=long, value=short)


def translate(rng: Random) -> Example:
    question = ask(
        rng,
        ["Translate {w} to {l}.", "Translate the word {w} into {l}.", "How do you say {w} in {l}?", "What is {w} in {l}?"],
        w=rng.choice([*words.WORDS, "hello", "thank you"]),
        l=rng.choice("French German Spanish Italian Chinese Japanese Russian Latin Polish".split()),
    )
    return Example("talk", question, "I cannot translate. I only speak simple English.", short="I cannot.", value="I cannot.")


def weather_without_tool(rng: Random) -> Example:
    city = rng.choice(words.CITIES)
    question = ask(rng, ["What is the weather in {c}?", "How is the weather in {c}?", "Is it raining in {c}?", "Will it snow in {c} today?"], c=city)
    return Example("talk", question, f"I cannot see the weather in {city}. Give me a tool for it.", short="I do not know.", value="I do not know.")


def memory(rng: Random) -> list[Example]:
    """Two turns: the second one asks for what the first one said."""
    kind = rng.randrange(4)
    if kind == 0:
        name = rng.choice(words.NAMES)
        said, reply = (
            ask(rng, ["My name is {n}.", "I am {n}.", "Hello, I am {n}.", "Hi, my name is {n}!", "Call me {n}."], n=name),
            f"Nice to meet you, {name}!",
        )
        asked, answer, value = ask(rng, ["What is my name?", "Who am I?", "Do you remember my name?", "What's my name?"]), f"Your name is {name}.", name
    elif kind == 1:
        city = rng.choice(words.CITIES)
        said, reply = ask(rng, ["I live in {c}.", "I come from {c}.", "My home is {c}."], c=city), f"{city} sounds like a nice place."
        asked, answer, value = ask(rng, ["Where do I live?", "Where do I come from?", "Where is my home?"]), f"You live in {city}.", city
    elif kind == 2:
        colour = rng.choice(words.COLOURS)
        said, reply = ask(rng, ["My favourite colour is {c}.", "I like the colour {c} best.", "My favorite color is {c}."], c=colour), f"I like {colour} too."
        asked, answer, value = (
            ask(rng, ["What is my favourite colour?", "Which colour do I like?", "What is my favorite color?"]),
            f"Your favourite colour is {colour}.",
            colour,
        )
    else:
        n = rng.randint(1, 99)
        said, reply = ask(rng, ["Remember the number {n}.", "My number is {n}.", "Keep the number {n} in mind."], n=n), f"I will remember {n}."
        asked, answer, value = ask(rng, ["Which number was it?", "What is my number?", "What number did I tell you?"]), f"The number is {n}.", n
    return [Example("talk", said, reply), Example("memory", asked, answer, short=str(value), value=value)]


MAKERS = [
    (9, small_talk),
    (1.5, unknown),
    (2.5, hard_question),
    (1, noise),
    (1, statement),
    (0.6, favourite),
    (1.2, concept),
    (0.4, translate),
    (0.6, weather_without_tool),
]
