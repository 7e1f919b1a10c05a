/** Hostile Python that tries to reach the host. */
import { type Attack, reward, scores, won } from "./attacks_kit.ts";

/** `{secret}`, a file anyone may read; `{marker}`, one that must not appear; `{token}`, in the server's environment. */
export const HOST_ATTACKS: Attack[] = [
  { name: "reading a host file", source: reward("open('{secret}').read()", won), samples: ["exception"], shares: true },
  {
    name: "reading /etc/passwd",
    source: reward("open('/etc/passwd').read()", won),
    samples: ["exception"],
    shares: true,
  },
  {
    name: "the environment",
    source: reward("import os", "if '{token}' in str(dict(os.environ)):", `    ${won}`, scores),
    samples: ["score"],
    shares: true,
  },
  {
    name: "where the host's program was made",
    source: reward("import os", "if any('.ts' in value for value in os.environ.values()):", `    ${won}`, scores),
    samples: ["score"],
    shares: true,
  },
  {
    name: "writing a host file",
    source: reward(
      "import os",
      "os.makedirs(os.path.dirname('{marker}'), exist_ok=True)",
      "open('{marker}', 'w').write('x')",
      scores,
    ),
    samples: ["score"],
    shares: true,
  },
  {
    name: "socket",
    source: reward("import socket", "socket.create_connection(('127.0.0.1', {port}), 1)", won),
    samples: ["exception", "crashed"],
    shares: true,
  },
  {
    name: "urlopen",
    source: reward("import urllib.request", "urllib.request.urlopen('http://127.0.0.1:{port}')", won),
    samples: ["exception", "crashed"],
    shares: true,
  },
  { name: "import js", source: reward("import js", "js.process", won), samples: ["exception"], shares: true },
  {
    name: "run_js",
    source: reward("from pyodide.code import run_js", "run_js('process.pid')", won),
    samples: ["exception"],
    shares: true,
  },
  {
    name: "js with the blocks undone",
    source: reward(
      "import sys",
      "[sys.modules.pop(n) for n in list(sys.modules) if sys.modules[n] is None]",
      "import js",
      "js.process.pid",
      won,
    ),
    samples: ["exception", "crashed"],
  },
  {
    name: "constructor of a converted object",
    source: reward(
      "import sys",
      "[sys.modules.pop(n) for n in list(sys.modules) if sys.modules[n] is None]",
      "from pyodide.ffi import to_js",
      "to_js([1]).constructor.constructor('return process.pid')()",
      won,
    ),
    samples: ["exception", "crashed"],
  },
  {
    name: "JsProxy hunting through gc",
    source: reward(
      "import gc",
      "found = [x for x in gc.get_objects() if 'JsProxy' in type(x).__name__ and not isinstance(x, type)]",
      "for x in found:",
      "    x.constructor.constructor('return process')().exit(0)",
      `    ${won}`,
      scores,
    ),
    samples: ["score", "exception", "crashed"],
    shares: true,
  },
  {
    name: "mounting the host's files",
    source: reward(
      "import sys",
      "[sys.modules.pop(n) for n in list(sys.modules) if sys.modules[n] is None]",
      "import pyodide_js",
      "pyodide_js.mountNodeFS('/host', '/')",
      "open('/host{secret}').read()",
      won,
    ),
    samples: ["exception", "crashed"],
  },
  {
    name: "ctypes",
    source: reward("import ctypes", "ctypes.CDLL(None).emscripten_run_script_int(b'process.pid')", won),
    samples: ["exception", "crashed"],
  },
  {
    name: "ctypes scribbles over its memory",
    source: reward("import ctypes", "ctypes.memset(0, 65, 1 << 24)", scores),
    samples: ["score", "exception", "crashed", "memory", "timeout"],
  },
  {
    name: "a function pointer out of the air",
    source: reward("import ctypes", "ctypes.CFUNCTYPE(None)(12345)()", scores),
    samples: ["score", "exception", "crashed"],
  },
  {
    name: "dlopen",
    source: reward("import ctypes", "ctypes.CDLL('/tmp/x.so')", won),
    samples: ["exception", "crashed"],
    shares: true,
  },
  {
    name: "every import of the module, by its address",
    source: reward(
      "import ctypes",
      "for name in ('emscripten_run_script', 'emscripten_run_script_int', 'emscripten_run_script_string', 'system', 'popen', 'execve', 'fork', 'socket'):",
      "    try: ctypes.pythonapi[name]",
      "    except Exception: continue",
      "    ctypes.pythonapi[name](b'process.exit(0)', 0, 0)",
      scores,
    ),
    samples: ["score", "exception", "crashed"],
  },
];
