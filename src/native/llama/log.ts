/**
 * libllama calls its logger from any thread, so the logger cannot be JavaScript: it is verk_log of the shim. One for the
 * process, as the first error that it keeps.
 */
import { CString, type Pointer } from "bun:ffi";
import type { Shim } from "../shim/shim.ts";

type Symbols = { llama_log_set: (callback: Pointer, context: null) => unknown };
export type ErrorLog = { forgetError: () => void; firstError: () => string };

/** Call it before anything else of the library: its own logger would print thousands of lines. */
export function keepOnlyErrors(llama: Symbols, shim: Shim): ErrorLog {
  llama.llama_log_set(shim.verk_log, null);
  return {
    forgetError: () => shim.verk_forget_error(),
    firstError: () => new CString(shim.verk_first_error() as Pointer).toString().trim(),
  };
}
