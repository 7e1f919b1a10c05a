/** code_tests: honest code gets its share, code that cheats does not. */
import { beforeAll, describe, expect, test } from "bun:test";
import { LIBRARY } from "../../src/lib/rewards/library.ts";
import { openPlainPython, type Row } from "./plain_python.ts";

let python: Awaited<ReturnType<typeof openPlainPython>>;
beforeAll(async () => {
  python = await openPlainPython();
}, 60_000);

const ADDS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0"];
const fence = (code: string) => `Here it is:\n\`\`\`python\n${code}\n\`\`\`\nDone.`;
const score = (code: string, tests: unknown = ADDS, params: Row = {}) =>
  python.score(LIBRARY["code_tests"]!.source, [{ completion: fence(code), tests }], {
    params: { seconds: 0.2, ...params },
  })[0];

describe("honest code", () => {
  // biome-ignore format: a table should look like one
  test.each([
    ["all tests pass", "def add(a, b):\n    return a + b", ADDS, 1],
    ["half of them pass", "def add(a, b):\n    return 3", ADDS, 0.5],
    ["a text of asserts", "def add(a, b): return a + b", "x = 2\nassert add(1, x) == 3\nassert add(x, x) == 5", 0.5],
    ["a check function is one test", "def f(x): return x", "def check(c):\n    assert c(1) == 1\n    assert c(2) == 2\ncheck(f)", 1],
    ["tests as JSON text", "def add(a, b): return a + b", JSON.stringify(ADDS), 1],
    ["imports, decorators, classes", "import functools, collections\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n@functools.lru_cache\ndef f(n):\n    return P(n)", ["assert f(2) == P(2)", "assert P(1) != P(2)", "assert P(3).x == 3"], 1],
    ["operators of its own class", "class V:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return V(self.x + o.x)\n    def __eq__(self, o): return self.x == o.x", ["assert V(1) + V(2) == V(3)", "assert V(1) == V(2)"], 0.5],
    ["floats that are near", "def f(x): return x / 3", ["assert abs(f(1) - 0.3333333) < 1e-6", "import math\nassert math.isclose(f(3), 1.0)"], 1],
    ["generators and collections", "from collections import Counter\ndef g():\n    yield from [1, 2]\ndef c(s): return Counter(s)", ["assert list(g()) == [1, 2]", "assert c('aab') == {'a': 2, 'b': 1}", "assert sum(x for x in g()) == 3"], 1],
    ["an exception that is expected", "def f(x):\n    raise ValueError(x)", ["try:\n    f(1)\n    ok = False\nexcept ValueError:\n    ok = True\nassert ok"], 1],
    ["recursion", "def fact(n): return 1 if n < 2 else n * fact(n - 1)", ["assert fact(20) == 2432902008176640000"], 1],
    ["names that look like others", "def co_prime(a, b):\n    import math\n    return math.gcd(a, b) == 1", ["assert co_prime(3, 4)"], 1],
    ["no tests", "x = 1", [], "none"],
  ])("%s", (_name, code, tests, expected) => {
    expect(score(code, tests)).toBe(expected);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["input and print", "n = int(input('n? ') or 0)\nprint(n * 2)", [{ input: "4\n", output: "n? 8" }, { input: "5", output: "n? 11" }], 0.5],
    ["sys.stdin", "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(0)", [{ input: "4 5\n", output: "9  \n\n" }], 1],
    ["bytes and a main", "import sys\ndef main():\n    sys.stdout.write(sys.stdin.buffer.readline().decode().strip()[::-1])\nif __name__ == '__main__':\n    main()", [{ input: "abc\n", output: "cba" }], 1],
    ["it ends with an error", "print(8)\nraise SystemExit(1)", [{ input: "", output: "8" }], 0],
  ])("programs: %s", (_name, code, tests, expected) => {
    expect(score(code, tests)).toBe(expected);
  });

  test("all or nothing, by parameter", () => {
    expect(score("def add(a, b): return 3", ADDS, { all: true })).toBe(0);
    expect(score("def add(a, b): return a + b", ADDS, { all: true })).toBe(1);
  });

  test("the last block that defines something is the code, and a completion without a block is", () => {
    const completion = `${fence("def add(a, b): return 0")}${fence("def add(a, b): return a + b")}${fence("print(add(1, 2))")}`;
    const rows = [completion, "def add(a, b): return a + b", "I do not know."].map((c) => ({
      completion: c,
      tests: ADDS,
    }));
    expect(python.score(LIBRARY["code_tests"]!.source, rows)).toEqual([1, 1, 0]);
  });
});

describe("code that cheats gains nothing", () => {
  const LIAR =
    "class E:\n    def __eq__(self, o): return True\n    def __hash__(self): return 3\n    def __sub__(self, o): return 0.0\n    def __abs__(self): return 0.0\n    def __lt__(self, o): return True\n    def __bool__(self): return True\n";
  // biome-ignore format: a table should look like one
  test.each([
    ["an object that equals everything", `${LIAR}def add(a, b): return E()`, ADDS],
    ["the same inside a list", `${LIAR}def add(a, b): return [E()]`, ["assert add(1, 2) == [3]"]],
    ["the same inside a deque", `${LIAR}from collections import deque\ndef add(a, b): return deque([E()])`, ["from collections import deque\nassert add(1, 2) == deque([3])"]],
    ["the same as a key", `${LIAR}def add(a, b): return {E(): 1}`, ["assert add(1, 2) == {3: 1}"]],
    ["a number that is near to everything", `${LIAR}def add(a, b): return E()`, ["assert abs(add(1, 2) - 3.0) < 1e-6"]],
    ["a subclass of int", "class I(int):\n    def __eq__(self, o): return True\ndef add(a, b): return I(0)", ["assert add(1, 2) == 3"]],
    ["a type made by type()", "def add(a, b): return type('I', (int,), {'__eq__': lambda s, o: True})(0)", ["assert add(1, 2) == 3"]],
    ["a variable instead of a function", `${LIAR}RESULT = E()`, ["assert RESULT == 3", "assert RESULT - 3 == 0"]],
    ["a builtin of its own", "abs = lambda x: 0\ndef f(x): return 5.0", ["assert abs(f(2) - 1.0) < 1e-6"]],
    ["another len through builtins", "import builtins\nbuiltins.len = lambda x: 3\ndef f(): return []", ["assert len(f()) == 3"]],
    ["another len through globals", "globals()['__builtins__']['len'] = lambda x: 3\ndef f(): return []", ["assert len(f()) == 3"]],
    ["another AssertionError", "class AssertionError(Exception): pass\ndef add(a, b): return 0", ["assert add(1, 2) == 3"]],
    ["the end of the process", "import os\nos._exit(0)", ADDS],
    ["an exit at the call", "def add(a, b): raise SystemExit(0)", ADDS],
    ["an exit at the start", "exit(0)", ADDS],
    ["the judge's frames by a traceback", "def add(a, b):\n    try:\n        1 / 0\n    except Exception as e:\n        return e.__traceback__.tb_frame.f_back.f_locals", ADDS],
    ["the same by getattr and parts of names", "def add(a, b):\n    try:\n        1 / 0\n    except Exception as e:\n        t = getattr(e, '__trace' + 'back__')\n        return 3", ["assert add(1, 2) == 3"]],
    ["the judge's frames by sys", "import sys\nsys._getframe(1).f_locals.clear()", ADDS],
    ["the harness", "import __main__\n__main__._verk = None", ADDS],
    ["the harness by a name in parts", "m = __import__('__ma' + 'in__')\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["all objects", "import gc\ngc.get_objects()", ADDS],
    ["a class's subclasses", "x = ().__class__.__base__.__subclasses__()\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["the same in eval", "x = eval('()._' + '_class__._' + '_base__')\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["the same in a pattern", "match 1:\n    case object(__class__=c):\n        pass\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["the code of a module's functions", "import random\nx = random.choice.__globals__\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["a module behind a module", "import random\nx = random._os\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["a loop without end", "def add(a, b):\n    while True: pass", ADDS],
    ["a loop at the start", "while True: pass", ADDS],
    ["a loop that swallows its end", "def add(a, b):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass", ADDS],
    ["a result after its end", "def add(a, b):\n    try:\n        while True: pass\n    except BaseException:\n        return a + b", ADDS],
    ["recursion without end", "def add(a, b): return add(a, b)", ADDS],
    ["no code", "def add(a, b:", ADDS],
    ["a result printed by the program", "print('passed')", [{ input: "", output: "8" }]],
    ["output without end", "while True: print('x' * 1000)", [{ input: "", output: "8" }]],
  ])("%s", (_name, code, tests) => {
    expect(score(code, tests)).toBe(0);
  });

  test("nor does it spoil the next sample", () => {
    const spoil =
      "import math, json, random\nmath.gcd = None\njson.loads = None\nrandom.random = None\ndef add(a, b): return a + b";
    const honest = "import math\ndef add(a, b): return math.gcd(0, a + b)";
    const rows = [spoil, honest].map((code) => ({ completion: fence(code), tests: ADDS }));
    expect(python.score(LIBRARY["code_tests"]!.source, rows)).toEqual([1, 1]);
  });
});
