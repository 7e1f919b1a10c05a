/**
 * bun scripts/bundle/python_image.ts OUT_DIR: builds the image from which the reward process starts Python. The
 * interpreter that will read it compiles the standard library, loads the harness and writes its memory to a file. The
 * library is not compressed here, because the executable compresses it better.
 */
import nodeCrypto from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadPython } from "../../src/workers/reward/python/open.ts";
import { harnessOf } from "./python.ts";

const root = join(import.meta.dir, "../..");
const out = process.argv[2] ?? "";
const modules = join(root, "node_modules/pyodide");
const wasm = readFileSync(join(modules, "pyodide.asm.wasm"));
const module = await WebAssembly.compile(wasm);
const heap = { maxHeapBytes: 1 << 30, onPrint: (bytes: Uint8Array) => void process.stderr.write(bytes) };

// The same build gives the same image: it contains no time and no random value. A job seeds `random` again.
// The interpreter would also keep the path of this script.
process.argv[1] = "verk";
Date.now = () => 0;
performance.now = () => 0;
Object.assign(nodeCrypto, { randomFillSync: (view: Uint8Array) => view.fill(1) });

/** Modules that need a screen, a network server, another process or a database: which a reward cannot have. */
const LEFT_OUT = [
  ...["ensurepip/", "idlelib/", "tkinter/", "turtledemo/", "turtle.py", "lib2to3/", "pydoc_data/", "test/", "venv/"],
  ...["xmlrpc/", "wsgiref/", "curses/", "dbm/", "http/server", "pyodide/http", "multiprocessing/", "sqlite3/"],
];
const COMPILE = `
import importlib._bootstrap_external, importlib.util, zipfile
_left_out = ${JSON.stringify(LEFT_OUT)}
_source = zipfile.ZipFile("/lib/python314.zip")
with zipfile.ZipFile("/compiled.zip", "w") as _target:
    for _entry in sorted(_source.infolist(), key=lambda entry: entry.filename):
        _name = _entry.filename
        if _entry.is_dir() or any(_name.startswith(prefix) for prefix in _left_out):
            continue
        _content = _source.read(_entry)
        if _name.endswith(".py"):
            _code = compile(_content, "/lib/python314.zip/" + _name, "exec", dont_inherit=True)
            _content = importlib._bootstrap_external._code_to_hash_pyc(_code, importlib.util.source_hash(_content), False)
            _name += "c"
        _target.writestr(zipfile.ZipInfo(_name, (2020, 1, 1, 0, 0, 0)), _content)
`;

const compiler = await loadPython({
  ...heap,
  module,
  stdlib: readFileSync(join(modules, "python_stdlib.zip")),
  image: "make",
});
compiler.run(COMPILE);
const stdlib = compiler.module.FS.readFile("/compiled.zip").slice();

const python = await loadPython({ ...heap, module, stdlib, image: "make" });
python.run(harnessOf(root));
mkdirSync(out, { recursive: true });
writeFileSync(join(out, "python.wasm"), wasm);
writeFileSync(join(out, "stdlib.zip"), stdlib);
writeFileSync(join(out, "image.bin"), python.makeImage());
process.exit(0);
