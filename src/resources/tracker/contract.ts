/** What an experiment tracker is told of a job, and what it must be able to do. The modules beside are two of them. */
export const TRACKER_TYPES = ["mlflow", "wandb"] as const;
export type TrackerType = (typeof TRACKER_TYPES)[number];

/** `time` is epoch milliseconds. */
export type Point = { step: number; time: number; values: Record<string, number> };
export type Subject = { jobId: string; name: string; method: string; project: string; createdAt: number };
export type State = "queued" | "running" | "completed" | "failed" | "cancelled";

/** What the tracker calls the run; `project` is an experiment's id or `entity/project`. */
export type Place = { id: string; project: string; url: string };

export type Request = { method?: "GET" | "POST"; path: string; body?: unknown };
/** Any answer that is not an error of the connection. */
export type Answer = { status: number; body: unknown };
export type Call = (request: Request) => Promise<Answer>;

export type Tracker = {
  /** The text of a secret → the header that carries it. */
  authorization: (secret: string) => string;
  /** Throws unless runs could be logged there. */
  check: (call: Call, project: string) => Promise<void>;
  /** Finds the run of this job, or makes it: called twice, there is one. */
  open: (call: Call, subject: Subject, baseUrl: string) => Promise<Place>;
  /** The newest step of each metric that the tracker has. Undefined: telling a point twice is the same as once. */
  has?: (call: Call, place: Place) => Promise<Map<string, number>>;
  tellParams: (call: Call, place: Place, params: Record<string, string>) => Promise<void>;
  /** `told`: how many points it has been told before. In the order of steps. */
  tellPoints: (call: Call, place: Place, points: readonly Point[], told: number) => Promise<void>;
  tellState: (call: Call, place: Place, state: State, at: number) => Promise<void>;
  /** For one that takes silence for death. */
  beat?: (call: Call, place: Place) => Promise<void>;
};

/**
 * `denied`: the key is wrong or missing. `refused`: the request is, and will be again. `unavailable`: nobody knows, also
 * whether it was done.
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

const SAID = 300;

/** The body of a good answer; else what kind of failure it is. */
export function accepted({ status, body }: Answer, what: string): unknown {
  if (status >= 200 && status < 300) return body;
  const said = typeof body === "string" ? body : JSON.stringify(body);
  const message = `${what}: the tracker answered ${status}${said ? ` ${said.slice(0, SAID)}` : ""}`;
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
  const found = pick(body, ...path);
  if (typeof found === "string" && found !== "") return found;
  throw new TrackerError("refused", `The answer has no ${path.join(".")}: is this address a tracker's?`);
}
