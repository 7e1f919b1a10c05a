/** An answer as it grows: thoughts, words coloured by probability, calls of tools, and what went wrong. */
import type { Answer } from "./answer.ts";
import { spansOf, toneOf, wordsOf } from "./tokens.ts";

export function AnswerText({ answer, isColoured }: { answer: Answer; isColoured: boolean }) {
  const { state, thinking, text, calls, error, note } = answer;
  const isBusy = state === "waiting" || state === "streaming";
  return (
    <div class="playground-answer" aria-live="polite" aria-busy={isBusy ? true : undefined}>
      {thinking !== "" && <Thinking text={thinking} isOpen={isBusy && text === ""} />}
      {state === "waiting" && <p class="playground-wait">{note === "" ? "Waits for the first token" : words(note)}</p>}
      <Text answer={answer} isColoured={isColoured} />
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

function Text({ answer: { text, tokens, calls }, isColoured }: { answer: Answer; isColoured: boolean }) {
  if (text === "") return null;
  if (!isColoured || tokens.length === 0 || calls.length > 0) return <pre class="text">{text}</pre>;
  return (
    <pre class="text">
      {spansOf(tokens).map((span, i) => (
        <span key={i} class={`playground-token ${toneOf(span.share)}`} title={wordsOf(span)}>
          {span.text}
        </span>
      ))}
    </pre>
  );
}

/** Arguments in the middle of a stream are no JSON yet. */
function pretty(args: string): string {
  try {
    return JSON.stringify(JSON.parse(args), null, 2);
  } catch {
    return args;
  }
}
