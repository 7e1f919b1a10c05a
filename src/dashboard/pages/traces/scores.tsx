import { useState } from "preact/hooks";
import { api } from "../../data/api.ts";
import { number } from "../../data/format.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import type { Score, Trace } from "./types.ts";

type Props = { trace: Trace; refresh: () => Promise<void> };

export const Scores = ({ trace, refresh }: Props) => (
  <Card title="Scores">
    {trace.scores.length === 0 ? (
      <p class="muted">This answer has no score yet.</p>
    ) : (
      <ul class="traces-scores">
        {trace.scores.map((score) => (
          <li key={score.id}>
            <span>{score.name}</span>
            <b class="n">{shown(score)}</b>
            <small>
              by a {score.source}, <Time at={score.created_at} />
              {score.comment !== null && ` · ${score.comment}`}
            </small>
          </li>
        ))}
      </ul>
    )}
    {may("inference", false) && <NewScore id={trace.id} refresh={refresh} />}
  </Card>
);

const shown = ({ value }: Score) =>
  typeof value === "number" ? number(value) : typeof value === "boolean" ? (value ? "Yes" : "No") : value;

function NewScore({ id, refresh }: { id: string; refresh: () => Promise<void> }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const isReady = name.trim() !== "" && value.trim() !== "";
  const add = async () => {
    const body = { name: name.trim(), value: scoreValue(value) };
    const score = await attempt(() => api(`/v1/traces/${id}/scores`, { method: "POST", body }), "Score added");
    if (score === undefined) return;
    setValue("");
    await refresh();
  };
  return (
    <form
      class="traces-score"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) void add();
      }}
    >
      <TextField label="Name" value={name} onInput={setName} placeholder="helpful" />
      <TextField label="Value" value={value} onInput={setValue} placeholder="0.8, yes, or a word" />
      <Button submit disabled={!isReady}>
        Add score
      </Button>
    </form>
  );
}

/** A typed value: "0.8" is a number, "yes" and "no" are decisions, all else is a word. */
export function scoreValue(typed: string): number | boolean | string {
  const text = typed.trim();
  if (/^[-+]?(\d+\.?\d*|\.\d+)$/.test(text)) return Number(text);
  if (/^(yes|true)$/i.test(text)) return true;
  return /^(no|false)$/i.test(text) ? false : text;
}
