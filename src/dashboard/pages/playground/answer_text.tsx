/** An answer as it grows: thoughts, Markdown coloured by probability, calls of tools, and what went wrong. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Markdown, type Painting } from "../../kit/markdown/markdown.tsx";
import type { Answer } from "./answer.ts";
import { spanReader, spansBetween, type Token, toneOf, wordsOf } from "./tokens.ts";

/** How answers are shown. `isPlain`: the text as the model wrote it, without Markdown. */
export type Look = { isColoured: boolean; isPlain: boolean };

export function AnswerText({ answer, look }: { answer: Answer; look: Look }) {
  const { state, thinking, text, calls, error, note } = answer;
  const isBusy = state === "waiting" || state === "streaming";
  return (
    <div class="playground-answer" aria-live="polite" aria-busy={isBusy ? true : undefined}>
      {thinking !== "" && <Thinking text={thinking} isOpen={isBusy && text === ""} />}
      {state === "waiting" && <p class="playground-wait">{note === "" ? "Waits for the first token" : words(note)}</p>}
      <Text answer={answer} look={look} />
      {calls.map(({ id, name, text: args }) => (
        <div key={id} class="playground-call">
          <small>{`Calls ${name}`}</small>
          <pre class="text">{pretty(args)}</pre>
        </div>
      ))}
      {state === "done" && text === "" && calls.length === 0 && <p class="muted">(The answer is empty.)</p>}
      {error !== "" && (
        <p class="bad" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

const words = (note: string) => `Starting: ${note}`;

const Thinking = ({ text, isOpen }: { text: string; isOpen: boolean }) => (
  <details class="playground-thinking" open={isOpen}>
    <summary>{isOpen ? "Thinking" : "Thoughts"}</summary>
    <pre class="text">{text}</pre>
  </details>
);

function Text({ answer: { text, tokens, calls }, look }: { answer: Answer; look: Look }) {
  const painting = usePainting(text, look.isColoured && calls.length === 0 ? tokens : []);
  if (text === "") return null;
  if (!look.isPlain) return <Markdown text={text} painting={painting} />;
  return <pre class="text">{painting ? painting.paint(0, text.length) : text}</pre>;
}

/** Words in the colour of their probability. Text without tokens stays as it is. */
function usePainting(text: string, tokens: readonly Token[]): Painting | undefined {
  const kept = useRef<{ first: Token | undefined; read: ReturnType<typeof spanReader> }>(undefined);
  const [first] = tokens;
  if (!kept.current || kept.current.first !== first) kept.current = { first, read: spanReader() };
  const { spans, text: painted } = kept.current.read(tokens);
  if (painted === "" || !text.startsWith(painted)) return undefined;
  const paint = (from: number, to: number): ComponentChildren => {
    const parts = spansBetween(spans, from, to).map(({ span, text: part }) => (
      <span key={span.from} class={`playground-token ${toneOf(span.share)}`} title={wordsOf(span)}>
        {part}
      </span>
    ));
    return [...parts, text.slice(Math.max(from, painted.length), Math.max(to, painted.length))];
  };
  return { upTo: painted.length, paint };
}

/** Arguments in the middle of a stream are no JSON yet. */
function pretty(args: string): string {
  try {
    return JSON.stringify(JSON.parse(args), null, 2);
  } catch {
    return args;
  }
}
