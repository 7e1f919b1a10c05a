/** Words for an error of the engine, which says "not a function" and names neither the thing nor the line. */
import type { Location } from "./positions.ts";

const MOST_SHOWN = 120;
/** Messages of the engine about a thing in the line. An error that the user throws says what it has to say. */
const OF_ENGINE =
  /^(TypeError: (not a function|cannot (read|set) property .* of \S+|\S+ is not iterable)|ReferenceError: .* is not defined)$/;
/** A chain of names and indices, such as `text.trm` or `rows[0].check`, at the end of a text. */
const CALLEE = /[\p{L}_$][\p{L}\p{N}_$]*(?:\??\.[\p{L}_$][\p{L}\p{N}_$]*|\[[^[\]]*\])*$/u;

/** `source`: the text of the user. `place`: where the engine stopped in it; for a call, its opening bracket. */
export function explained(message: string, source: string, { line, column }: Location): string {
  if (!OF_ENGINE.test(message)) return message;
  const text = source.split("\n")[line - 1] ?? "";
  const callee = CALLEE.exec(text.slice(0, column - 1).trimEnd())?.[0] ?? "what is called here";
  const named = message.replace(/\bnot a function$/, `${callee} is not a function`);
  const code = text.trim();
  return code === "" ? named : `${named}, in: ${code.length > MOST_SHOWN ? `${code.slice(0, MOST_SHOWN)}…` : code}`;
}
