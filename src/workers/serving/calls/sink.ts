/** Collects the findings of a reader: text, thoughts, and calls whose arguments come in pieces. Pure. */
import { isObject } from "../../../lib/json/object.ts";
import { parseJson } from "./json.ts";

export type ParsedCall = { name: string; arguments: string };
/** A call without a name continues the arguments of the call before it. */
export type CallPiece = { name?: string; arguments: string };
export type Parsed = { content: string; calls: CallPiece[]; thoughts?: string };

export type Sink = {
  content: (text: string) => void;
  thoughts: (text: string) => void;
  /** A call begins. Its arguments follow, then `end`. */
  begin: (name: string) => void;
  pass: (text: string) => void;
  /** `raw`: the text that the call was written as. */
  end: (raw: string) => void;
  take: () => Parsed;
};

const nothing = (): Parsed => ({ content: "", calls: [] });

/**
 * `pieces`: a call is returned as soon as its name is known, and its arguments as they come. Otherwise a call is
 * returned when it is complete, and one whose arguments are no object is returned as text.
 */
export function createSink(pieces: boolean): Sink {
  let out = nothing();
  let call: ParsedCall | undefined;
  return {
    content: (text) => {
      out.content += text;
    },
    thoughts: (text) => {
      out.thoughts = (out.thoughts ?? "") + text;
    },
    begin(name) {
      call = { name, arguments: "" };
      if (pieces) out.calls.push({ ...call });
    },
    pass(text) {
      if (call) call.arguments += text;
      if (pieces && text !== "") out.calls.push({ arguments: text });
    },
    end(raw) {
      const value = call && !pieces ? parseJson(call.arguments) : undefined;
      if (call && isObject(value)) out.calls.push({ name: call.name, arguments: JSON.stringify(value) });
      else if (!pieces) out.content += raw;
      call = undefined;
    },
    take() {
      const taken = out;
      out = nothing();
      return taken;
    },
  };
}
