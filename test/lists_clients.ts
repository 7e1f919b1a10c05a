/** The lists in the formats of other programs. */
import type { ListCase } from "./lists_kit.ts";

export const CLIENT_LISTS: readonly ListCase[] = [
  {
    route: "/v1/batches",
    table: "inference_batches",
    prefix: "batch",
    row: () => ({ status: "completed", endpoint: "/v1/embeddings", finished_at: 1 }),
  },
  {
    route: "/v1/files",
    table: "client_files",
    prefix: "file",
    row: (_, i) => ({ storage_key: `k${i}`, purpose: "batch" }),
    filters: { purpose: { value: "batch", column: "purpose" } },
  },
];
