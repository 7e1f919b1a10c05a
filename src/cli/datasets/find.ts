import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import type { Dataset } from "../../resources/datasets/schema.ts";
import { EXIT } from "../args.ts";
import type { Client } from "../client.ts";
import { listAll, wholeId } from "../lists.ts";

export type { Append, Dataset, Snapshot } from "../../resources/datasets/schema.ts";

export const allDatasets = (client: Client) => listAll<Dataset>(client, "/v1/datasets", ({ id }) => id);

/** Finds a dataset by id, or by name if only one dataset has it. */
export async function mustFind(client: Client, target: string): Promise<Dataset> {
  const get = async (id: string) => (await client.call<Dataset>("GET", `/v1/datasets/${encodeURIComponent(id)}`)).body;
  if (target.startsWith("ds_")) return get(await wholeId(target, () => allDatasets(client)));
  const all = await allDatasets(client);
  const [first, ...more] = all.filter(({ name }) => name === target);
  if (first && more.length === 0) return get(first.id);
  if (first) {
    const ids = [first, ...more].map(({ id }) => id).join(", ");
    throw new UsageError(
      `${more.length + 1} datasets are named ${JSON.stringify(target)}. Give one of their ids instead: ${ids}`,
    );
  }
  const names = [...new Set(all.map(({ name }) => name))];
  const close = nearest(target, names);
  const there = names.length > 0 ? ` Datasets: ${names.slice(0, 10).join(", ")}.` : "";
  throw new UsageError(
    `There is no dataset ${JSON.stringify(target)}.${close ? ` Did you mean ${close}?` : there} \`verk datasets push FILE\` creates one.`,
    EXIT.failed,
  );
}
