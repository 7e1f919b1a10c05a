/** The state of regions that lives in this process (`ctx.state.regions`). */
import type { NodeProvider } from "../../../platform/providers/node_provider.ts";
import type { Provider } from "../../../platform/providers/types.ts";
import { compiled } from "../../../platform/workers/self.ts";

declare module "../../../context.ts" {
  interface State {
    readonly regions: RegionsState;
  }
}

export type RegionProvider = Provider & Pick<NodeProvider, "info"> & Partial<Pick<NodeProvider, "replicas">>;

export class RegionsState {
  gpuTypes: string[] = [];
  /** Time of the last listing, successful or not. */
  listedAt = Number.NEGATIVE_INFINITY;
  listing: Promise<void> | undefined;

  /** Copied to the nodes. Undefined if this server does not run as one file. */
  executable: string | undefined = compiled ? process.execPath : undefined;
  /** By region. Only a region of kind `exec` changes: its entry is removed with each change of its machine. */
  readonly providers = new Map<string, RegionProvider>();
  /** The directory for private keys while ssh clients start. Undefined until it is made. */
  keyDir: string | undefined;
  /** Region → time of the last question to its node. */
  readonly askedAt = new Map<string, number>();
  readonly asking = new Map<string, Promise<void>>();
  /** Workspace → its regions that are being asked. */
  readonly askingOf = new Map<string, number>();
  /** Counts a question to a node until the returned function is called. */
  begin(key: string, workspaceId: string): () => void {
    this.#count(workspaceId, 1);
    return () => {
      this.asking.delete(key);
      this.#count(workspaceId, -1);
    };
  }

  #count(workspaceId: string, by: 1 | -1) {
    const next = (this.askingOf.get(workspaceId) ?? 0) + by;
    if (next === 0) this.askingOf.delete(workspaceId);
    else this.askingOf.set(workspaceId, next);
  }

  /** The last region of the page that was observed. Empty: the next page is the first. */
  observedTo = "";
  /** Steady time at which the regions of clouds were last compared with the workspaces. */
  cloudsKeptAt = Number.NEGATIVE_INFINITY;
}
