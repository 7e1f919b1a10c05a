/** A run while it runs. Its log stream says when a step is done; then the metrics of the new steps are loaded. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../../../../lib/error_text.ts";
import { isJobOver } from "../../../../lib/training/job_status.ts";
import { ApiError, api } from "../../../data/api.ts";
import { follow } from "../../../data/follow.ts";
import { type Resource, useResource } from "../../../data/resource.ts";
import { loadPlot } from "../../../kit/chart/chart.tsx";
import { type JobMetrics, jobPath, type Point, type TrainingJob } from "../types.ts";
import { afterPaint } from "../when_seen.tsx";

export type LogLine = { seq: number; time: string; stream: "stdout" | "stderr"; line: string };
export type LiveRun = {
  job: Resource<TrainingJob>;
  points: readonly Point[] | undefined;
  error: ApiError | undefined;
  log: readonly LogLine[];
};

const MOST_LINES = 500;
const MOST_POINTS = 500;
/** After this many new steps all are read again, thinned by the server. */
const REREAD_AFTER = 1_000;
const PAUSE_MS = 400;

export function useLiveRun(id: string): LiveRun {
  const job = useResource<TrainingJob>(jobPath(id), { events: ["job."] });
  const [points, setPoints] = useState<readonly Point[] | undefined>(undefined);
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const [log, setLog] = useState<readonly LogLine[]>([]);
  const refresh = useRef(job.refresh);
  refresh.current = job.refresh;

  useEffect(() => {
    let allPoints: readonly Point[] = [];
    let added = 0;
    let status = "";
    let stopped = false;
    const read = async () => {
      try {
        const last = added < REREAD_AFTER ? allPoints.at(-1)?.step : undefined;
        const fresh = await newPoints(id, last);
        if (stopped) return;
        allPoints = last === undefined ? fresh : [...allPoints, ...fresh];
        added = last === undefined ? 0 : added + fresh.length;
        setPoints(allPoints);
        setError(undefined);
      } catch (cause) {
        if (!stopped) setError(cause instanceof ApiError ? cause : new ApiError(0, null, errorText(cause)));
      }
    };
    const update = paced(async () => void (await Promise.all([read(), refresh.current()])));
    const lines: LogLine[] = [];
    const show = paced(async () => setLog([...lines]), 100);
    update();
    const stop = follow(`${jobPath(id)}/logs?tail=${MOST_LINES}&stream=all`, {
      onMessage: ({ event, data }) => {
        if (event === "status") status = (JSON.parse(data) as { status: string }).status;
        if (event !== "log") return update();
        lines.push(JSON.parse(data) as LogLine);
        if (lines.length > MOST_LINES) lines.splice(0, lines.length - MOST_LINES);
        show();
        if (!isJobOver(status)) update();
      },
      isOver: () => isJobOver(status),
    });
    return () => {
      stopped = true;
      stop();
    };
  }, [id]);
  return { job, points, error, log };
}

const DRAW = "runs.draw";

/**
 * Measures as `runs.draw` of the browser's timeline: from the render that first has these metrics until the frame with
 * their curves was painted. Undefined: nothing is shown yet.
 */
export function useDrawTime(points: readonly Point[] | undefined) {
  const drawn = useRef<readonly Point[] | undefined>(undefined);
  const start = points === drawn.current ? undefined : performance.now();
  useLayoutEffect(() => {
    drawn.current = points;
    if (start === undefined || points === undefined) return;
    void loadPlot().then(() =>
      afterPaint(() => {
        performance.clearMeasures(DRAW); // a run may be open for days
        performance.measure(DRAW, { start });
      }),
    );
  }, [points]);
}

const newPoints = async (id: string, after: number | undefined): Promise<Point[]> => {
  const query = after === undefined ? "" : `&from_step=${after + 1}`;
  return (await api<JobMetrics>(`${jobPath(id)}/metrics?max_points=${MOST_POINTS}${query}`)).data;
};

/** Calls at once, then at most once in `pause` milliseconds, and always once more after the last request. */
function paced(call: () => Promise<unknown>, pause = PAUSE_MS): () => void {
  let isBusy = false;
  let isWanted = false;
  const start = async () => {
    isBusy = true;
    await call();
    setTimeout(() => {
      isBusy = false;
      if (!isWanted) return;
      isWanted = false;
      void start();
    }, pause);
  };
  return () => {
    if (isBusy) isWanted = true;
    else void start();
  };
}
