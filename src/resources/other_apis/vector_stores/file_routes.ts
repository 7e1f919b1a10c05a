import { eq } from "drizzle-orm";
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx, Principal } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { numberText } from "../../../lib/schema.ts";
import { clientListOf } from "../conversations/schema.ts";
import * as batches from "./batches.ts";
import * as files from "./files.ts";
import {
  AddFile,
  CreateBatch,
  deletedAs,
  FileBatch,
  FileContent,
  FilesQuery,
  UpdateFile,
  VectorStoreFile,
} from "./schema.ts";
import * as stores from "./service.ts";
import { vectorFiles } from "./table.ts";

const DeletedFile = deletedAs("vector_store.file.deleted", "DeletedVectorStoreFile");
const FileList = clientListOf(VectorStoreFile, "VectorStoreFileList");
const ContentQuery = z.object({
  page: numberText(z.int().min(0)).default(0).describe("next_page of the previous page"),
});

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const storeOf = ({ workspaceId }: Principal, id: string) => stores.mustGet(ctx, workspaceId, id);
  const openStoreOf = ({ workspaceId }: Principal, id: string) => stores.mustBeOpen(ctx, workspaceId, id);
  return new Elysia({ prefix: "/v1/vector_stores/:id", tags: ["Clients"] })
    .use(authed)
    .post(
      "/files",
      ({ request, principal, params, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200; // as OpenAI answers
          return files.add(ctx, openStoreOf(principal, params.id), body);
        }),
      {
        ...takes(AddFile),
        detail: describe(
          "Add a file to a vector store",
          { 200: VectorStoreFile },
          { description: "Text in UTF-8. Its status is in_progress until its chunks are embedded." },
        ),
      },
    )
    .get("/files", ({ principal, params, query }) => files.list(ctx, storeOf(principal, params.id), query), {
      ...asks(FilesQuery),
      detail: describe("List the files of a vector store", { 200: FileList }),
    })
    .get("/files/:file", ({ principal, params }) => files.presented(ctx, storeOf(principal, params.id), params.file), {
      detail: describe("Get a file of a vector store", { 200: VectorStoreFile }),
    })
    .post(
      "/files/:file",
      ({ principal, params, body }) =>
        files.update(ctx, storeOf(principal, params.id), params.file, body.attributes ?? null),
      {
        ...takes(UpdateFile),
        detail: describe("Change the attributes of a file of a vector store", { 200: VectorStoreFile }),
      },
    )
    .delete(
      "/files/:file",
      ({ principal, params }) => {
        files.remove(ctx, storeOf(principal, params.id), params.file);
        return { id: params.file, object: "vector_store.file.deleted", deleted: true };
      },
      { detail: describe("Remove a file from a vector store; the file stays", { 200: DeletedFile }) },
    )
    .get(
      "/files/:file/content",
      ({ principal, params, query }) => files.content(ctx, storeOf(principal, params.id), params.file, query.page),
      {
        ...asks(ContentQuery),
        detail: describe("Get the texts of the chunks of a file, which overlap", { 200: FileContent }),
      },
    )
    .post(
      "/file_batches",
      ({ request, principal, params, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200;
          return batches.create(ctx, openStoreOf(principal, params.id), body);
        }),
      { ...takes(CreateBatch), detail: describe("Add several files to a vector store", { 200: FileBatch }) },
    )
    .get(
      "/file_batches/:batch",
      ({ principal, params }) => batches.mustGet(ctx, storeOf(principal, params.id), params.batch),
      { detail: describe("Get a batch of files of a vector store", { 200: FileBatch }) },
    )
    .post(
      "/file_batches/:batch/cancel",
      ({ principal, params }) => batches.cancel(ctx, storeOf(principal, params.id), params.batch),
      { detail: describe("Embed no more files of a batch", { 200: FileBatch }) },
    )
    .get(
      "/file_batches/:batch/files",
      ({ principal, params, query }) => {
        const store = storeOf(principal, params.id);
        batches.mustGet(ctx, store, params.batch);
        return files.list(ctx, store, query, eq(vectorFiles.batchId, params.batch));
      },
      { ...asks(FilesQuery), detail: describe("List the files of a batch", { 200: FileList }) },
    );
};
