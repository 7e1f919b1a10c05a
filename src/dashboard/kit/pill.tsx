import { words } from "../data/format.ts";

export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "idle";

const TONES: Readonly<Record<string, Tone>> = {
  queued: "wait",
  pending: "wait",
  waiting: "wait",
  paused: "wait",
  parked: "idle",
  stopped: "idle",
  provisioning: "busy",
  running: "busy",
  starting: "busy",
  waking: "busy",
  downloading: "busy",
  loading: "busy",
  stopping: "busy",
  delivering: "busy",
  resolving: "busy",
  pausing: "busy",
  resuming: "busy",
  cancelling: "busy",
  completed: "good",
  succeeded: "good",
  ready: "good",
  serving: "good",
  active: "good",
  delivered: "good",
  enabled: "good",
  ok: "good",
  finished: "good",
  open: "busy",
  ended: "warn",
  warn: "warn",
  degraded: "warn",
  expired: "warn",
  suspended: "warn",
  failed: "bad",
  fail: "bad",
  error: "bad",
  revoked: "bad",
  exhausted: "bad",
  disabled: "idle",
  cancelled: "idle",
};

export const toneOf = (status: string): Tone => TONES[status] ?? "idle";

export const Pill = ({ tone, children }: { tone: Tone; children: string }) => (
  <span class={`pill ${tone}`}>{children}</span>
);

type StateProps = {
  status: string;
  /** After the word: "step 25 of 40". */
  detail?: string | undefined;
  /** Why, in a sentence below. */
  reason?: string | null | undefined;
};

/** A state in words with its reason. */
export const State = ({ status, detail, reason }: StateProps) => (
  <span class="state">
    <Pill tone={toneOf(status)}>{detail === undefined ? words(status) : `${words(status)} · ${detail}`}</Pill>
    {reason && <small title={reason}>{reason}</small>}
  </span>
);
