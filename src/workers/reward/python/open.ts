/**
 * CPython compiled to wasm (Pyodide), behind the gate. It starts from a memory image that already contains the usual
 * modules and the harness: 0.5 s instead of 5.
 */
import { loadPyodide } from "pyodide";
// precompiled bytecode would take 2 MB to save 15 ms
import modulePath from "pyodide/pyodide.asm.mjs" with { type: "file" };
import { MAX_FRAME_BYTES, STDOUT_BYTES } from "../../../lib/rewards/contract.ts";
import { type Interpreter, Violation } from "../interpreter.ts";
import { type Gate, gate, type Imports } from "./gate.ts";
import { type FileSystem, limitFiles } from "./memory_files.ts";

export type PythonFiles = { module: WebAssembly.Module; stdlib: Uint8Array };

const VERSION = "314.0.7"; // pinned in package.json: this file depends on internals of this release
const STDLIB_AT = "/lib/python314.zip";
const FILE_LIMITS = { bytes: 64 << 20, nodes: 20_000 };
const IN = "/tmp/in.json";
const OUT = "/tmp/out.json";

type Prepare = (module: Loaded) => Promise<void>;
type Loaded = {
  FS: FileSystem;
  stringToNewUTF8: (text: string) => number;
  _PyRun_SimpleString: (address: number) => number;
  addRunDependency: (name: string) => void;
  removeRunDependency: (name: string) => void;
};
type Settings = {
  preRun: (Prepare | undefined)[];
  instantiateWasm: (imports: Imports, receive: (...parts: unknown[]) => void) => object;
};
type Options = PythonFiles & {
  maxHeapBytes: number;
  onPrint: (bytes: Uint8Array) => void;
  /** An image to start from, or "make" to prepare for making one. */
  image: Uint8Array | "make";
};

export type Python = { module: Loaded; gate: Gate; makeImage: () => Uint8Array; run: (source: string) => void };

export async function loadPython(options: Options): Promise<Python> {
  let locking: Gate | undefined;
  const { default: createModule }: { default: (settings: Settings) => Promise<unknown> } = await import(modulePath);
  const create = (settings: Settings) => {
    settings.preRun[0] = placing(options.stdlib, settings.preRun[0]);
    settings.instantiateWasm = (imports, receive) => {
      markErrors(imports);
      locking = gate(imports, options.maxHeapBytes);
      void WebAssembly.instantiate(options.module, imports as WebAssembly.Imports).then((instance) =>
        receive(instance, options.module),
      );
      return {};
    };
    return createModule(settings);
  };
  // The package fetches its wasm file by itself unless this name exists.
  (globalThis as { WasmOffsetConverter?: true }).WasmOffsetConverter = true;
  const python = await loadPyodide({
    indexURL: "/",
    stdLibURL: "/dev/null",
    createPyodideModule: create,
    lockFileContents: {
      info: { arch: "wasm32", platform: "emscripten_5_0_3", version: VERSION, python: "3.14.2", abi_version: "2026_0" },
      packages: {},
    },
    // otherwise `_` is a path of the machine that made the image
    env: { HOME: "/tmp", PYTHONHASHSEED: "0", _: "python" },
    jsglobals: Object.create(null),
    stdin: () => null,
    ...(options.image === "make" ? { _makeSnapshot: true } : { _loadSnapshot: options.image }),
  } as unknown as Parameters<typeof loadPyodide>[0]);
  const writer = {
    write(bytes: Uint8Array) {
      options.onPrint(bytes);
      return bytes.byteLength;
    },
    isatty: false,
  };
  python.setStdin({ stdin: () => null });
  python.setStdout(writer);
  python.setStderr(writer);
  if (!locking) throw new Error("Python started without its gate");
  return {
    module: (python as unknown as { _module: Loaded })._module,
    gate: locking,
    makeImage: () => (python as unknown as { makeMemorySnapshot: () => Uint8Array }).makeMemorySnapshot(),
    run: (source) => void python.runPython(source),
  };
}

/** The package reads the library from a path. These bytes replace the empty file that it read. */
const placing =
  (stdlib: Uint8Array, prepare: Prepare | undefined): Prepare =>
  async (module) => {
    module.addRunDependency("library");
    await prepare?.(module);
    module.FS.writeFile(STDLIB_AT, stdlib);
    module.removeRunDependency("library");
  };

/** Two functions that the module expects from its loader: a marker for an error, and its test. */
function markErrors(imports: Imports) {
  const mark = Symbol("error");
  const { env } = imports;
  if (!env) throw new Error("The Python module has no imports");
  env["Jsv_GetError_import"] = () => mark;
  env["JsvError_Check"] = (value: unknown) => (value === mark ? 1 : 0);
}

/** Only removes confusing modules; the gate is the protection. */
const TIDY = `import sys
for _name in ("js", "pyodide_js", "pyodide", "pyodide.ffi", "pyodide.code", "_pyodide_core", "_pyodide"):
    sys.modules[_name] = None
del _name`;
const STEP = "_verk.step()";

/** Devices that read and write this process's own input and output, which carry the frames. No other can be made. */
const TERMINALS = ["/dev/tty", "/dev/tty1"];

type Image = PythonFiles & { image: Uint8Array };

/** Collects printed output in one object, even if the interpreter is renewed. */
function createPrints() {
  let chunks: Uint8Array[] = [];
  let kept = 0;
  let bytes = 0;
  return {
    push(chunk: Uint8Array) {
      const room = STDOUT_BYTES - kept;
      if (room > 0) {
        chunks.push(chunk.slice(0, room)); // copied, because the module's memory changes
        kept += Math.min(room, chunk.byteLength);
      }
      bytes += chunk.byteLength;
    },
    take() {
      const stdout = new TextDecoder().decode(Buffer.concat(chunks)).slice(0, STDOUT_BYTES);
      const printed = { stdout, stdout_bytes: bytes };
      chunks = [];
      kept = 0;
      bytes = 0;
      return printed;
    },
  };
}

export async function openPython(
  files: Image,
  maxHeapBytes: number,
  prints: ReturnType<typeof createPrints> = createPrints(),
): Promise<Interpreter> {
  const onPrint = prints.push;
  const python = await loadPython({ ...files, maxHeapBytes, onPrint });
  python.run(TIDY);
  const { FS } = python.module;
  const unlimited = limitFiles(FS, FILE_LIMITS);
  const step = python.module.stringToNewUTF8(STEP);
  for (const path of TERMINALS) FS.unlink(path);
  python.gate.lock();
  return {
    exchange(request) {
      try {
        unlimited(() => {
          FS.writeFile(IN, JSON.stringify(request));
          FS.writeFile(OUT, ""); // otherwise a missing answer would repeat the last one
        });
        python.module._PyRun_SimpleString(step);
        if (FS.stat(OUT).size > MAX_FRAME_BYTES)
          throw new Violation("The answer of the reward code is larger than 1 MiB");
        return JSON.parse(new TextDecoder().decode(FS.readFile(OUT)));
      } catch (error) {
        throw error instanceof Violation ? error : new Violation(`Python ended without an answer: ${words(error)}`);
      }
    },
    printed: prints.take,
    renewed: () => openPython(files, maxHeapBytes, prints),
  };
}

const words = (error: unknown) => {
  const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
  return String(message || name || error).slice(0, 300);
};
