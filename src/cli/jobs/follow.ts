import { ApiError, type Client } from "../client.ts";
import { note } from "../output.ts";
import { isOver, type Job, pathOf } from "./find.ts";
import { createScreen } from "./screen.ts";
import { lastLine, liveLines, type Point, plainLine, type Seen } from "./view.ts";

const LOOK_MS = 500;
const PATIENCE_LOOKS = 60; // half a minute: as long as a server needs to restart

/** What shows a training while it goes on. */
export type Viewer = { show: (seen: Seen) => void; end: (seen: Seen | undefined) => void };

type Metrics = { data: Point[] };

/** Follows a job to its end. Undefined: `signal` came first. */
export async function follow(
  client: Client,
  id: string,
  viewer: Viewer,
  signal: AbortSignal,
): Promise<Seen | undefined> {
  let seen: Seen | undefined;
  try {
    for (let lost = 0; !signal.aborted; ) {
      try {
        seen = await look(client, id, seen?.points ?? [], signal);
        lost = 0;
        viewer.show(seen);
        if (isOver(seen.job)) return seen;
      } catch (error) {
        if (signal.aborted) return undefined;
        const passing = error instanceof ApiError && (error.status === 0 || error.status >= 500);
        if (!passing || ++lost > PATIENCE_LOOKS) throw error;
      }
      await Bun.sleep(LOOK_MS);
    }
    return undefined;
  } finally {
    viewer.end(seen);
  }
}

/** Only what is new is asked for; a job that went back to a checkpoint tells those steps again. */
async function look(client: Client, id: string, before: readonly Point[], signal: AbortSignal): Promise<Seen> {
  const { body: job } = await client.call<Job>("GET", pathOf(id), undefined, { signal });
  const last = before.at(-1)?.step ?? 0;
  const { step } = job.progress;
  if (step === last) return { job, points: before };
  const from = step > last ? last + 1 : step;
  const path = pathOf(id, `/metrics?from_step=${from}&to_step=${step}`);
  const { body } = await client.call<Metrics>("GET", path, undefined, { signal });
  return { job, points: [...before.filter((point) => point.step < from), ...body.data] };
}

/** A picture that moves on a terminal; elsewhere a line for each new state and each further tenth. */
export function createViewer(out: { isTTY?: boolean; columns?: number; write: (text: string) => unknown }): Viewer {
  if (!out.isTTY) return lineViewer((line) => out.write(`${line}\n`));
  const screen = createScreen(out);
  return {
    show: (seen) => screen.draw(liveLines(seen, screen.columns)),
    end: (seen) => screen.end({ keep: seen !== undefined && isOver(seen.job) }),
  };
}

function lineViewer(write: (line: string) => void): Viewer {
  let said = "";
  return {
    show(seen) {
      const { status, progress } = seen.job;
      const tenth = progress.total_steps > 0 ? Math.floor((10 * progress.step) / progress.total_steps) : 0;
      const mark = `${status} ${tenth} ${status === "queued" ? (seen.job.queue_reason ?? "") : ""}`;
      if (mark !== said) write(plainLine(seen));
      said = mark;
    },
    end: () => {},
  };
}

/** Shows a job until it is over. Undefined: it was left alone before its end. */
export async function watchJob(
  client: Client,
  { id, output_name }: Job,
  signal: AbortSignal,
): Promise<Seen | undefined> {
  const seen = await follow(client, id, createViewer(process.stderr), signal);
  note(
    seen
      ? lastLine(seen)
      : `${output_name} (${id}) goes on without this command: \`verk jobs watch ${id}\` shows it again, \`verk jobs cancel ${id}\` ends it.`,
  );
  return seen;
}
