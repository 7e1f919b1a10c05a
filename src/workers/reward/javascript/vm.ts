/** One QuickJS context with the harness in it, and calls to it. */
import type { QuickJSContext, QuickJSHandle, QuickJSRuntime } from "quickjs-emscripten-core";
import type { Fault } from "../../../lib/rewards/contract.ts";
import type { Location } from "./positions.ts";

/** The name of the user's code in stack traces. */
export const FILE = "reward.js";

export type Vm = { context: QuickJSContext; runtime: QuickJSRuntime; inside: QuickJSHandle };

/** Calls a function of the harness with texts. Returns the reason if the engine itself failed. */
export function ask(vm: Vm, name: string, ...handles: QuickJSHandle[]): { text: string } | { failed: Fault } {
  using method = vm.context.getProp(vm.inside, name);
  const result = vm.context.callFunction(method, vm.inside, ...handles);
  if (result.error) return { failed: engineFault(vm, result.error) };
  using value = result.value;
  return { text: vm.context.typeof(value) === "string" ? vm.context.getString(value) : "" };
}

export function engineFault(vm: Vm, error: QuickJSHandle): Fault {
  const dumped: unknown = vm.context.dump(error);
  error.dispose();
  const message =
    typeof dumped === "object" && dumped !== null && "message" in dumped ? String(dumped.message) : String(dumped);
  if (message === "interrupted") return { kind: "timeout", message: "the function took too long", line: null };
  const memory = message === "out of memory" || dumped === null;
  if (memory) return { kind: "memory", message: "the function ran out of memory", line: null };
  return { kind: "exception", message: message.slice(0, 2000), line: null };
}

/** Runs jobs until no promise can continue. */
export function runJobs(vm: Vm): Fault | null {
  const result = vm.runtime.executePendingJobs();
  if (!result.error) return null;
  return engineFault(vm, result.error);
}

export function innermost(stack: string): Location | null {
  const match = new RegExp(`${FILE}:(\\d{1,9}):(\\d{1,9})`).exec(stack);
  return match === null ? null : { line: Number(match[1]), column: Number(match[2]) };
}
