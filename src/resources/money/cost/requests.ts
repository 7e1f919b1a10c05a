/** Counts a request to a model for the day, the key and the model. */
import { sql } from "drizzle-orm";
import { DAY_MS } from "../../../lib/units.ts";
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";
import { usageDays } from "./table.ts";

/** `keyId` null: the server made the request for its own work. */
export type CountedRequest = {
  workspaceId: string;
  keyId: string | null;
  model: string;
  prompt: number;
  cached: number;
  completion: number;
};

const add = prepared((db: Db) => {
  const { workspaceId, day, kind, keyId, model } = usageDays;
  const bound = (name: string) => sql`${sql.placeholder(name)}`;
  const plus = (column: string) => sql.raw(`${column} + excluded.${column}`);
  return db
    .insert(usageDays)
    .values({
      workspaceId: bound("workspaceId"),
      day: bound("day"),
      kind: "serving",
      keyId: bound("keyId"),
      model: bound("model"),
      requests: 1,
      promptTokens: bound("prompt"),
      cachedTokens: bound("cached"),
      completionTokens: bound("completion"),
    })
    .onConflictDoUpdate({
      target: [workspaceId, day, kind, keyId, model],
      set: {
        requests: plus("requests"),
        promptTokens: plus("prompt_tokens"),
        cachedTokens: plus("cached_tokens"),
        completionTokens: plus("completion_tokens"),
      },
    })
    .prepare();
});

export const addRequest = (tx: Tx, { keyId, ...request }: CountedRequest, now: number) =>
  void add(tx).run({ ...request, keyId: keyId ?? "", day: Math.floor(now / DAY_MS) });
