/** When each turn was computed, and what it needed. */
import { count, duration, money, number, percent } from "../../data/format.ts";
import { Card } from "../../kit/card.tsx";
import { Table } from "../../kit/table.tsx";
import { spansOf } from "./turns.ts";
import type { Turn } from "./types.ts";

export function Times({ turns }: { turns: readonly Turn[] }) {
  const { spans, wholeMs, modelMs } = spansOf(turns);
  const whole = wholeMs || 1;
  return (
    <>
      <Card
        title="Where the time went"
        note={`${duration(modelMs / 1000)} in the model, ${duration(Math.max(0, wholeMs - modelMs) / 1000)} in the agent and its tools`}
      >
        <ol class="traces-spans">
          {spans.map(({ number: turn, startMs, ms }) => (
            <li key={turn}>
              <span>Turn {turn}</span>
              <span class="traces-track">
                <i
                  style={{
                    left: `${(startMs / whole) * 100}%`,
                    width: `${(ms / whole) * 100}%`,
                    background: "var(--c1)",
                  }}
                />
              </span>
              <b class="n">{duration(ms / 1000)}</b>
            </li>
          ))}
        </ol>
      </Card>
      <Card title="Tokens">
        <Table
          label="Turns"
          rows={turns}
          keyOf={(turn) => String(turn.number)}
          columns={[
            { title: "Turn", cell: (turn) => turn.number },
            { title: "Kept", cell: (turn) => count(turn.kept_tokens), numeric: true },
            { title: "Read", cell: (turn) => count(turn.prompt_token_ids.length), numeric: true },
            { title: "Written", cell: (turn) => count(turn.token_ids.length), numeric: true },
            { title: "Mean probability", cell: (turn) => percent(meanShare(turn)), numeric: true, wide: true },
            {
              title: "First token",
              cell: ({ first_token_ms: ms }) => duration(ms === null ? null : ms / 1000),
              numeric: true,
            },
            { title: "Tokens a second", cell: speedOf, numeric: true, wide: true },
            { title: "Cost", cell: ({ cost_usd }) => money(cost_usd), numeric: true, wide: true },
          ]}
        />
      </Card>
    </>
  );
}

/** Under this many, the speed says nothing. */
const FEWEST_TOKENS = 20;

function speedOf({ token_ids: ids, latency_ms: ms, first_token_ms: first }: Turn): string {
  const rest = ms - (first ?? 0);
  return number(ids.length < FEWEST_TOKENS || rest <= 0 ? null : (1_000 * ids.length) / rest);
}

const meanShare = ({ logprobs }: Turn): number | null =>
  logprobs.length === 0 ? null : Math.exp(logprobs.reduce((sum, each) => sum + each, 0) / logprobs.length);
