/** Decodes the output of a command into text of whole characters. */
import type { JailOutput } from "../../../../sandbox/jail/types.ts";

type Stream = JailOutput["stream"];

export type Output = {
  push: (output: JailOutput) => void;
  /** Ends the output. An incomplete character becomes a replacement character. */
  end: () => void;
};

const decoder = () => new TextDecoder("utf-8", { ignoreBOM: true });

/** `onText` gets complete characters only, and never an empty text. */
export function textOutput(onText: (stream: Stream, text: string) => void): Output {
  const decoders = { stdout: decoder(), stderr: decoder() };
  const pass = (stream: Stream, text: string) => {
    if (text !== "") onText(stream, text);
  };
  return {
    push: ({ stream, bytes }) => pass(stream, decoders[stream].decode(bytes, { stream: true })),
    end() {
      for (const stream of ["stdout", "stderr"] as const) pass(stream, decoders[stream].decode());
    },
  };
}

/** A queue of texts between a command and its reader. Its size is bounded by sessions.output_bytes. */
export function textQueue() {
  const queue: { stream: Stream; text: string }[] = [];
  let over = false;
  let wake = () => {};
  return {
    add(stream: Stream, text: string) {
      const last = queue.at(-1);
      if (last?.stream === stream) last.text += text;
      else queue.push({ stream, text });
      wake();
    },
    end() {
      over = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        for (let next = queue.shift(); next; next = queue.shift()) yield next;
        if (over) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
