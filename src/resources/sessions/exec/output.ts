/** What a command says, as text: whole characters, and no more than it may say. */
import type { JailOutput } from "../../../sandbox/jail/types.ts";

type Stream = JailOutput["stream"];

export type Output = {
  push: (output: JailOutput) => void;
  /** No more will come; gives what is left of a character as a replacement character. */
  end: () => void;
};

const decoder = () => new TextDecoder("utf-8", { ignoreBOM: true });

/** `onText` gets what is whole so far; never an empty text. */
export function textOutput(onText: (stream: Stream, text: string) => void): Output {
  const decoders = { stdout: decoder(), stderr: decoder() };
  const tell = (stream: Stream, text: string) => {
    if (text !== "") onText(stream, text);
  };
  return {
    push: ({ stream, bytes }) => tell(stream, decoders[stream].decode(bytes, { stream: true })),
    end() {
      for (const stream of ["stdout", "stderr"] as const) tell(stream, decoders[stream].decode());
    },
  };
}

/** Texts that one side makes and another takes at its own pace. What is held is bounded by what a command may say. */
export function textQueue() {
  const held: { stream: Stream; text: string }[] = [];
  let over = false;
  let wake = () => {};
  return {
    add(stream: Stream, text: string) {
      const last = held.at(-1);
      if (last?.stream === stream) last.text += text;
      else held.push({ stream, text });
      wake();
    },
    end() {
      over = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        for (let next = held.shift(); next; next = held.shift()) yield next;
        if (over) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
