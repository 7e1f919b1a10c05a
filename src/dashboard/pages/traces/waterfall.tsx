import { duration, words } from "../../data/format.ts";
import type { Span } from "./types.ts";

const TOKENS: Readonly<Record<string, string>> = {
  queue: "--c5",
  wake: "--c2",
  template: "--c3",
  prompt: "--c6",
  decode: "--c1",
  tool_call: "--c4",
};
const MEANINGS: Readonly<Record<string, string>> = {
  queue: "Waits for a free place",
  wake: "Loads the model",
  template: "Builds the prompt",
  prompt: "Reads the prompt",
  decode: "Writes the answer",
  tool_call: "Calls a tool",
};

/** Spans below each other on one time axis. A very short span still has a visible bar. */
export function Waterfall({ spans, durationMs }: { spans: readonly Span[]; durationMs: number }) {
  const whole = Math.max(durationMs, ...spans.map(({ start_ms, duration_ms }) => start_ms + duration_ms)) || 1;
  if (spans.length === 0) return <p class="muted">This request has no parts.</p>;
  return (
    <ol class="traces-spans">
      {spans.map((span, i) => (
        <li key={i} title={attributesOf(span)}>
          <span>
            {MEANINGS[span.name] ?? words(span.name)}
            {typeof span.attributes["name"] === "string" && <small> {span.attributes["name"]}</small>}
          </span>
          <span class="traces-track">
            <i
              style={{
                left: `${(span.start_ms / whole) * 100}%`,
                width: `${(span.duration_ms / whole) * 100}%`,
                background: `var(${TOKENS[span.name] ?? "--c5"})`,
              }}
            />
          </span>
          <b class="n">{duration(span.duration_ms / 1000)}</b>
        </li>
      ))}
    </ol>
  );
}

const attributesOf = ({ attributes }: Span) =>
  Object.entries(attributes)
    .map(([name, value]) => `${name}: ${String(value)}`)
    .join("\n");
