"""Conversations with tools in the prompt: call the one that fits, read its result, or answer without it."""

import json
from random import Random

import words
from kit import ask

CALL = "<tool_call>\n{}\n</tool_call>"


def tool(name: str, description: str, /, **params: str) -> dict:
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": {key: {"type": kind} for key, kind in params.items()}, "required": list(params)},
    }


def described(rng: Random, made: dict, notes: dict[str, str]) -> dict:
    """Clients differ: some describe each parameter, some describe nothing."""
    if rng.random() < 0.4:
        for key, note in notes.items():
            made["parameters"]["properties"][key]["description"] = note
    if rng.random() < 0.15:
        del made["description"]
    if rng.random() < 0.2:
        made["parameters"]["additionalProperties"] = False
    if rng.random() < 0.1:
        made["strict"] = True
    return made


def weather(rng: Random):
    city, key = rng.choice(words.CITIES), rng.choice(["city", "city", "location"])
    name = rng.choice(["get_weather", "get_weather", "weather", "get_current_weather"])
    made = described(
        rng,
        tool(name, rng.choice(["Get the weather in a city.", "The weather of a city", "Get the current weather"]), **{key: "string"}),
        {key: "Name of the city"},
    )
    if rng.random() < 0.15:
        made["parameters"]["properties"]["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    question = ask(
        rng,
        [
            "What is the weather in {c}?",
            "How is the weather in {c}?",
            "What's the weather like in {c} today?",
            "Is it raining in {c}?",
            "Weather in {c}, please.",
            "Tell me the weather in {c}.",
        ],
        c=city,
    )
    sky, degrees = rng.choice(["sunny", "cloudy", "rainy", "windy", "clear"]), rng.randint(-5, 35)
    result = rng.choice([{"temperature": degrees, "sky": sky}, {"temperature": degrees, "condition": sky}])
    return made, question, {key: city}, result, f"It is {sky} in {city}, with {degrees} degrees."


def addition(rng: Random):
    a, b = rng.randint(0, 999), rng.randint(0, 999)
    names = rng.choice([("a", "b"), ("a", "b"), ("x", "y")])
    kind = rng.choice(["number", "integer"])
    made = described(
        rng, tool(rng.choice(["add", "add", "sum", "add_numbers"]), rng.choice(["Add two numbers.", "Adds two numbers"]), **{n: kind for n in names}), {}
    )
    question = ask(rng, ["What is {a} + {b}?", "Add {a} and {b}.", "What is {a} plus {b}?", "Compute {a} + {b}.", "How much is {a} + {b}?"], a=a, b=b)
    return made, question, dict(zip(names, (a, b))), a + b, f"{a} + {b} = {a + b}."


def clock(rng: Random):
    city = rng.choice(words.CITIES)
    made = described(rng, tool("get_time", "Get the time in a city.", city="string"), {"city": "Name of the city"})
    hour = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    return (
        made,
        ask(rng, ["What time is it in {c}?", "Tell me the time in {c}.", "What is the time in {c}?"], c=city),
        {"city": city},
        {"time": hour},
        f"It is {hour} in {city}.",
    )


def search(rng: Random):
    topic = rng.choice(words.TOPICS)
    made = described(rng, tool(rng.choice(["search", "web_search"]), "Search the web.", query="string"), {"query": "What to search for"})
    question = ask(rng, ["Search for {t}.", "Find something about {t}.", "Look up {t}.", "Search the web for {t}."], t=topic)
    return made, question, {"query": topic}, {"results": [f"All about {topic}"]}, f"I found this: All about {topic}."


def mail(rng: Random):
    name, text = rng.choice(words.NAMES), rng.choice(["hello", "I am late", "see you soon", "thank you", "good luck", "dinner is ready"])
    made = described(rng, tool("send_message", "Send a message to a person.", to="string", text="string"), {"to": "Who gets it", "text": "What it says"})
    question = ask(rng, ["Send {n} the message: {x}", "Tell {n}: {x}", "Write to {n}: {x}"], n=name, x=text)
    return made, question, {"to": name, "text": text}, {"sent": True}, f"I sent the message to {name}."


def dice(rng: Random):
    sides = rng.choice([6, 8, 10, 12, 20])
    made = described(rng, tool("roll_dice", "Roll a die.", sides="integer"), {"sides": "How many sides"})
    rolled = rng.randint(1, sides)
    return (
        made,
        ask(rng, ["Roll a die with {s} sides.", "Throw a die with {s} sides."], s=sides),
        {"sides": sides},
        {"result": rolled},
        f"The die shows {rolled}.",
    )


def any_tool(rng: Random):
    """A tool that exists nowhere: its name and its parameter have to be read from the prompt."""
    verb, noun, key = (
        rng.choice(["get", "find", "lookup", "fetch", "show", "check", "open"]),
        rng.choice(words.THINGS + words.ANIMALS + words.MISC),
        rng.choice(["id", "name", "title", "key", "code", "label"]),
    )
    number = rng.random() < 0.4
    value = rng.randint(1, 9999) if number else rng.choice(words.WORDS + words.NAMES)
    made = described(
        rng, tool(f"{verb}_{noun}", f"{verb.capitalize()} a {noun}.", **{key: "integer" if number else "string"}), {key: f"The {key} of the {noun}"}
    )
    question = ask(
        rng,
        ["{v} the {n} {x}.", "{v} the {n} with the {k} {x}.", "Use {v2}_{n} with {x}.", "Can you {v2} the {n} {x}?"],
        v=verb.capitalize(),
        v2=verb,
        n=noun,
        k=key,
        x=value,
    )
    return made, question, {key: value}, {"found": True}, f"I found the {noun} {value}."


KINDS = [weather, weather, weather, addition, addition, clock, search, mail, dice, any_tool, any_tool]


def conversation(rng: Random, plain: tuple[str, str]) -> tuple[list[dict], list[dict]]:
    """(tools, messages). One time in five the question needs no tool and gets the plain answer."""
    chosen = rng.choice(KINDS)
    made, question, arguments, result, answer = chosen(rng)
    offered = [made]
    for other in rng.sample([k for k in KINDS if k is not chosen], rng.choice([0, 0, 1, 2])):
        extra = other(rng)[0]
        if extra["name"] not in [t["name"] for t in offered] and other is not chosen:
            offered.append(extra)
    rng.shuffle(offered)
    if rng.random() < 0.2:
        return offered, [{"role": "user", "content": plain[0]}, {"role": "assistant", "content": plain[1]}]
    call = CALL.format(json.dumps({"name": made["name"], "arguments": arguments}))
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": call}]
    if rng.random() < 0.5:
        messages += [{"role": "tool", "content": json.dumps(result)}, {"role": "assistant", "content": answer}]
    return offered, messages
