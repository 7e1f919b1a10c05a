import type { Client } from "../client.ts";
import { note } from "../output.ts";
import { pollUntil } from "../poll.ts";
import { isOver, type Job, pathOf } from "./find.ts";
import { createScreen } from "./screen.ts";
import { type JobProgress, lastLine, liveLines, type Point, plainLine } from "./view.ts";

const POLL_MS = 500;
const OUTAGE_MS = 30_000; // a server that saves its trainers restarts in less

/** Shows a job while it runs. `end` gets the last state, if any was read. */
export type Viewer = {
  show: (state: JobProgress) => void;
  /** Called while the server cannot be reached. */
  lost?: (state: JobProgress | undefined) => void;
  end: (state: JobProgress | undefined) => void;
};

type Metrics = { data: Point[] };

/** Follows a job until it is over. Returns undefined if `signal` aborts first. */
export async function follow(
  client: Client,
  id: string,
  viewer: Viewer,
  signal: AbortSignal,
): Promise<JobProgress | undefined> {
  let state: JobProgress | undefined;
  const probe = async () => {
    state = await readProgress(client, id, state?.points ?? [], signal);
    viewer.show(state);
    return state;
  };
  try {
    const onOutage = () => viewer.lost?.(state);
    return await pollUntil(probe, ({ job }) => isOver(job), {
      signal,
      everyMs: POLL_MS,
      outageMs: OUTAGE_MS,
      onOutage,
    });
  } finally {
    viewer.end(state);
  }
}

/** Reads only new metrics. A job that resumed from a checkpoint reports the steps after it again. */
async function readProgress(
  client: Client,
  id: string,
  before: readonly Point[],
  signal: AbortSignal,
): Promise<JobProgress> {
  const { body: job } = await client.call<Job>("GET", pathOf(id), undefined, { signal });
  const last = before.at(-1)?.step ?? 0;
  const { step } = job.progress;
  if (step === last) return { job, points: before };
  const from = step > last ? last + 1 : step;
  const path = pathOf(id, `/metrics?from_step=${from}&to_step=${step}`);
  const { body } = await client.call<Metrics>("GET", path, undefined, { signal });
  return { job, points: [...before.filter((point) => point.step < from), ...body.data] };
}

/** Draws a live view on a terminal; elsewhere prints a line for each new status and for each further 10 %. */
export function createViewer(out: { isTTY?: boolean; columns?: number; write: (text: string) => unknown }): Viewer {
  if (!out.isTTY) return lineViewer((line) => out.write(`${line}\n`));
  const screen = createScreen(out);
  return {
    show: (state) => screen.draw(liveLines(state, screen.columns)),
    lost: (state) => screen.draw([...(state ? liveLines(withoutEta(state), screen.columns) : []), RECONNECTING]),
    end: (state) => screen.end({ keep: state !== undefined && isOver(state.job) }),
  };
}

const RECONNECTING = "The server cannot be reached: reconnecting";

/** The remaining time is unknown during an outage. */
const withoutEta = ({ job, points }: JobProgress): JobProgress => ({
  job: { ...job, progress: { ...job.progress, eta_seconds: null } },
  points,
});

function lineViewer(write: (line: string) => void): Viewer {
  let last = "";
  return {
    show(state) {
      const { status, progress } = state.job;
      const tenth = progress.total_steps > 0 ? Math.floor((10 * progress.step) / progress.total_steps) : 0;
      const mark = `${status} ${tenth} ${status === "queued" ? (state.job.queue_reason ?? "") : ""}`;
      if (mark !== last) write(plainLine(state));
      last = mark;
    },
    lost() {
      if (last !== RECONNECTING) write(RECONNECTING);
      last = RECONNECTING;
    },
    end: () => {},
  };
}

/** Shows a job until it is over. Returns undefined if `signal` aborts first; the job then goes on. */
export async function watchJob(
  client: Client,
  { id, output_name }: Job,
  signal: AbortSignal,
): Promise<JobProgress | undefined> {
  const last = await follow(client, id, createViewer(process.stderr), signal);
  note(
    last
      ? lastLine(last)
      : `${output_name} (${id}) continues on the server. \`verk jobs watch ${id}\` shows it again, \`verk jobs cancel ${id}\` cancels it.`,
  );
  return last;
}
