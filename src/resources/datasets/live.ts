import { Semaphore } from "../../platform/semaphore.ts";
import type { RunningResolution } from "./connected/resolve.ts";
import type { AppendQueue } from "./stream/append.ts";
import { OpenRows } from "./stream/open_rows.ts";

const MOST_AT_ONCE = 4;

/** Live state of the datasets. */
export class DatasetsState {
  readonly openRows = new OpenRows();
  /** Datasets whose row file has its final name, but whose row is not committed yet. The sweep spares them. */
  readonly making = new Set<string>();
  /** One permit for each dataset, by its id: of two equal cuts, the second finds the snapshot of the first. */
  readonly cuts = new Semaphore({ permits: Number.POSITIVE_INFINITY, mostEach: 1 });
  /** Appends that wait, by dataset. */
  readonly appends = new Map<string, AppendQueue>();
  /** Resolutions that this process runs, by id. */
  readonly resolutions = new Map<string, RunningResolution>();
  /** Connector processes. Reads take hours, so checks of a source have permits of their own. */
  readonly checks = new Semaphore({ permits: MOST_AT_ONCE });
  readonly reads = new Semaphore({ permits: MOST_AT_ONCE });
  /** Processes that read uploaded files. */
  readonly imports = new Semaphore({ permits: MOST_AT_ONCE });
}
