// tier: all (many jails)
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
    ["a tuple with names, a subclass of str, a number with a name", "from collections import namedtuple\nfrom enum import IntEnum\nP = namedtuple('P', 'x y')\nclass S(str): pass\nclass N(IntEnum):\n    ONE = 1\ndef f(): return [P(1, 2), S('a'), N.ONE]", ["assert f() == [(1, 2), 'a', 1]", "assert f()[0].y == 2"], 1],
    ["objects that the tests only look into", "class Node:\n    def __init__(self, v, n=None): self.v, self.n = v, n\ndef build(a):\n    return Node(a[0], build(a[1:])) if a else None\ndef turn(n, last=None):\n    while n: n.n, last, n = last, n, n.n\n    return last", ["r = turn(build([1, 2]))\nassert r.v == 2 and r.n.v == 1 and r.n.n is None"], 1],
    ["a class of the tests", "def turn(n, last=None):\n    while n: n.n, last, n = last, n, n.n\n    return last", ["class Node:\n    def __init__(self, v, n=None): self.v, self.n = v, n\n    def __eq__(self, o): return self.v == o.v\nassert turn(Node(1, Node(2))) == Node(2)"], 1],
    ["methods with two underscores", "class A:\n    __match_args__ = ('x',)\n    def __init__(self, x): self.x = x\n    def __getattr__(self, name): return name\n    def __get__(self, owner, kind=None): return 5\n    def __init_subclass__(cls, **k): super().__init_subclass__(**k)\n    def __radd__(self, o): return o\n    def __setattr__(self, k, v): object.__setattr__(self, k, v)\nclass B(A): pass\nclass C:\n    five = A(1)\ndef f(): return [B(3).__class__.__name__, B(3).__dict__, B(3).other, C().five]", ["assert f() == ['B', {'x': 3}, 'other', 5]"], 1],
    ["what is imported and not needed", "from __future__ import annotations\nimport os, sys, logging, warnings, unittest, traceback\nfrom contextlib import contextmanager\nwarnings.filterwarnings('ignore')\nlog = logging.getLogger(__name__)\ndef f(x: int) -> int:\n    log.info('called')\n    return x\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(1), 1)", ["assert f(1) == 1"], 1],
    ["functions of the library that read names", "from operator import attrgetter, itemgetter, methodcaller\nfrom functools import wraps\nfrom datetime import datetime\nclass P:\n    def __init__(self, x): self.x = x\ndef same(f):\n    @wraps(f)\n    def g(*a): return f(*a)\n    return g\n@same\ndef f(): return [p.x for p in sorted([P(2), P(1)], key=attrgetter('x'))], methodcaller('upper')('a'), datetime.strptime('2024-02-01', '%Y-%m-%d').month", ["assert f() == ([1, 2], 'A', 2)", "assert f.__name__ == 'f'"], 1],
    ["deep recursion, also through a cache", "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10 ** 6)\n@lru_cache(maxsize=None)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef g(n): return 0 if n == 0 else 1 + g(n - 1)", ["assert f(5000) == 5000", "assert g(20000) == 20000"], 1],
    ["a cache as deep as it may be by itself", "import functools\n@functools.cache\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)", ["assert f(900) == 900"], 1],
    ["a function with the name of a builtin", "def max(a, b): return a if a > b else b", ["assert max(1, 2) == 2"], 1],
    ["a variable with the name of a builtin", "list = [1, 2]\ndef f(): return tuple(list)", ["assert list(f()) == [1, 2]"], 1],
    ["eval of its own variables", "def f(x): return eval('x + 1')", ["assert f(1) == 2"], 1],
    ["no tests", "x = 1", [], "none"],
  ])("%s", (_name, code, tests, expected) => {
    expect(score(code, tests)).toBe(expected);
  });

  // biome-ignore format: a table should look like one
  test.each([
    ["input and print", "n = int(input('n? ') or 0)\nprint(n * 2)", [{ input: "4\n", output: "n? 8" }, { input: "5", output: "n? 11" }], 0.5],
    ["sys.stdin", "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(0)", [{ input: "4 5\n", output: "9  \n\n" }], 1],
    ["bytes and a main", "import sys\ndef main():\n    sys.stdout.write(sys.stdin.buffer.readline().decode().strip()[::-1])\nif __name__ == '__main__':\n    main()", [{ input: "abc\n", output: "cba" }], 1],
    ["threads, and a deep stack", "import sys, threading\nsys.setrecursionlimit(10 ** 6)\nthreading.stack_size(2 ** 25)\ndef main(): print(int(input()) + 1)\nt = threading.Thread(target=main)\nt.start()\nt.join()", [{"input": "1", "output": "2"}], 1],
    ["streams by number", "import os, io\ndata = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nos.write(1, data())", [{"input": "12\n", "output": "12"}], 1],
    ["open(0)", "print(len(open(0).read().split()))", [{"input": "a b c", "output": 3}], 1],
    ["lists of lines, and a nought", "print(int(input()) - int(input()))", [{"input": ["4", "4"], "output": 0}], 1],
    ["it ends with an error", "print(8)\nraise SystemExit(1)", [{ input: "", output: "8" }], 0],
  ])("programs: %s", (_name, code, tests, expected) => {
    expect(score(code, tests)).toBe(expected);
  });

  test("all or nothing, by parameter", () => {
    expect(score("def add(a, b): return 3", ADDS, { all: true })).toBe(0);
    expect(score("def add(a, b): return a + b", ADDS, { all: true })).toBe(1);
  });

  test("the last block with a definition is the code; without a block the whole completion is", () => {
    const completion = `${fence("def add(a, b): return 0")}${fence("def add(a, b): return a + b")}${fence("print(add(1, 2))")}`;
    const rows = [completion, "def add(a, b): return a + b", "I do not know."].map((c) => ({
      completion: c,
      tests: ADDS,
    }));
    expect(python.score(LIBRARY["code_tests"]!.source, rows)).toEqual([1, 1, 0]);
  });

  test("fences in all forms that models write are understood", () => {
    const code = "def add(a, b):\n    '''as in ```add(1, 2)```'''\n    return a + b\n";
    const indented = code.replaceAll(/^/gm, "   ");
    const rows = [
      `\`\`\`PYTHON\n${code}\`\`\``,
      `\`\`\`python title="add.py"\r\n${code.replaceAll("\n", "\r\n")}\`\`\`\r\nDone.`,
      `1. So:\n   \`\`\`py\n${indented}\n   \`\`\`\n`,
      "```python\ndef add(a, b): return a + b\n",
      "So: ```python\ndef add(a, b): return a + b``` That is it.",
    ].map((completion) => ({ completion, tests: ADDS }));
    expect(python.score(LIBRARY["code_tests"]!.source, rows)).toEqual([1, 1, 1, 1, 1]);
  });

  test("an invalid test is reported", () => {
    expect(() => score("x = 1", [{ stdin: "1", stdout: "2" }])).toThrow("a test has no output, but: stdin, stdout");
    expect(() => score("x = 1", [1])).toThrow("must have asserts");
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
    ["a container of the library with a liar in it", `${LIAR}from collections import UserList\ndef add(a, b):\n    u = UserList()\n    u.data = E()\n    return u`, ["assert add(1, 2) == [3]"]],
    ["a fraction with a liar in it", `${LIAR}from fractions import Fraction\ndef add(a, b):\n    f = Fraction(1)\n    f._numerator = E()\n    return f`, ["assert add(1, 2) == 3"]],
    ["a view of a liar", `${LIAR}def add(a, b): return {E(): 1}.keys()`, ["assert add(1, 2) == {3}"]],
    ["what stands for a liar", "class D(dict):\n    def __eq__(self, o): return True\ndef add(a, b): return type(vars(int))(D())", ["assert add(1, 2) == 3"]],
    ["a liar that is found among others", `${LIAR}def add(a, b): yield E()`, ["assert 3 in add(1, 2)"]],
    ["a class of the library that it changed", "from collections import Counter\nCounter.__eq__ = lambda a, b: True\ndef add(a, b): return Counter()", ["assert add(1, 2) == 3"]],
    ["a class that says it is another", "class M(type):\n    def __hash__(c): return hash(int)\n    def __eq__(c, o): return True\nclass X(metaclass=M):\n    def __eq__(self, o): return True\ndef add(a, b): return X()", ["assert add(1, 2) == 3"]],
    ["a liar given to a function of the library", `${LIAR}def add(a, b): return E()`, ["import operator\nassert operator.eq(add(1, 2), 3)"]],
    ["a set of its own beside what is tested", "def set(x): return 1\ndef f(a): return 0", ["assert set(f(1)) == set((3,))"]],
    ["a file", "open('/tmp/in.json')\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
    ["a file by io", "import io\nio.FileIO('/tmp/in.json')\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
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
    ["the same in a pattern", "match 1:\n    case object(__base__=c):\n        pass\ndef add(a, b): return 3", ["assert add(1, 2) == 3"]],
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

  test("code that cheats does not affect the next sample", () => {
    const spoil =
      "import math, json, random\nmath.gcd = None\njson.loads = None\nrandom.random = None\ndef add(a, b): return a + b";
    const honest = "import math\ndef add(a, b): return math.gcd(0, a + b)";
    const rows = [spoil, honest].map((code) => ({ completion: fence(code), tests: ADDS }));
    expect(python.score(LIBRARY["code_tests"]!.source, rows)).toEqual([1, 1]);
  });
});
