/**
 * libllama calls its logger from any thread, so the logger cannot be JavaScript. verk_log of the shim keeps the first
 * error. There is one logger for the process.
 */
import { CString, type Pointer } from "bun:ffi";
import type { Shim } from "../shim/shim.ts";

type Symbols = { llama_log_set: (callback: Pointer, context: null) => unknown };
export type ErrorLog = { forgetError: () => void; firstError: () => string };

/** Call it before any other function of the library: the default logger prints thousands of lines. */
export function keepOnlyErrors(llama: Symbols, shim: Shim): ErrorLog {
  llama.llama_log_set(shim.verk_log, null);
  return {
    forgetError: () => shim.verk_forget_error(),
    firstError: () => new CString(shim.verk_first_error() as Pointer).toString().trim(),
  };
}
