import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import type { Dataset } from "../../resources/data/datasets/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { listAll, onlyOne, wholeId } from "../lists.ts";

export type { Append, Dataset, Snapshot } from "../../resources/data/datasets/schema.ts";

export const allDatasets = (client: Client) => listAll<Dataset>(client, "/v1/datasets", ({ id }) => id);

/** Finds a dataset by id, or by name if only one dataset has it. */
export async function mustFind(client: Client, target: string): Promise<Dataset> {
  const get = async (id: string) => (await client.call<Dataset>("GET", `/v1/datasets/${encodeURIComponent(id)}`)).body;
  if (target.startsWith("ds_")) return get(await wholeId(target, () => allDatasets(client)));
  const all = await allDatasets(client);
  const named = all.filter(({ name }) => name === target);
  const dataset = onlyOne(named, "datasets", target);
  if (dataset) return get(dataset.id);
  const names = [...new Set(all.map(({ name }) => name))];
  const close = nearest(target, names);
  const there = names.length > 0 ? ` Datasets: ${names.slice(0, 10).join(", ")}.` : "";
  throw new UsageError(
    `There is no dataset ${JSON.stringify(target)}.${close ? ` Did you mean ${close}?` : there} \`verk datasets push FILE\` creates one.`,
    EXIT.failed,
  );
}
