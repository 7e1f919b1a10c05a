/** /v1/vector_stores in the format of OpenAI. `embedding_model` is an addition. */
import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { Label, later, Metadata } from "../../../lib/schema.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { seconds, secondsOrNull } from "../files/schema.ts";
import { Filter } from "./filters.ts";
import { FILE_STATUSES, type StoreRow, type VectorFileRow } from "./table.ts";

const MOST_NEW_FILES = 100;
export const MOST_BATCH_FILES = 500;
const MOST_RESULTS = 50;
const MOST_QUERIES = 16;
const LONGEST_QUERY = 4_096;
const MOST_DAYS = 365;
const TOKENS = { least: 100, most: 4_096, usual: 800 };

const Attributes = () =>
  z
    .record(Label(64), z.union([z.string().max(512), z.number(), z.boolean()]))
    .refine((pairs) => Object.keys(pairs).length <= 16, "takes at most 16 pairs")
    .nullish()
    .describe("For the filters of a search");

const ExpiresAfter = () => z.object({ anchor: z.literal("last_active_at"), days: z.int().min(1).max(MOST_DAYS) });

const Static = () =>
  z.object({
    max_chunk_size_tokens: z.int().min(TOKENS.least).max(TOKENS.most),
    chunk_overlap_tokens: z.int().min(0),
  });
const Chunking = () =>
  z
    .discriminatedUnion("type", [
      z.object({ type: z.literal("auto") }),
      z.object({
        type: z.literal("static"),
        static: Static().refine(
          ({ max_chunk_size_tokens: size, chunk_overlap_tokens: overlap }) => overlap <= size / 2,
          { path: ["chunk_overlap_tokens"], message: "must be at most half of max_chunk_size_tokens" },
        ),
      }),
    ])
    .optional()
    .describe("A token counts as four characters. A chunk that is too long for the embedding model is halved");
type Chunking = z.output<ReturnType<typeof Chunking>>;

export const limitsOf = (chunking: Chunking) =>
  chunking?.type === "static"
    ? { maxTokens: chunking.static.max_chunk_size_tokens, overlapTokens: chunking.static.chunk_overlap_tokens }
    : { maxTokens: TOKENS.usual, overlapTokens: TOKENS.usual / 2 };

export const CreateStore = later(() =>
  z
    .object({
      name: z.string().max(200).nullish(),
      description: z.string().max(1_000).nullish().describe("Has no effect"),
      file_ids: z.array(z.string()).max(MOST_NEW_FILES).nullish(),
      chunking_strategy: Chunking(),
      expires_after: ExpiresAfter().nullish(),
      metadata: Metadata.nullish(),
      embedding_model: Label(200)
        .optional()
        .describe("A deployment. Default: metadata.embedding_model, else the only deployment of an embedding model"),
    })
    .meta({ id: "CreateVectorStore" }),
);
export type CreateStore = z.output<typeof CreateStore>;

export const UpdateStore = later(() =>
  z
    .object({
      name: z.string().max(200).nullish(),
      expires_after: ExpiresAfter().nullish(),
      metadata: Metadata.nullish(),
    })
    .meta({ id: "UpdateVectorStore", description: "What is left out stays. null removes it" }),
);
export type UpdateStore = z.output<typeof UpdateStore>;

export const StoresQuery = later(() =>
  PageQuery.extend({ order: z.literal("desc").optional().describe("The newest store comes first") }),
);
export const FilesQuery = later(() =>
  PageQuery.extend({
    filter: z.enum(FILE_STATUSES).optional().describe("Only files with this status"),
    order: z.literal("desc").optional().describe("The newest file comes first"),
  }),
);
export type FilesQuery = z.output<typeof FilesQuery>;

export const AddFile = later(() =>
  z
    .object({ file_id: z.string(), attributes: Attributes(), chunking_strategy: Chunking() })
    .meta({ id: "CreateVectorStoreFile" }),
);
export type AddFile = z.output<typeof AddFile>;

export const UpdateFile = later(() => z.object({ attributes: Attributes() }).meta({ id: "UpdateVectorStoreFile" }));

export const CreateBatch = later(() =>
  z
    .object({
      file_ids: z.array(z.string()).min(1).max(MOST_BATCH_FILES).optional(),
      files: z.array(AddFile.unwrap()).min(1).max(MOST_BATCH_FILES).optional().describe("Instead of file_ids"),
      attributes: Attributes(),
      chunking_strategy: Chunking(),
    })
    .refine(({ file_ids, files }) => (file_ids === undefined) !== (files === undefined), {
      path: ["file_ids"],
      message: "send either file_ids or files",
    })
    .meta({ id: "CreateVectorStoreFileBatch" }),
);
export type CreateBatch = z.output<typeof CreateBatch>;

export const Search = later(() =>
  z
    .object({
      query: z.union([
        z.string().min(1).max(LONGEST_QUERY),
        z.array(z.string().min(1).max(LONGEST_QUERY)).min(1).max(MOST_QUERIES),
      ]),
      filters: Filter.unwrap().nullish().describe("By the attributes of files"),
      max_num_results: z.int().min(1).max(MOST_RESULTS).default(10),
      ranking_options: z
        .object({
          ranker: z.enum(["none", "auto", "default-2024-11-15"]).optional().describe("Has no effect"),
          score_threshold: z.number().min(0).max(1).default(0),
        })
        .nullish(),
      rewrite_query: z.boolean().nullish().describe("Has no effect: the query is searched as it is"),
    })
    .meta({ id: "VectorStoreSearch" }),
);
export type Search = z.output<typeof Search>;

const Seconds = z.int().describe("Unix seconds");
const Counts = () =>
  z.object({ in_progress: z.int(), completed: z.int(), failed: z.int(), cancelled: z.int(), total: z.int() });
export type Counts = z.output<ReturnType<typeof Counts>>;

export const VectorStore = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("vector_store"),
      created_at: Seconds,
      name: z.string(),
      usage_bytes: z.int(),
      file_counts: Counts(),
      status: z.enum(["in_progress", "completed", "expired"]),
      expires_after: ExpiresAfter().optional(),
      expires_at: Seconds.nullable(),
      last_active_at: Seconds,
      metadata: z.record(z.string(), z.string()),
      embedding_model: z.string().describe("The deployment that embeds chunks and queries"),
    })
    .meta({ id: "VectorStore" }),
);

export const VectorStoreFile = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("vector_store.file"),
      created_at: Seconds,
      vector_store_id: z.string(),
      status: z.enum(FILE_STATUSES),
      last_error: z
        .object({ code: z.enum(["server_error", "unsupported_file", "invalid_file"]), message: z.string() })
        .nullable(),
      usage_bytes: z.int(),
      attributes: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
      chunking_strategy: z.object({ type: z.literal("static"), static: Static() }),
    })
    .meta({ id: "VectorStoreFile" }),
);

export const FileBatch = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("vector_store.files_batch"),
      created_at: Seconds,
      vector_store_id: z.string(),
      status: z.enum(["in_progress", "completed", "cancelled"]),
      file_counts: Counts(),
    })
    .meta({ id: "VectorStoreFileBatch" }),
);

export const deletedAs = (object: "vector_store.deleted" | "vector_store.file.deleted", id: string) =>
  later(() => z.object({ id: z.string(), object: z.literal(object), deleted: z.literal(true) }).meta({ id }));

const Text = () => z.object({ type: z.literal("text"), text: z.string() });
const pageOf = <T extends z.ZodType>(item: T) => ({
  data: z.array(item),
  has_more: z.boolean(),
  next_page: z.string().nullable(),
});

export const SearchResults = later(() =>
  z
    .object({
      object: z.literal("vector_store.search_results.page"),
      search_query: z.array(z.string()),
      ...pageOf(
        z.object({
          file_id: z.string(),
          filename: z.string(),
          score: z.number().min(0).max(1).describe("The cosine of the embeddings; 0 if it is below"),
          attributes: VectorStoreFile.unwrap().shape.attributes,
          content: z.array(Text()),
        }),
      ),
    })
    .meta({ id: "VectorStoreSearchResults" }),
);

export const FileContent = later(() =>
  z
    .object({ object: z.literal("vector_store.file_content.page"), ...pageOf(Text()) })
    .meta({ id: "VectorStoreFileContent" }),
);

export const expiryOf = ({ usedAt, expiresDays }: Pick<StoreRow, "usedAt" | "expiresDays">): number | null =>
  expiresDays === null ? null : usedAt + expiresDays * DAY_MS;

export const present = (row: StoreRow, { counts, bytes, now }: { counts: Counts; bytes: number; now: number }) => {
  const expiresAt = expiryOf(row);
  const isExpired = expiresAt !== null && expiresAt <= now;
  return {
    id: row.id,
    object: "vector_store" as const,
    created_at: seconds(row.createdAt),
    name: row.name,
    usage_bytes: bytes,
    file_counts: counts,
    status: isExpired
      ? ("expired" as const)
      : counts.in_progress > 0
        ? ("in_progress" as const)
        : ("completed" as const),
    ...(row.expiresDays === null
      ? {}
      : { expires_after: { anchor: "last_active_at" as const, days: row.expiresDays } }),
    expires_at: secondsOrNull(expiresAt),
    last_active_at: seconds(row.usedAt),
    metadata: row.metadata,
    embedding_model: row.embeddingModel,
  };
};

export const presentFile = (row: VectorFileRow) => ({
  id: row.fileId,
  object: "vector_store.file" as const,
  created_at: seconds(row.createdAt),
  vector_store_id: row.storeId,
  status: row.status,
  last_error: row.error,
  usage_bytes: row.usageBytes,
  attributes: row.attributes ?? {},
  chunking_strategy: {
    type: "static" as const,
    static: { max_chunk_size_tokens: row.maxTokens, chunk_overlap_tokens: row.overlapTokens },
  },
});
