import type { Bundle } from "./bundle.ts";

declare module "../../../context.ts" {
  interface State {
    readonly dashboard: DashboardState;
  }
}

export class DashboardState {
  /** Loaded by the first request for a page. */
  bundle: Promise<Bundle> | undefined;
}
