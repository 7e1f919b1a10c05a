"""Words and text: lists, facts, sentiment and requested formats."""

import json
from random import Random

import words
from kit import Example, article, ask, held_out, plural, some


def list_work(rng: Random) -> Example:
    items = some(rng, words.WORDS, 3, 6)
    listed, roll = ", ".join(items), rng.random()
    held = held_out("list", listed)
    if roll < 0.35:
        question = ask(rng, ["How many words are in this list: {l}?", "Count the words: {l}", "How many items: {l}?"], l=listed)
        return Example("count_words", question, str(len(items)), long=f"The list has {len(items)} words.", value=len(items), held=held)
    if roll < 0.6:
        question = ask(rng, ["Sort these words: {l}", "Put these words in alphabetical order: {l}", "Sort alphabetically: {l}"], l=listed)
        return Example("sort_words", question, ", ".join(sorted(items)), value=sorted(items), held=held)
    which = rng.choice(["first", "last"])
    answer = items[0] if which == "first" else items[-1]
    question = ask(rng, ["What is the {x} word of this list: {l}?", "Which word comes {x}: {l}?"], x=which, l=listed)
    return Example("pick_word", question, answer, value=answer, held=held)


def category_list(rng: Random) -> Example:
    name, pool = rng.choice(
        [
            ("animals", words.ANIMALS),
            ("colours", words.COLOURS),
            ("colors", words.COLOURS),
            ("things in a house", words.THINGS),
            ("jobs", words.JOBS),
            ("cities", words.CITIES),
            ("names", words.NAMES),
            ("days", words.DAYS),
            ("months", words.MONTHS),
        ]
    )
    count = rng.randint(2, min(6, len(pool)))
    items = rng.sample(pool, count) if name not in ("days", "months") else pool[:count]
    number = words.NUMBERS[count] if rng.random() < 0.6 else str(count)
    question = ask(rng, ["Name {n} {k}.", "List {n} {k}.", "Give me {n} {k}.", "Tell me {n} {k}."], n=number, k=name)
    if rng.random() < 0.2:
        question += rng.choice([" As a JSON list.", " Write a JSON list.", " Answer with a JSON array."])
        return Example("json_list", question, json.dumps(items), value=items)
    if rng.random() < 0.3:
        question += rng.choice([" Use a bullet list.", " As a list with dashes.", " Use bullet points."])
        return Example("bullets", question, "\n".join(f"- {i}" for i in items), value=items)
    return Example("name_some", question, ", ".join(items), value=items)


def fact(rng: Random) -> Example:
    roll = rng.random()
    if roll < 0.3:
        key = rng.choice(list(words.CAPITALS))
        answer = words.CAPITALS[key]
        question = ask(rng, ["What is the capital of {k}?", "Which city is the capital of {k}?", "Capital of {k}?", "Name the capital of {k}."], k=key)
        full = f"The capital of {key} is {answer}."
    elif roll < 0.38:
        key, colour = rng.choice(list(words.COLOUR_OF)), rng.choice(words.COLOURS)
        colour = words.COLOUR_OF[key] if rng.random() < 0.5 else colour
        answer = "yes" if words.COLOUR_OF[key] == colour else "no"
        question = ask(rng, ["Is {k} {c}?", "Is {k} {c} or not?"], k=key, c=colour)
        full = f"Yes, {key} is {colour}." if answer == "yes" else f"No, {key} is {words.COLOUR_OF[key]}."
    elif roll < 0.5:
        key = rng.choice(list(words.COLOUR_OF))
        answer = words.COLOUR_OF[key]
        question = ask(rng, ["What colour is {k}?", "What color is {k}?", "Which colour does {k} have?"], k=key)
        full = f"{key[0].upper()}{key[1:]} is {answer}."
    elif roll < 0.75:
        key = rng.choice(list(words.OPPOSITES))
        answer = words.OPPOSITES[key]
        question = ask(rng, ["What is the opposite of {k}?", "Name the opposite of {k}.", "Opposite of {k}?"], k=key)
        full = f"The opposite of {key} is {answer}."
    elif roll < 0.85:
        key = rng.choice(list(words.SOUNDS))
        answer = words.SOUNDS[key]
        question = ask(rng, ["What sound does {k} make?", "What does {k} say?"], k=article(key))
        full = f"{article(key).capitalize()} says {answer}."
    else:
        pool, kind = rng.choice([(words.DAYS, "day"), (words.MONTHS, "month")])
        index, step = rng.randrange(len(pool)), rng.choice([1, -1])
        answer = pool[(index + step) % len(pool)]
        relation = "after" if step == 1 else "before"
        question = ask(rng, ["Which {y} comes {r} {k}?", "What {y} is {r} {k}?"], y=kind, r=relation, k=pool[index])
        full = f"{answer} comes {relation} {pool[index]}."
    return Example("fact", question, full, short=answer, value=answer)


def opinion(rng: Random) -> tuple[str, str]:
    good = rng.random() < 0.5
    word, thing = rng.choice(words.GOOD if good else words.BAD), rng.choice(words.REVIEWED)
    forms = (
        [
            "I love this {t}.",
            "The {t} was {w}.",
            "What {a} {t}!",
            "This {t} is really {w}.",
            "I enjoyed the {t}, it was {w}.",
            "Such {a} {t}, I want more.",
            "We had a good time, the {t} was {w}.",
        ]
        if good
        else [
            "I hate this {t}.",
            "The {t} was {w}.",
            "What {a} {t}!",
            "This {t} is really {w}.",
            "I did not like the {t}, it was {w}.",
            "Such {a} {t}, never again.",
            "We left early, the {t} was {w}.",
        ]
    )
    return rng.choice(forms).format(t=thing, w=word, a=article(word)), "positive" if good else "negative"


def sentiment(rng: Random) -> Example:
    text, label = opinion(rng)
    question = ask(
        rng,
        [
            "Is this positive or negative? {t}",
            "What is the sentiment of this text: {t}",
            "Classify the sentiment: {t}",
            "Sentiment: {t}",
            "Positive or negative: {t}",
            "Classify as positive or negative: {t}",
        ],
        t=text,
    )
    return Example("sentiment", question, label, long=f"The sentiment of this text is {label}.", value=label, held=held_out("sent", text))


def extract(rng: Random) -> Example:
    name, age, city, job = rng.choice(words.NAMES), rng.randint(5, 90), rng.choice(words.CITIES), rng.choice(words.JOBS)
    facts = {"name": name, "age": age, "city": city, "job": job}
    texts = {
        ("name", "age"): [f"{name} is {age} years old.", f"{name}, {age} years old."],
        ("name", "city"): [f"{name} lives in {city}.", f"{name} comes from {city}."],
        ("name", "job"): [f"{name} works as {article(job)}.", f"{name} is {article(job)}."],
        ("name", "age", "city"): [f"{name} is {age} years old and lives in {city}.", f"{name} from {city} is {age}."],
        ("name", "job", "city"): [f"{name} is {article(job)} in {city}.", f"{name} works as {article(job)} in {city}."],
    }
    keys = rng.choice(list(texts))
    found = {key: facts[key] for key in keys}
    listed = ", ".join(keys[:-1]) + " and " + keys[-1]
    question = ask(
        rng,
        [
            "Write as JSON with the keys {k}: {t}",
            "Give me JSON with {k} for: {t}",
            "Extract {k} as JSON: {t}",
            "Turn this into JSON with {k}: {t}",
            "JSON with the keys {k}: {t}",
        ],
        k=listed,
        t=rng.choice(texts[keys]),
    )
    return Example("json", question, "", value=found, held=held_out("json", name, age, city))


def invented(rng: Random) -> Example:
    keys = {"name": rng.choice(words.NAMES), "age": rng.randint(5, 90), "city": rng.choice(words.CITIES), "job": rng.choice(words.JOBS)}
    made = {key: keys[key] for key in rng.choice([["name", "age"], ["name", "age"], ["name", "age", "city"], ["name", "city", "job"]])}
    question = ask(
        rng,
        [
            "Give me a person as JSON.",
            "Write a JSON object for a person.",
            "Make up a person as JSON.",
            "Invent a person. Answer in JSON.",
            "Return some JSON.",
            "Answer in JSON.",
            "Describe a person in JSON.",
        ],
    )
    return Example("json_free", question, json.dumps(made), value=made)


def sentence_about(rng: Random) -> Example:
    word = rng.choice(words.ANIMALS + words.THINGS)
    adjective, place = rng.choice(words.ADJECTIVES), rng.choice(words.PLACES)
    made = rng.choice(
        [
            f"The {adjective} {word} is in the {place}.",
            f"I saw {article(adjective)} {word} near the {place}.",
            f"There is {article(word)} in the {place}.",
            f"My {word} is very {adjective}.",
        ]
    )
    question = ask(
        rng,
        ["Write a sentence with the word {w}.", "Use {w} in a sentence.", "Make a sentence about {w}.", "Write one sentence about {a}."],
        w=word,
        a=article(word),
    )
    return Example("sentence", question, made, value=made)


def plural_of(rng: Random) -> Example:
    noun = rng.choice(words.ANIMALS + words.THINGS)
    question = ask(rng, ["What is the plural of {w}?", "Plural of {w}?", "Write the plural of {w}."], w=noun)
    return Example("plural", question, plural(noun), long=f"The plural of {noun} is {plural(noun)}.", value=plural(noun), held=held_out("pl", noun))


MAKERS = [(4, list_work), (2, category_list), (4, fact), (4, sentiment), (5, extract), (0.7, invented), (2, sentence_about), (1, plural_of)]
