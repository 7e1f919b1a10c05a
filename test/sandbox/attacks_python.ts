/** Hostile reward code in Python. Where an attack could win something of the host, winning is a reward of 666. */
import { type Attack, reward, scores, won } from "./attacks_kit.ts";
import { HOST_ATTACKS } from "./attacks_python_host.ts";

const time: Attack[] = [
  { name: "infinite loop", source: reward("while True: pass"), samples: ["timeout"] },
  { name: "infinite loop at import", source: "while True: pass", rejected: ["timeout"] },
  {
    name: "swallowed interrupts",
    source: reward("while True:", "    try:", "        while True: pass", "    except BaseException: pass"),
    samples: ["timeout"],
  },
  {
    name: "catastrophic regex",
    source: `import re\n${reward("return [float(bool(re.match(r'(a+)+$', 'a' * 40 + 'b'))) for _ in completions]")}`,
    samples: ["timeout"],
  },
  {
    name: "9**9**8",
    source: reward("return [float(len(str(9**9**8))) for _ in completions]"),
    samples: ["timeout", "exception", "memory"],
  },
  { name: "sleep", source: `import time\n${reward("time.sleep(1e6)")}`, samples: ["timeout"] },
  { name: "infinite generator", source: reward("return iter(int, 1)"), samples: ["wrong_length"], shares: true },
];

const memory: Attack[] = [
  { name: "memory bomb, list", source: reward("x = [0] * 10", "while True: x += x"), samples: ["memory"] },
  {
    name: "memory bomb, bytes",
    source: reward("x = []", "while True: x.append(bytearray(10 << 20))"),
    samples: ["memory"],
  },
  {
    name: "caught MemoryError loop",
    source: reward("x = []", "while True:", "    try: x.append(bytearray(10 << 20))", "    except MemoryError: pass"),
    samples: ["timeout"],
  },
  {
    name: "in-memory file bomb",
    source: reward("f = open('/tmp/x', 'wb')", "while True: f.write(b'a' * (1 << 20))"),
    samples: ["exception", "memory"],
  },
  {
    name: "many files",
    source: reward("i = 0", "while True:", "    open('/tmp/f%d' % i, 'w').write('x'); i += 1"),
    samples: ["exception", "timeout"],
  },
  {
    name: "many large files",
    source: reward("i = 0", "while True:", "    open('/tmp/f%d' % i, 'wb').write(b'x' * (4 << 20)); i += 1"),
    samples: ["exception"],
  },
  {
    name: "symlink bomb",
    source: reward("import os", "i = 0", "while True: os.symlink('a' * 4000, '/tmp/l%d' % i); i += 1"),
    samples: ["exception"],
  },
  { name: "pipe bomb", source: reward("import os", "while True: os.pipe()"), samples: ["exception"] },
  {
    name: "deep recursion",
    source: `import sys\nsys.setrecursionlimit(10**9)\n${reward("f = lambda n: f(n + 1) + 1", "return f(0)")}`,
    samples: ["exception", "crashed", "memory", "timeout"],
  },
  {
    name: "deep JSON",
    source: `import json\n${reward("return [float(len(json.loads('[' * 100000 + ']' * 100000)))]")}`,
    samples: ["exception", "crashed", "memory"],
  },
  {
    name: "syntax bomb",
    source: `x = ${"(".repeat(5000)}${")".repeat(5000)}`,
    rejected: ["syntax", "memory", "crashed", "exception"],
  },
];

const processes: Attack[] = [
  { name: "fork", source: reward("import os", "os.fork()", won), samples: ["exception"], shares: true },
  {
    name: "threads",
    source: reward("import threading", "while True: threading.Thread(target=print).start()"),
    samples: ["exception"],
  },
  {
    name: "os.system",
    source: reward("import os", "if os.system('true') == 0:", `    ${won}`, scores),
    samples: ["score", "exception"],
    shares: true,
  },
  {
    name: "subprocess",
    source: reward("import subprocess", "subprocess.run(['id'])", won),
    samples: ["exception"],
    shares: true,
  },
  { name: "os._exit", source: reward("import os", "os._exit(0)"), samples: ["crashed"] },
  { name: "os.abort", source: reward("import os", "os.abort()"), samples: ["crashed"] },
  {
    name: "os.kill of the parent",
    source: reward("import os", "os.kill(os.getppid(), 9)", scores),
    samples: ["exception", "crashed", "score"],
  },
];

const lies: Attack[] = [
  { name: "NaN", source: reward("return [float('nan')] * len(completions)"), samples: ["not_finite"], shares: true },
  {
    name: "infinity",
    source: reward("return [float('inf')] * len(completions)"),
    samples: ["not_finite"],
    shares: true,
  },
  { name: "wrong length", source: reward("return [0.5]"), samples: ["wrong_length"] },
  {
    name: "not a number",
    source: reward("return ['much'] * len(completions)"),
    samples: ["not_a_number"],
    shares: true,
  },
  { name: "exception", source: reward("raise RuntimeError('no')"), samples: ["exception"], shares: true },
  { name: "SystemExit", source: reward("raise SystemExit(0)"), samples: ["exception"], shares: true },
  { name: "KeyboardInterrupt", source: reward("raise KeyboardInterrupt"), samples: ["exception"], shares: true },
  {
    name: "forged reply that is not finite",
    source: reward(
      "import json, __main__",
      `forged = '{"ok": true, "values": [' + ', '.join(['{"value": 1e999}'] * len(completions)) + ']}'`,
      "def step():",
      "    with open('/tmp/out.json', 'w') as f: f.write(forged)",
      "__main__._verk.step = step",
      "step()",
      "import os",
      "raise SystemExit",
    ),
    samples: ["exception", "crashed"],
  },
  {
    name: "forged reply of the wrong shape",
    source: reward(
      "import __main__",
      "def step():",
      `    with open('/tmp/out.json', 'w') as f: f.write('{"ok": true, "values": "many", "nonce": "0"}')`,
      "__main__._verk.step = step",
      "raise ValueError",
    ),
    samples: ["crashed", "exception"],
  },
  {
    name: "replayed reply",
    source: reward("import __main__", "__main__._verk.step = lambda: None", "raise ValueError"),
    samples: ["crashed", "exception"],
  },
  {
    name: "reply that is a link",
    source: reward(
      "import os, __main__",
      "def step():",
      "    os.symlink('/dev/urandom', '/tmp/out.json')",
      "__main__._verk.step = step",
      "raise ValueError",
    ),
    samples: ["crashed", "exception"],
  },
  {
    name: "writing to the terminal of the host, where the frames are",
    source: reward("import os", "os.write(os.open('/dev/tty', os.O_WRONLY), b'x\\n')", won),
    samples: ["exception"],
    shares: true,
  },
  {
    name: "reading from the terminal of the host",
    source: reward("open('/dev/tty', 'rb', 0).read(1)", won),
    samples: ["exception"],
    shares: true,
  },
  {
    name: "writing to the host's errors",
    source: reward("import os", "os.write(os.open('/dev/tty1', os.O_WRONLY), b'x\\n')", won),
    samples: ["exception"],
    shares: true,
  },
  {
    name: "oversized reply",
    source: reward(
      "import __main__",
      "def step():",
      "    with open('/tmp/out.json', 'w') as f: f.write('[' + '1,' * 3000000 + '1]')",
      "__main__._verk.step = step",
      "raise ValueError",
    ),
    samples: ["crashed", "exception"],
  },
  { name: "oversized error", source: reward("raise ValueError('x' * 10**7)"), samples: ["exception"], shares: true },
  {
    name: "flood of prints",
    source: reward("for i in range(2000): print('x' * 100000)", scores),
    samples: ["score", "timeout"],
  },
];

export const PYTHON_ATTACKS: Attack[] = [...time, ...memory, ...processes, ...lies, ...HOST_ATTACKS];
