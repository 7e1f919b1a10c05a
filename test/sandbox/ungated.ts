/** The program of ungated.test.ts: `ungated SOURCE` runs Python without the gate that locks imports. */
import { readAsset } from "../../src/native/bundle/assets.ts";
import { loadPython } from "../../src/workers/reward/python/open.ts";

const python = await loadPython({
  module: await WebAssembly.compile(readAsset("python", "python.wasm")),
  stdlib: readAsset("python", "stdlib.zip"),
  image: readAsset("python", "image.bin"),
  maxHeapBytes: 256 << 20,
  onPrint: (bytes) => void process.stdout.write(bytes),
});
if (process.argv[2] === "locked") python.gate.lock();
const { module } = python;
module._PyRun_SimpleString(module.stringToNewUTF8(process.argv[3] ?? ""));
process.exit(0);
