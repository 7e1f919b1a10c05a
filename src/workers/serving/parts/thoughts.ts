/**
 * Splits an answer that arrives in pieces into the model's thoughts and the rest. Thoughts stand between two tags at the
 * start of the answer. Pure.
 */
import { firstOf, settled } from "../calls/source.ts";

/** The texts around thoughts. */
export type ThoughtTags = {
  open: string;
  close: string;
  /** Texts that end a thought too. They belong to the rest. */
  ends?: readonly string[];
  /** A text of the template that puts the tags together. Default: it has the tag itself. */
  sign?: string;
};

const KIMI_CALLS = "<|tool_calls_section_begin|>";
const DEEPSEEK_CALLS = "<｜tool▁calls▁begin｜>";

/** In order: a template that has several tags uses the first. */
const TAGS: readonly ThoughtTags[] = [
  { open: "<think:opensource>", close: "</think:opensource>", sign: "HYTK = ':opensource'" },
  { open: "<seed:think>", close: "</seed:think>" },
  { open: "<mm:think>", close: "</mm:think>" },
  { open: "[THINK]", close: "[/THINK]" },
  { open: "<|START_THINKING|>", close: "<|END_THINKING|>" },
  { open: "<|channel>thought\n", close: "<channel|>" },
  { open: "<|inner_prefix|>", close: "<|inner_suffix|>" },
  { open: "<think>", close: "</think>", ends: [KIMI_CALLS, DEEPSEEK_CALLS] },
];

type Split = { thoughts: string; text: string };
export type ThoughtSplitter = { push: (text: string) => Split; end: () => Split };

/** Returns the tags of thoughts if a model with this template writes them. */
export const thoughtTags = (template: string | null): ThoughtTags | undefined =>
  TAGS.find(({ close, sign = close }) => template?.includes(sign));

/** Says how an answer to this prompt begins: inside a thought, behind one, or before a possible one. */
export function thoughtState(prompt: string, { open, close }: ThoughtTags): "inside" | "behind" | "before" {
  const text = prompt.trimEnd();
  if (text.endsWith(open.trimEnd())) return "inside";
  return text.endsWith(close) ? "behind" : "before";
}

/** `opened`: the text begins inside a thought. */
export function createThoughtSplitter({ open, close, ends = [] }: ThoughtTags, opened: boolean): ThoughtSplitter {
  let held = "";
  let state: "start" | "thoughts" | "gap" | "text" = opened ? "thoughts" : "start";
  const markers = [close, ...ends];
  const step = (out: Split): boolean => {
    if (state === "start") {
      const body = held.trimStart();
      if (body.length < open.length && open.startsWith(body)) return false; // it may still become a thought
      state = body.startsWith(open) ? "thoughts" : "text";
      if (state === "thoughts") held = body.slice(open.length);
      return true;
    }
    if (state === "thoughts") {
      const marked = firstOf(held, markers);
      const end = marked ? marked.at : settled(held, markers);
      out.thoughts += held.slice(0, end);
      held = held.slice(marked?.marker === close ? end + close.length : end);
      if (marked) state = marked.marker === close ? "gap" : "text";
      return marked !== undefined;
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
