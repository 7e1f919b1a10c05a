import { words } from "../../data/format.ts";
import { Pill } from "../../kit/pill.tsx";

const CODES: Readonly<Record<string, string>> = { schema: "Bad request", resource_not_found: "No such model" };
const CLIENT_CLOSED = 499;

/** The result of a request in words. */
export const Status = ({ of }: { of: { status: number; error_code: string | null } }) => {
  if (of.status < 400) return <Pill tone="good">OK</Pill>;
  if (of.status === CLIENT_CLOSED) return <Pill tone="warn">Closed by the client</Pill>;
  return (
    <Pill tone="bad">
      {of.error_code === null ? `Failed · ${of.status}` : (CODES[of.error_code] ?? words(of.error_code))}
    </Pill>
  );
};

const SOURCES: Readonly<Record<string, string>> = {
  otlp: "OpenTelemetry",
  rollout: "Rollout of a training",
  evaluation: "Experiment or judge",
};
export const sourceName = (source: string) => SOURCES[source] ?? words(source);
