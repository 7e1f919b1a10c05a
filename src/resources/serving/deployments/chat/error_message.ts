/** Reads error envelopes of a worker. */

import { AppError, ERRORS, type ErrorCode } from "../../../../lib/errors.ts";

type Envelope = { error: { code?: unknown; message?: unknown; param?: unknown; type?: unknown } };

function read(text: string): Envelope["error"] | undefined {
  try {
    return (JSON.parse(text) as Envelope).error;
  } catch {
    return undefined;
  }
}

export const messageOf = (text: string): string => String(read(text)?.message ?? text).slice(0, 1000);
export const codeOf = (text: string): unknown => read(text)?.code;

/** The error that a worker answered with. Undefined: its code is unknown, or its status is not the one of the code. */
export function errorOf(status: number, text: string): AppError | undefined {
  const { code, message, param, type: _, ...more } = read(text) ?? {};
  if (typeof code !== "string" || !Object.hasOwn(ERRORS, code) || ERRORS[code as ErrorCode][0] !== status)
    return undefined;
  return new AppError(code as ErrorCode, String(message), { more, ...(typeof param === "string" ? { param } : {}) });
}
