/** The log of a deployment: it follows new lines, and is searched as one types. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { DeploymentLog } from "../../../resources/serving/deployments/traffic/schema.ts";
import { plural } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { Card } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Empty, ErrorBox, Skeleton } from "../../kit/page.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";

const EVERY_MS = 2_000;
const TYPING_MS = 200;
const FIRST = 200;
const ALL = 1_000;
const LEVELS = [
  ["info", "Everything"],
  ["warn", "Warnings and errors"],
  ["error", "Errors"],
] as const;
type Level = (typeof LEVELS)[number][0];
const isLevel = (text: string | undefined): text is Level => LEVELS.some(([level]) => level === text);

export function Log({ deployment: { id, last_error: error } }: { deployment: Deployment }) {
  const q = queryOf("q") ?? "";
  const named = queryOf("level");
  const level = isLevel(named) ? named : "info";
  const [limit, setLimit] = useState(FIRST);
  const query = new URLSearchParams({ limit: String(limit), level, ...(q === "" ? {} : { q }) });
  const log = useResource<DeploymentLog>(`/v1/deployments/${encodeURIComponent(id)}/logs?${query}`, {
    events: ["deployment."],
    everyMs: EVERY_MS,
  });
  const last = useRef<DeploymentLog | undefined>(undefined);
  last.current = log.data ?? last.current; // the lines stay while another search is loaded
  const lines = last.current?.data;
  return (
    <div class="grid">
      {error !== null && (
        <Card title="Last error">
          <pre class="text deployments-error">{error}</pre>
        </Card>
      )}
      <Card title="Log" note="newest first; without prompts and answers; the last 1,000 lines are kept">
        <div class="deployments-search">
          <Search q={q} />
          <SelectField
            label="Show"
            value={level}
            options={LEVELS}
            onChange={(next) => setQuery({ level: next === "info" ? undefined : next })}
          />
        </div>
        {log.error && <ErrorBox error={log.error} retry={log.refresh} />}
        {!lines && !log.error && <Skeleton rows={8} />}
        {lines?.length === 0 && (
          <Empty title={q === "" && level === "info" ? "No line yet" : "No line matches"}>
            Starts, stops, replicas, adapters and failed requests appear here.
          </Empty>
        )}
        {lines && lines.length > 0 && <Lines lines={lines} />}
        {last.current?.has_more && limit < ALL && (
          <button type="button" class="btn more" onClick={() => setLimit(ALL)}>
            Show all
          </button>
        )}
        <span class="hidden" role="status">
          {lines && q !== "" ? `${plural(lines.length, "line")} found` : ""}
        </span>
      </Card>
    </div>
  );
}

/** Searches when the keyboard rests. */
function Search({ q }: { q: string }) {
  const [text, setText] = useState(q);
  useEffect(() => {
    if (text === q) return;
    const timer = setTimeout(() => setQuery({ q: text === "" ? undefined : text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return <TextField label="Search" type="search" value={text} onInput={setText} placeholder="error, adapter, 503" />;
}

const Lines = ({ lines }: { lines: DeploymentLog["data"] }) => (
  <section
    class="deployments-log"
    aria-label="Log lines"
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    tabIndex={0}
  >
    {lines.map(({ seq, time, level, text }) => (
      <div key={seq} class={level}>
        <time dateTime={time} title={time}>
          {time.slice(5, 10)} {time.slice(11, 19)}
        </time>
        <b>{level}</b>
        <span>{text}</span>
      </div>
    ))}
  </section>
);
