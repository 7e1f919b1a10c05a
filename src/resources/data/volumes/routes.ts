import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { SignedQuery } from "../signed_urls/schema.ts";
import { admitDownload, askStorage, createDownload, createUpload } from "./address.ts";
import { pathFrom, put, type StoredFile, send } from "./content.ts";
import * as schema from "./schema.ts";
import { fileId, present, presentFile } from "./schema.ts";
import * as volumes from "./service.ts";
import type { VolumeRow } from "./table.ts";
import * as upload from "./upload.ts";

const TAGS = ["Volumes"];
const PREFIX = "/v1/volumes";
/** The handler reads the body as a stream. */
const streamed = { parse: "none" as const };
const BIN = "application/octet-stream";
const BYTES = { [BIN]: "The bytes of the file" };

type Answering = { set: { status?: number | string } };

function answer({ set }: Answering, volume: VolumeRow, { row, replaced }: StoredFile) {
  set.status = replaced ? 200 : 201;
  return presentFile(volume, row);
}

export const routes = (ctx: Ctx) => new Elysia().use(managing(ctx)).use(files(ctx)).use(signed(ctx));

const managing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const volumeOf = (principal: Principal, name: string) => volumes.mustGet(ctx, principal.workspaceId, name);
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () =>
          present(volumes.create(ctx, principal.workspaceId, body)),
        ),
      { ...takes(schema.CreateVolume), detail: describe("Create a volume", { 201: schema.Volume }) },
    )
    .get("", ({ principal, query }) => volumes.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List volumes", { 200: listOf(schema.Volume, "VolumeList") }),
    })
    .get("/:name", ({ principal, params }) => present(volumeOf(principal, params.name)), {
      detail: describe("Get a volume", { 200: schema.Volume }),
    })
    .delete(
      "/:name",
      ({ principal, params }) => {
        const { id } = volumes.remove(ctx, principal.workspaceId, params.name);
        return { id, object: "volume", deleted: true };
      },
      { detail: describe("Delete a volume and its files", { 200: Deleted("volume") }) },
    )
    .post(
      "/:name/upload-url",
      async ({ request, principal, params, body, set }) => {
        const volume = volumeOf(principal, params.name);
        const direct = await askStorage(ctx, volume, body);
        return creates(ctx, { request, principal, body, set }, () =>
          createUpload(ctx, { call: { request, principal }, volume, body, direct }),
        );
      },
      {
        ...takes(schema.CreateUploadUrl),
        detail: describe("Create a URL that uploads one file, once, without an API key", { 201: schema.UploadUrl }),
      },
    )
    .post(
      "/:name/download-url",
      async ({ request, principal, params, body }) =>
        createDownload(ctx, { request, principal }, volumeOf(principal, params.name), body),
      {
        ...takes(schema.CreateDownloadUrl),
        detail: describe("Create a URL that downloads a file without an API key", { 200: schema.DownloadUrl }),
      },
    )
    .post(
      "/:name/uploads/:id/complete",
      async ({ request, principal, params, set }) => {
        keepOpen(ctx, request);
        const volume = volumeOf(principal, params.name);
        return answer({ set }, volume, await upload.complete(ctx, volume, params.id));
      },
      {
        detail: describe("Complete an upload that was sent in parts or to the storage", {
          200: schema.VolumeFile,
          201: schema.VolumeFile,
        }),
      },
    )
    .delete(
      "/:name/uploads/:id",
      ({ principal, params }) => {
        const { id } = upload.abort(ctx, volumeOf(principal, params.name), params.id);
        return { id, object: "upload", deleted: true };
      },
      { detail: describe("Cancel an upload and delete its parts", { 200: schema.AbortedUpload }) },
    );
};

const files = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  const volumeOf = (principal: Principal, name: string) => volumes.mustGet(ctx, principal.workspaceId, name);
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .get(
      "/:name/files",
      ({ principal, params, query }) => volumes.files(ctx, volumeOf(principal, params.name), query),
      {
        ...asks(schema.FilesQuery),
        detail: describe("List files by path", { 200: listOf(schema.VolumeFile, "VolumeFileList") }),
      },
    )
    .get(
      "/:name/files/*",
      async ({ request, principal, params }) =>
        send(ctx, volumeOf(principal, params.name), decodeURIComponent(params["*"]), request),
      { detail: describe("Download a file; supports Range", { 200: BIN, 206: BIN }) },
    )
    .put(
      "/:name/files/*",
      async ({ request, principal, params, set }) => {
        const volume = volumeOf(principal, params.name);
        return answer({ set }, volume, await put(ctx, volume, pathFrom(params["*"]), request));
      },
      {
        ...streamed,
        detail: describe("Write a file", { 200: schema.VolumeFile, 201: schema.VolumeFile }, { accepts: BYTES }),
      },
    )
    .delete(
      "/:name/files/*",
      ({ principal, params }) => {
        const volume = volumeOf(principal, params.name);
        const { path } = volumes.removeFile(ctx, principal.workspaceId, params.name, decodeURIComponent(params["*"]));
        return { object: "volume_file", id: fileId(volume, path), volume: volume.name, path, deleted: true };
      },
      { detail: describe("Delete a file", { 200: schema.DeletedFile }) },
    );
};

/** Routes without an API key: the signed URL is the permission. */
const signed = (ctx: Ctx) => {
  const open = { public: true } as const;
  const query = asks(SignedQuery);
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .get(
      "/:name/signed/*",
      async ({ request, params }) => {
        const path = decodeURIComponent(params["*"]);
        return send(ctx, admitDownload(ctx, request, params.name, path), path, request);
      },
      {
        ...query,
        detail: describe("Download a file by its signed URL; supports Range", { 200: BIN, 206: BIN }, open),
      },
    )
    .put(
      "/:name/uploads/:id",
      async ({ request, params, set }) => {
        const arrival = { request, volumeId: params.name, uploadId: params.id };
        const { volume, stored } = await upload.receiveFile(ctx, arrival);
        return answer({ set }, volume, stored);
      },
      {
        ...streamed,
        ...query,
        detail: describe(
          "Upload a file to its signed URL",
          { 200: schema.VolumeFile, 201: schema.VolumeFile },
          { ...open, accepts: BYTES },
        ),
      },
    )
    .put(
      "/:name/uploads/:id/parts/:number",
      async ({ request, params }) =>
        upload.receivePart(ctx, { request, volumeId: params.name, uploadId: params.id }, Number(params.number)),
      {
        ...streamed,
        ...query,
        detail: describe("Upload a part to its signed URL", { 200: schema.UploadPart }, { ...open, accepts: BYTES }),
      },
    );
};
