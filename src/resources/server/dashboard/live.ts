import type { Bundle } from "./bundle.ts";

export class DashboardState {
  /** Loaded by the first request for a page. */
  bundle: Promise<Bundle> | undefined;
}
