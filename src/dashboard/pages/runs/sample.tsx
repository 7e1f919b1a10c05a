import type { ComponentChildren } from "preact";
import { number } from "../../data/format.ts";
import type { JobSample } from "./types.ts";

type Scored = Pick<JobSample, "completion" | "reward" | "sub_rewards" | "error" | "tokens">;

type SampleProps = {
  sample: Scored;
  prompt: string;
  /** The large figure at the left, and what it is. */
  figure: string;
  figureLabel: string;
  tone?: "good" | "bad" | undefined;
  /** The answer, as text or as a difference. */
  children: ComponentChildren;
  /** Small notes below the answer. */
  after?: ComponentChildren;
};

/** One answer with its prompt and the parts of its reward. */
export const SampleView = ({ sample, prompt, figure, figureLabel, tone, children, after }: SampleProps) => (
  <li class="runs-sample">
    <div class={`runs-figure ${tone ?? ""}`}>
      {figure}
      <small>{figureLabel}</small>
    </div>
    <div class="runs-answer">
      <p class="runs-prompt">{prompt}</p>
      {children}
      {sample.error && <p class="bad">{sample.error}</p>}
      <div class="row">{after}</div>
    </div>
    <Parts sample={sample} />
  </li>
);

/** The reward and its parts as bars. A part outside 0 to 1 has a full or an empty bar; its figure is exact. */
const Parts = ({ sample: { reward, sub_rewards: parts, tokens } }: { sample: Scored }) => {
  const entries = Object.entries(parts);
  const rows: [string, number | null][] = entries.length > 1 ? [["reward", reward], ...entries] : [["reward", reward]];
  return (
    <div class="runs-parts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <span title={name}>{name}</span>
          <b class="n">{number(value)}</b>
          <i>
            <i style={{ width: `${100 * Math.min(1, Math.max(0, value ?? 0))}%` }} />
          </i>
        </div>
      ))}
      <small class="muted n">{`${tokens} tokens`}</small>
    </div>
  );
};

type Message = { role?: unknown; content?: unknown };

/** A prompt as text: chat messages with their role, anything else as JSON. */
export function promptText(prompt: unknown): string {
  if (typeof prompt === "string") return prompt;
  if (!Array.isArray(prompt)) return JSON.stringify(prompt);
  const messages = prompt as Message[];
  const text = ({ content }: Message) => (typeof content === "string" ? content : JSON.stringify(content));
  const [only] = messages;
  if (messages.length === 1 && only) return text(only);
  return messages.map((message) => `${String(message.role)}: ${text(message)}`).join("\n");
}
