/** The interface of an experiment tracker. `mlflow.ts` and `wandb.ts` implement it. */
import type { Outside } from "../../../lib/json/outside.ts";

export const TRACKER_TYPES = ["mlflow", "wandb"] as const;
export type TrackerType = (typeof TRACKER_TYPES)[number];

/** `time` is epoch milliseconds. */
export type Point = { step: number; time: number; values: Record<string, number> };
export type Subject = { jobId: string; name: string; method: string; project: string; createdAt: number };
export type State = "queued" | "running" | "completed" | "failed" | "cancelled";

/** The run as the tracker names it. `project` is an experiment's id or `entity/project`. */
export type RemoteRun = { id: string; project: string; url: string };

/** `form`: of the answer. Without it, the status is the answer. */
export type Request = { method?: "GET" | "POST"; path: string; body?: unknown; form?: Outside<unknown> };
/** Any HTTP answer; errors of the connection throw. `body` is undefined without a form. `text`: its beginning. */
export type Answer = { status: number; body: unknown; text: string };
export type Call = (request: Request) => Promise<Answer>;

export type Tracker = {
  /** The text of a secret → the header that carries it. */
  authorization: (secret: string) => string;
  /** Throws unless runs could be logged there. */
  check: (call: Call, project: string) => Promise<void>;
  /** Finds the run of this job or creates it. A second call finds the first run. */
  open: (call: Call, subject: Subject, baseUrl: string) => Promise<RemoteRun>;
  /** The newest step of each metric that the tracker has. Undefined: sending a point twice is harmless. */
  has?: (call: Call, remote: RemoteRun) => Promise<Map<string, number>>;
  sendParams: (call: Call, remote: RemoteRun, params: Record<string, string>) => Promise<void>;
  /** Points come in the order of steps. `sent`: the number of points sent before. */
  sendPoints: (call: Call, remote: RemoteRun, points: readonly Point[], sent: number) => Promise<void>;
  sendState: (call: Call, remote: RemoteRun, state: State, at: number) => Promise<void>;
  /** Keeps a run alive on trackers that take silence for death. */
  beat?: (call: Call, remote: RemoteRun) => Promise<void>;
};

/**
 * `denied`: the key is wrong or missing. `refused`: the request is wrong, and would be rejected again. `unavailable`: no
 * good answer came, so it is unknown whether the request took effect.
 */
export class TrackerError extends Error {
  constructor(
    readonly kind: "denied" | "refused" | "unavailable",
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "TrackerError";
  }
}

/** Returns the body of a 2xx answer, and throws the matching error otherwise. */
export function accepted({ status, body, text }: Answer, what: string): unknown {
  if (status >= 200 && status < 300) return body;
  const message = `${what}: the tracker answered ${status}${text ? ` ${text}` : ""}`;
  if (status === 401 || status === 403) throw new TrackerError("denied", message);
  const passing = status === 408 || status === 425 || status === 429 || status >= 500;
  throw new TrackerError(passing ? "unavailable" : "refused", message);
}

/** Reads one value out of an answer, however it is nested. */
export function pick(body: unknown, ...path: (string | number)[]): unknown {
  let at = body;
  for (const key of path) at = typeof at === "object" && at !== null ? (at as Record<string, unknown>)[key] : undefined;
  return at;
}

export function mustPick(body: unknown, ...path: (string | number)[]): string {
  const value = pick(body, ...path);
  if (typeof value === "string" && value !== "") return value;
  throw new TrackerError(
    "refused",
    `The answer has no ${path.join(".")}. Check that base_url is the address of a tracker`,
  );
}
