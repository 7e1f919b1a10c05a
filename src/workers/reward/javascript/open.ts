/**
 * Runs JavaScript and TypeScript in QuickJS in WebAssembly: no files, network, modules or timers inside.
 * `openJavaScript` loads everything; afterwards nothing is read, so that the process can be locked. Not covered:
 * QuickJS's own natives (a regular expression, a large multiplication) cannot be interrupted. The parent kills the
 * process at its deadline.
 */

import variant from "@jitl/quickjs-singlefile-mjs-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
} from "quickjs-emscripten-core";
import { errorText } from "../../../lib/error_text.ts";
import { STDOUT_BYTES } from "../../../lib/rewards/contract.ts";
import { type HarnessRequest, type Interpreter, Violation } from "../interpreter.ts";
import { explained } from "./explain.ts";
import { harness } from "./harness.ts";
import { loadCode } from "./load.ts";
import { type LocationOf, openPreparer } from "./source.ts";
import { ask, innermost, runJobs, type Vm } from "./vm.ts";

const PAGE_BYTES = 65_536;
const INITIAL_PAGES = 256; // fixed when the module was built
/** With 256 KiB and more, code that recurses through natives can fill the host's stack first: then the engine is lost. */
const STACK_BYTES = 192 * 1024;
const LONGEST_MS = 3_600_000; // the parent's deadline is much earlier

export async function openJavaScript(limits: { memoryBytes: number }): Promise<Interpreter> {
  // The engine's own limit counts only a part of its memory: eight times as much was used before it took effect.
  const maximum = Math.max(INITIAL_PAGES, Math.floor(limits.memoryBytes / PAGE_BYTES));
  const wasmMemory = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum });
  const quickjs = await newQuickJSWASMModuleFromVariant(newVariant(variant, { wasmMemory }));
  const runtime = quickjs.newRuntime();
  runtime.setMemoryLimit(limits.memoryBytes);
  runtime.setMaxStackSize(STACK_BYTES);
  let deadline = Number.POSITIVE_INFINITY;
  runtime.setInterruptHandler(() => performance.now() > deadline);
  const context = runtime.newContext();
  const output = capture();
  const vm = { context, runtime, inside: openInside(context, output.write) };
  const prepare = openPreparer();
  let code: Code = { source: "", locationOf: (place) => place };

  const exchange = (request: HarnessRequest): unknown => {
    deadline = performance.now() + LONGEST_MS;
    if (request.op !== "load") return locateFault(answer(vm, JSON.stringify(request)), code);
    const prepared = prepare(request.source, request.language === "python" ? undefined : request.language);
    if (!prepared.ok) return prepared;
    code = { source: request.source, locationOf: prepared.locationOf };
    return loadCode(vm, request, prepared);
  };
  return { exchange: (request) => contained(() => exchange(request)), printed: output.taken };
}

/** After an error of the engine itself, its state is undefined. */
function contained<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Violation(`the JavaScript engine failed: ${errorText(error)}`);
  }
}

function openInside(context: QuickJSContext, write: (text: string, rest: number) => void): QuickJSHandle {
  const print = context.newFunction("print", (text, rest) => {
    write(String(JSON.parse(context.getString(text))), context.getNumber(rest));
  });
  const make = context.unwrapResult(context.evalCode(`(${harness})`, "verk.js"));
  return context.unwrapResult(context.callFunction(make, context.undefined, print));
}

function answer(vm: Vm, request: string): unknown {
  using text = vm.context.newString(request);
  let reply = ask(vm, "exchange", text);
  if ("text" in reply && reply.text === "") {
    const failed = runJobs(vm);
    reply = failed === null ? ask(vm, "settled") : { failed };
  }
  if ("failed" in reply) return { ok: false, error: reply.failed };
  if (reply.text !== "") return JSON.parse(reply.text);
  const message = "the function awaits something that can never finish inside the sandbox";
  return { ok: false, error: { kind: "exception", message, line: null } };
}

type Code = { source: string; locationOf: LocationOf };

/** Replaces the stack of an inner error by a location in the user's text, and names what was called there. */
function locateFault(reply: unknown, { source, locationOf }: Code): unknown {
  const faultOf = (fault: unknown): unknown => {
    if (typeof fault !== "object" || fault === null || !("stack" in fault) || !("message" in fault)) return fault;
    const { stack, ...rest } = fault;
    const place = innermost(String(stack));
    const at = place === null ? null : locationOf(place);
    if (at === null) return { ...rest, line: null };
    return { ...rest, message: explained(String(fault.message), source, at), line: at.line };
  };
  const withLine = (value: unknown): unknown =>
    typeof value === "object" && value !== null && "fault" in value ? { fault: faultOf(value.fault) } : value;
  if (typeof reply !== "object" || reply === null) return reply;
  if ("error" in reply) return { ...reply, error: faultOf(reply.error) };
  if ("values" in reply && Array.isArray(reply.values)) return { ...reply, values: reply.values.map(withLine) };
  return "value" in reply ? { ...reply, value: withLine(reply.value) } : reply;
}

function capture() {
  let text = "";
  let bytes = 0;
  return {
    write: (more: string, rest: number): void => {
      const size = Buffer.byteLength(more);
      if (bytes < STDOUT_BYTES)
        text += Buffer.from(more)
          .subarray(0, STDOUT_BYTES - bytes)
          .toString("utf8");
      bytes += size + rest;
    },
    taken: () => {
      const taken = { stdout: text.slice(0, STDOUT_BYTES), stdout_bytes: bytes };
      text = "";
      bytes = 0;
      return taken;
    },
  };
}
