import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { warn } from "../../../http/warnings.ts";
import { clientListOf } from "../conversations/schema.ts";
import {
  Container,
  ContainerFile,
  ContainerFileId,
  ContainerFilesQuery,
  ContainersQuery,
  CreateContainer,
  deletedAs,
} from "./schema.ts";
import * as containers from "./service.ts";

const BIN = "application/octet-stream";
const DeletedContainer = deletedAs("container.deleted", "DeletedContainer");
const DeletedFile = deletedAs("container.file.deleted", "DeletedContainerFile");

/** Scope and limits are those of sessions. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/containers", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        if (body.memory_limit !== undefined) warn(request, "/memory_limit");
        return containers.create(ctx, { request, principal, body, set });
      },
      {
        ...takes(CreateContainer),
        detail: describe(
          "Create a container, in the format of OpenAI",
          { 200: Container },
          { description: "It is a session with the same id." },
        ),
      },
    )
    .get("", ({ principal, query }) => containers.list(ctx, principal.workspaceId, query), {
      ...asks(ContainersQuery),
      detail: describe("List containers", { 200: clientListOf(Container, "ContainerList") }),
    })
    .get("/:id", ({ principal, params }) => containers.get(ctx, principal.workspaceId, params.id), {
      detail: describe("Get a container", { 200: Container }),
    })
    .delete(
      "/:id",
      async ({ principal, params: { id } }) => {
        await containers.remove(ctx, principal.workspaceId, id);
        return { id, object: "container.deleted", deleted: true };
      },
      { detail: describe("Stop a container and delete its files", { 200: DeletedContainer }) },
    )
    .post(
      "/:id/files",
      ({ request, principal, params, set }) => {
        keepOpen(ctx, request);
        return containers.addFile(ctx, { request, principal, set }, params.id);
      },
      {
        parse: "none",
        detail: describe(
          "Put a file into a container",
          { 200: ContainerFile },
          {
            accepts: {
              "multipart/form-data": "file, or file_id of a file that was uploaded before",
              "application/json": ContainerFileId,
            },
          },
        ),
      },
    )
    .get("/:id/files", ({ principal, params, query }) => containers.listFiles(ctx, principal, params.id, query), {
      ...asks(ContainerFilesQuery),
      detail: describe(
        "List the files of a container",
        { 200: clientListOf(ContainerFile, "ContainerFileList") },
        { description: "Those in /workspace, also in folders and also those that commands wrote." },
      ),
    })
    .get("/:id/files/:file", ({ principal, params }) => containers.getFile(ctx, principal, params), {
      detail: describe("Get a file of a container", { 200: ContainerFile }),
    })
    .get(
      "/:id/files/:file/content",
      ({ request, principal, params }) => containers.sendFile(ctx, principal, params, request),
      { detail: describe("Download a file of a container; supports Range", { 200: BIN, 206: BIN }) },
    )
    .delete(
      "/:id/files/:file",
      async ({ principal, params }) => {
        await containers.removeFile(ctx, principal, params);
        return { id: params.file, object: "container.file.deleted", deleted: true };
      },
      { detail: describe("Delete a file of a container", { 200: DeletedFile }) },
    );
};
