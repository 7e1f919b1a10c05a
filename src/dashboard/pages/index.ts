/** The table of pages: addresses, navigation and search follow it. Each area lists its own pages. */
import { pages as agents } from "./agents/index.ts";
import { pages as annotate } from "./annotate/index.ts";
import { pages as audit } from "./audit/index.ts";
import { pages as datasets } from "./datasets/index.ts";
import { pages as deployments } from "./deployments/index.ts";
import { pages as detect } from "./detect/index.ts";
import { pages as experiments } from "./experiments/index.ts";
import { pages as home } from "./home/index.ts";
import { pages as keys } from "./keys/index.ts";
import { pages as me } from "./me/index.ts";
import { pages as monitors } from "./monitors/index.ts";
import { pages as people } from "./people/index.ts";
import { pages as playground } from "./playground/index.ts";
import { pages as regions } from "./regions/index.ts";
import { pages as rewards } from "./rewards/index.ts";
import { pages as runs } from "./runs/index.ts";
import { pages as settings } from "./settings/index.ts";
import { pages as setup } from "./setup/index.ts";
import type { PageSpec } from "./spec.ts";
import { pages as traces } from "./traces/index.ts";
import { pages as usage } from "./usage/index.ts";
import { pages as webhooks } from "./webhooks/index.ts";

/** In the order of the navigation. The first pattern that matches an address wins. */
export const PAGES: readonly PageSpec[] = [
  ...[home, runs, playground],
  ...[datasets, rewards, experiments, annotate],
  ...[deployments, agents, traces, monitors, detect],
  ...[webhooks, keys, people, regions, usage, audit, settings, me, setup],
].flat();
