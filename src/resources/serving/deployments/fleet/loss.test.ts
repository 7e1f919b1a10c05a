import { expect, test } from "bun:test";
import { explainLoss } from "./loss.ts";

const exit = { kind: "crashed", message: "", tail: "", stderrBytes: 0, code: 1, signal: null, forced: false };

test("S1 permanent fault: the worker's message alone, without its stack", () => {
  const message = "Worker serving failed: m.gguf cannot be loaded: unknown model architecture: 'x'";
  const tail =
    "WorkerError: m.gguf cannot be loaded: unknown model architecture: 'x'\n    at open (/$bunfs/root/verk:1:2)\n";
  expect(explainLoss({ ...exit, kind: "data", message, tail }, "/data")).toEqual({
    error: "m.gguf cannot be loaded: unknown model architecture: 'x'",
    canRetry: false,
  });
});

test("S1 crash: the worker's output stays, without its stack and without paths of this machine", () => {
  const message = "Worker serving died of SIGABRT";
  const tail =
    "GGML_ASSERT(ne0 > 0) failed in /data/models/.given/wrk_1/0/m.gguf\n    at turn (/$bunfs/root/verk:1:2)\n";
  expect(explainLoss({ ...exit, message, tail }, "/data")).toEqual({
    error: "Worker serving died of SIGABRT\nGGML_ASSERT(ne0 > 0) failed in m.gguf",
    canRetry: true,
  });
});

test("S1 crash: an error that the worker reports is shown once", () => {
  const message = "Worker serving failed: There is no memory";
  const tail = "Error: There is no memory\n    at open (/$bunfs/root/verk:1:2)\n";
  expect(explainLoss({ ...exit, message, tail }, "/data")).toEqual({ error: message, canRetry: true });
});
