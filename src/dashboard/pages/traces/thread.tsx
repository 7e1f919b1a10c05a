/** Messages one below the other, as a person reads a conversation. Instructions and results of tools are folded. */
import type { ComponentChildren } from "preact";
import { words } from "../../data/format.ts";
import { type Message, messagesOf } from "../../data/messages.ts";

const FOLDED = ["system", "developer", "tool", "function"];
const NAMES: Readonly<Record<string, string>> = { assistant: "Answer", developer: "System" };

/** `by`: the role of messages that have none. */
export const Turns = ({ messages, by }: { messages: readonly Message[]; by: string }) => (
  <>
    {messages.map(({ role, text }, i) => (
      <Turn key={i} role={role || by} text={text} />
    ))}
  </>
);

export const turnsOf = (content: unknown, by: string) => <Turns messages={messagesOf(content)} by={by} />;

function Turn({ role, text }: Message) {
  const name = NAMES[role] ?? words(role);
  const body = <pre class="text">{text === "" ? "(empty)" : text}</pre>;
  if (!FOLDED.includes(role))
    return (
      <article class={`traces-said ${role === "assistant" ? "answer" : ""}`} aria-label={name}>
        <small>{name}</small>
        {body}
      </article>
    );
  return (
    <details class="traces-said" open={text.length < 200}>
      <summary>
        <small>{name}</small> <span>{text.slice(0, 120)}</span>
      </summary>
      {body}
    </details>
  );
}

export const Thread = ({ children }: { children: ComponentChildren }) => <div class="traces-thread">{children}</div>;
