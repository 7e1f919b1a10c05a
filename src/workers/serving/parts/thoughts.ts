/**
 * Splits an answer that arrives in pieces into the model's thoughts and the rest. Thoughts stand between <think> and
 * </think> at the start of the answer. Pure.
 */
import { openEnd } from "../calls/parsers.ts";

const OPEN = "<think>";
const CLOSE = "</think>";

type Split = { thoughts: string; text: string };
export type ThoughtSplitter = { push: (text: string) => Split; end: () => Split };

/** True if a model with this template writes thoughts. */
export const knowsThoughts = (template: string | null): boolean => template?.includes(CLOSE) ?? false;

/** True if the prompt ends inside a thought, so that the answer begins in it. */
export const opensThought = (prompt: string): boolean => prompt.trimEnd().endsWith(OPEN);

/** `opened`: the text begins inside a thought. */
export function createThoughtSplitter(opened: boolean): ThoughtSplitter {
  let held = "";
  let state: "start" | "thoughts" | "gap" | "text" = opened ? "thoughts" : "start";
  const step = (out: Split): boolean => {
    if (state === "start") {
      const body = held.trimStart();
      if (OPEN.startsWith(body)) return false; // it may still become a thought
      state = body.startsWith(OPEN) ? "thoughts" : "text";
      if (state === "thoughts") held = body.slice(OPEN.length);
      return true;
    }
    if (state === "thoughts") {
      const at = held.indexOf(CLOSE);
      const end = at < 0 ? held.length - openEnd(held, CLOSE) : at;
      out.thoughts += held.slice(0, end);
      held = held.slice(at < 0 ? end : at + CLOSE.length);
      if (at >= 0) state = "gap";
      return at >= 0;
    }
    if (state === "gap") {
      held = held.trimStart();
      if (held !== "") state = "text";
    }
    if (state === "text") {
      out.text += held;
      held = "";
    }
    return false;
  };
  let begun = false;
  /** Line breaks around thoughts are no part of them. */
  const trimmed = (out: Split): Split => {
    if (begun || out.thoughts === "") return out;
    const thoughts = out.thoughts.trimStart();
    begun = thoughts !== "";
    return { ...out, thoughts };
  };
  return {
    push(text) {
      held += text;
      const out = { thoughts: "", text: "" };
      while (step(out));
      return trimmed(out);
    },
    end() {
      const rest = held;
      held = "";
      return state === "thoughts" ? { thoughts: rest, text: "" } : { thoughts: "", text: state === "gap" ? "" : rest };
    },
  };
}
