import { loadClouds } from "../../platform/config/cloud.ts";
import { isHeld } from "../../platform/db/data_lock.ts";
import { readLeases } from "../../platform/providers/leases.ts";
import { type Check, fail, ok, type Scene, warn } from "./check.ts";

export const cloudChecks: readonly Check[] = [{ name: "clouds", run: clouds }];

const MOST_NAMED = 5;

/** Lease files say which machines may exist, also while no server runs. */
function clouds({ config }: Scene) {
  const names = loadClouds(config).map(({ name }) => name);
  const leases = readLeases(config.data_dir);
  const named = (some: typeof leases) =>
    some
      .slice(0, MOST_NAMED)
      .map(({ name, trouble }) => (trouble === null ? name : `${name} (${trouble})`))
      .join(", ");
  const stuck = leases.filter(({ trouble }) => trouble !== null);
  if (stuck.length > 0)
    return fail(
      `${stuck.length} machines cost money and do not end: ${named(stuck)}`,
      "end them at the cloud, or repair the command `down`: the server repeats it every few minutes",
    );
  const lost = leases.filter(({ cloud }) => !names.includes(cloud));
  if (lost.length > 0)
    return fail(
      `${lost.length} machines belong to clouds that are not in clouds.files: ${named(lost)}`,
      "add the file of the cloud again, so that the server can end them, or end them at the cloud",
    );
  if (leases.length > 0 && !isHeld(config.data_dir).held)
    return warn(
      `no server runs, and ${leases.length} machines may exist: ${named(leases)}`,
      "start the server: it goes on with their work, or ends them",
    );
  if (names.length === 0) return ok("none");
  return ok(`${names.join(", ")}: ${leases.length} machines`);
}
