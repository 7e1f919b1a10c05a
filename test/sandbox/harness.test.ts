// tier: all (many jails)
/** The Python harness inside plain Pyodide: how it loads code and reads the returned values. */
import { beforeAll, describe, expect, test } from "bun:test";
import { openPlainPython, type Row } from "./plain_python.ts";

let python: Awaited<ReturnType<typeof openPlainPython>>;
beforeAll(async () => {
  python = await openPlainPython();
}, 60_000);

const rows = (count: number, row: (i: number) => Row = (i) => ({ answer: String(i) })): Row[] =>
  Array.from({ length: count }, (_, i) => ({ prompt: `p${i}`, completion: `c${i}`, ...row(i) }));
const score = (source: string, given = rows(2), params: Row = {}) => python.score(source, given, { params });
/** Loads, and answers the only or named function's call for one row. */
const alone = (source: string, entry = "reward", row: Row = {}) => {
  const loaded = python.load(source);
  if (!loaded.ok) throw new Error(loaded.error?.message);
  python.begin([{ prompt: "p", completion: "c", ...row }], entry);
  const reply = python.one(0);
  return reply.ok ? reply.value! : { fault: reply.error! };
};

describe("signatures", () => {
  test("the batch form gets lists: completions, prompts and every column", () => {
    const source =
      "def reward(completions, prompts=None, **kwargs):\n    return [len(completions) * 100 + int(a) for a in kwargs['answer']]";
    expect(python.load(source).entrypoints).toEqual([
      {
        name: "reward",
        signature: "reward(completions, prompts=None, **kwargs)",
        form: "batch",
        is_async: false,
        line: 1,
      },
    ]);
    expect(score(source)).toEqual([200, 201]);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["named columns without **kwargs", "def reward(completions, answer):\n    return [int(a) for a in answer]", [0, 1]],
    ["keyword only", "def reward(*, completions, answer):\n    return [int(a) for a in answer]", [0, 1]],
    ["positional only", "def reward(completions, /, answer):\n    return [int(a) for a in answer]", [0, 1]],
    ["only **kwargs", "def reward(**kw):\n    return [int(a) + len(kw['completions']) for a in kw['answer']]", [2, 3]],
    ["the rows", "def reward(completions, rows):\n    return [int(r['answer']) for r in rows]", [0, 1]],
    ["one sample", "def reward(prompt, completion, row):\n    return (prompt + completion == f'p{row[\"answer\"]}c{row[\"answer\"]}')", [1, 1]],
    ["one sample, some names and a column", "def reward(completion, answer):\n    return int(answer)", [0, 1]],
    ["one sample, **kwargs", "def reward(completion, **kw):\n    return int(kw['answer'])", [0, 1]],
    ["a lambda", "reward = lambda completion: 1", [1, 1]],
    ["a partial", "import functools\ndef f(k, completions): return [k for _ in completions]\nreward = functools.partial(f, 7)", [7, 7]],
    ["an object", "class R:\n    def __call__(self, completions): return [1 for _ in completions]\nreward = R()", [1, 1]],
    ["annotations that are not defined", "def reward(completions: List[Nonsense]) -> Other:\n    return [1, 1]", [1, 1]],
    ["a decorated one", "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner(*a, **k): return f(*a, **k)\n    return inner\n@deco\ndef reward(completions): return [1, 2]", [1, 2]],
    ["a dataclass beside it", "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef reward(completion): return P(3).x", [3, 3]],
  ])("%s", (_name, source, expected) => {
    expect(score(source)).toEqual(expected);
  });

  test("parameters come as they are, and a column of the same name wins", () => {
    const source = "def reward(completions, answer, scale=1):\n    return [float(a) * scale for a in answer]";
    expect(score(source, rows(2), { scale: 10, answer: "never" })).toEqual([0, 10]);
  });

  test("columns that a row lacks are None, and messages come through untouched", () => {
    const source =
      "def reward(completions, extra, **kw):\n    return [1 if e is None else c[0]['n'] for c, e in zip(completions, extra)]";
    expect(score(source, [{ completion: [{ n: 5 }], extra: 1 }, { completion: "x" }])).toEqual([5, 1]);
  });

  test("several functions are several rewards, with the line of each definition", () => {
    const source =
      "import functools\nfrom json import dumps as json_reward\ndef helper(x): return 1\n@functools.lru_cache\ndef format_reward(completion): return 1\nasync def reward_length(completions): return [2]\nreward = format_reward\ndef _private_reward(): pass\nclass my_reward: pass\n";
    expect(python.load(source).entrypoints?.map((e) => [e.name, e.form, e.is_async, e.line])).toEqual([
      ["format_reward", "sample", false, 5],
      ["reward_length", "batch", true, 6],
    ]);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["no parameter", "\n\ndef reward():\n    pass", 3, 1, /takes nothing.*def reward\(completions.*def reward\(prompt, completion, row\)/],
    ["no known parameter", "x = 1\nif x:\n    def reward(text): pass", 3, 5, /neither `completions` nor `completion`/],
    ["one and many", "def reward(prompts, completion): pass", 1, 1, /one sample or all of them/],
    ["no function", "def score(x): pass", 1, 1, /no function named `reward`/],
    ["nothing", "", null, null, /no function named `reward`/],
    ["not to be called", "reward = 3", null, null, /no function named/],
  ])("%s is refused with the position and the two forms", (_name, source, line, column, words) => {
    const { ok, error } = python.load(source);
    expect<unknown>({ ok, kind: error?.kind, line: error?.line, column: error?.column }).toEqual({ ok: false, kind: "signature", line, column });
    expect(error?.message).toMatch(words);
  });

  test("a missing column is named, with the list of existing columns", () => {
    expect(alone("def reward(completions, solution): return [1]", "reward", { answer: 1 }).fault).toMatchObject({
      kind: "exception",
      message: expect.stringMatching(/`solution`.*neither a column nor a parameter.*answer/),
    });
  });
});

describe("code that cannot be loaded", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["def reward(completions:\n    pass", "syntax", 1, 11, "'(' was never closed"],
    ["x = 1\ny = = 2", "syntax", 2, 5, "invalid syntax"],
    ["é = 'ü' 'ö' +", "syntax", 1, 14, "invalid syntax"],
    ["def f():\nreturn 1", "syntax", 2, 1, "expected an indented block after function definition on line 1"],
    ["x = 1\0", "syntax", null, null, "source code string cannot contain null bytes"],
    ["x = 1\ndef f():\n    return 1 / 0\nf()", "exception", 3, 12, "ZeroDivisionError: division by zero"],
    ["import numpy", "exception", 1, 1, "ModuleNotFoundError: No module named 'numpy' (only Python's standard library is there)"],
    ["raise SystemExit(3)", "exception", 1, 1, "SystemExit: 3"],
    ["import ast\nast.parse('x = = 1')", "exception", 2, 1, "SyntaxError: invalid syntax (<unknown>, line 1)"],
    ["def f(): f()\nf()", "exception", 1, 10, expect.stringContaining("RecursionError")],
    ["raise MemoryError", "memory", 1, 1, expect.stringContaining("ran out of memory")],
  ])("%j", (source, kind, line, column, message) => {
    expect<unknown>(python.load(source)).toEqual({ ok: false, error: { kind, line, column, message } });
  });

  test("code under `if __name__ == '__main__'` does not run", () => {
    expect(python.load("def reward(completion): return 1\nif __name__ == '__main__':\n    raise ValueError").ok).toBe(
      true,
    );
  });
});

describe("values", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["True", 1], ["2", 2], ["-0.5", -0.5], ["__import__('fractions').Fraction(1, 4)", 0.25], ["__import__('decimal').Decimal('1.5')", 1.5],
    ["type('N', (), {'__float__': lambda s: 2.5})()", 2.5],
    ["None", "none"], ["float('nan')", "not_finite"], ["float('inf')", "not_finite"], ["10 ** 400", "not_finite"],
    ["'1'", "not_a_number"], ["[1.0]", "not_a_number"], ["1j", "not_a_number"], ["object()", "not_a_number"],
    ["type('N', (), {'__float__': lambda s: 'x'})()", "exception"], ["type('N', (), {'__repr__': lambda s: 1 / 0})()", "not_a_number"],
    ["1 / 0", "exception"], ["exit(0)", "exception"], ["(_ for _ in ()).throw(KeyboardInterrupt)", "exception"],
    ["(_ for _ in ()).throw(MemoryError)", "memory"], ["(lambda f: f(f))(lambda f: f(f))", "exception"],
  ])("%s", (expression, expected) => {
    const { value, fault } = alone(`def reward(completion): return ${expression}`);
    expect<unknown>(value ?? fault?.kind).toBe(expected);
    expect(score(`def reward(completions): return [${expression.startsWith("(") || /1 \/ 0$|exit/.test(expression) ? 1 : expression}, 1]`)[1]).toBe(1);
  });

  test("a value that is not a number is shown in short form", () => {
    expect(alone("def reward(completion): return 'x' * 10000").fault?.message).toMatch(
      /^the function returned a str: 'x{10,40}\.\.\.x{10,40}'$/,
    );
  });

  test("an exception has the innermost line of the user's file and at most 2000 characters", () => {
    const { fault } = alone(
      "import json\ndef f(x):\n    return json.loads(x)\ndef reward(completion):\n    return f('{')",
    );
    expect(fault).toMatchObject({ kind: "exception", line: 3, message: expect.stringContaining("JSONDecodeError") });
    expect(alone("def reward(completion): raise ValueError('x' * 10000)").fault?.message).toHaveLength(2000);
    expect(
      alone("class E(Exception):\n    def __str__(self): raise E()\ndef reward(completion): raise E()").fault?.kind,
    ).toBe("exception");
  });
});

describe("batches", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["too few", "[1]", "wrong_length", /1 values for 2/],
    ["too many", "[1] * 5", "wrong_length", /5 values for 2/],
    ["a generator without end", "__import__('itertools').count()", "wrong_length", /more than 2 values/],
    ["a number", "3.0", "not_a_number", /a float: 3.0 and not a list of 2/],
    ["a text", "'ab'", "not_a_number", /a str: 'ab' and not a list/],
    ["a dict", "{1: 1, 2: 2}", "not_a_number", /a dict/],
    ["None", "None", "not_a_number", /NoneType/],
  ])("%s", (_name, expression, kind, words) => {
    python.load(`def reward(completions): return ${expression}`);
    python.begin(rows(2));
    const faults = python.batch().values?.map(({ fault }) => fault);
    expect<unknown>(faults?.map((f) => f?.kind)).toEqual([kind, kind]);
    expect(faults?.[0]?.message).toMatch(words);
  });

  test("a tuple and a generator are lists", () => {
    expect(score("def reward(completions): return (1, 2)")).toEqual([1, 2]);
    expect(score("def reward(completions): return (i for i in range(2))")).toEqual([0, 1]);
  });

  test("a field that one sample lacks does not affect the others", () => {
    expect(score("def reward(completions): return [None, 'x', float('nan'), 1.5]", rows(4))).toEqual([
      "none",
      "not_a_number",
      "not_finite",
      1.5,
    ]);
  });

  test("a batch that raises is reported, and each sample can then be tried with its own input", () => {
    python.load(
      "def reward(completions, answer):\n    completions.clear()\n    answer.pop()\n    raise ValueError('no')",
    );
    python.begin(rows(2));
    expect(python.batch()).toMatchObject({
      ok: false,
      error: { kind: "exception", line: 4, message: "ValueError: no" },
    });
    python.load(
      "def reward(completions):\n    if len(completions) > 1:\n        completions[0].clear()\n        raise ValueError\n    return [len(completions[0])]",
    );
    python.begin([{ completion: [{ role: "user" }] }, { completion: "ab" }]);
    expect(python.batch().ok).toBe(false);
    expect([python.one(0), python.one(1)]).toEqual([
      { ok: true, value: { value: 1 } },
      { ok: true, value: { value: 2 } },
    ]);
  });
});

describe("coroutines", () => {
  const A = "import asyncio\nasync def a(x):\n    await asyncio.sleep(0)\n    return x\n";
  // biome-ignore format: a table should look like one
  test.each([
    ["sleep and gather", `${A}async def reward(completion):\n    return sum(await asyncio.gather(a(1), a(2)))`, 3],
    ["tasks, timeouts and locks", `${A}async def reward(completion):\n    async with asyncio.timeout(5), asyncio.Lock():\n        return await asyncio.create_task(a(4))`, 4],
    ["asyncio.run in a function that is not async", `${A}def reward(completion):\n    return asyncio.run(a(5))`, 5],
    ["a loop of its own", `${A}def reward(completion):\n    return asyncio.new_event_loop().run_until_complete(a(6))`, 6],
    ["a function that returns a coroutine", `${A}def reward(completion):\n    return a(7)`, 7],
  ])("%s", (_name, source, expected) => {
    expect(alone(source).value).toBe(expected);
  });
  test("a batch function can be a coroutine too", () => {
    expect(
      score(
        `${A}async def reward(completions):\n    return await asyncio.gather(*(a(i) for i, _ in enumerate(completions)))`,
      ),
    ).toEqual([0, 1]);
  });
  test("waiting for an event that never comes is an exception, and the next call works", () => {
    const source = `${A}async def reward(completion):\n    if completion == 'c0':\n        await asyncio.get_running_loop().create_future()\n    return 1`;
    expect(score(source)).toEqual(["exception", 1]);
    python.begin(rows(1));
    expect(python.one(0).value?.fault?.message).toContain("can never finish");
  });
});

test("random is seeded at load", () => {
  const source = "import random\ndef reward(completions): return [random.random() for _ in completions]";
  const [first, again] = [score(source), score(source)];
  expect(first).toEqual(again);
  expect(python.score(source, rows(2), { seed: 2 })).not.toEqual(first);
});

test("a reply is JSON, even if the code replaces built-in functions", () => {
  expect(
    score(
      "import json, os\njson.dumps = lambda *a, **k: 'NaN'\njson.loads = os.read = os.write = None\ndef reward(completions): return [float('nan')] * 2",
    ).length,
  ).toBe(2);
});
