import { Semaphore } from "../../../platform/semaphore.ts";
import type { RunningResolution } from "./connected/resolve.ts";
import type { AppendQueue } from "./stream/append.ts";
import { OpenRows } from "./stream/open_rows.ts";
import type { MeasuredRows } from "./stream/statistics.ts";

declare module "../../../context.ts" {
  interface State {
    readonly datasets: DatasetsState;
  }
}

/** Processes at the same time. Eight more workspaces find a permit while one uses all that it may. */
const PROCESSES = { permits: 12, mostEach: 4 };
const MOST_WAITING_READS = 1_000;

/** Live state of the datasets. */
export class DatasetsState {
  readonly openRows = new OpenRows();
  /** Datasets whose row file has its final name, but whose row is not committed yet. The sweep spares them. */
  readonly making = new Set<string>();
  /** One permit for each dataset, by its id: of two equal cuts, the second finds the snapshot of the first. */
  readonly cuts = Semaphore.unshared("a dataset belongs to one workspace", {
    permits: Number.POSITIVE_INFINITY,
    mostEach: 1,
  });
  /** Statistics of rows, by file and head: both together never change. The oldest is forgotten first. */
  readonly statistics = new Map<string, Promise<MeasuredRows>>();
  /** Appends that wait, by dataset. */
  readonly appends = new Map<string, AppendQueue>();
  /** Resolutions that this process runs, by id. */
  readonly resolutions = new Map<string, RunningResolution>();
  /** Connector processes. Reads take hours, so checks of a source have permits of their own. */
  readonly checks = new Semaphore({ name: "checks of sources", ...PROCESSES });
  readonly reads = new Semaphore({
    name: "readings of sources",
    ...PROCESSES,
    mostWaitingEach: MOST_WAITING_READS,
  });
  /** Processes that read uploaded files. */
  readonly imports = new Semaphore({ name: "uploaded files", ...PROCESSES });
}
