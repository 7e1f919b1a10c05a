import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { CreateSshKey, present, SshKey } from "./schema.ts";
import * as sshKeys from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/ssh_keys", tags: ["SSH keys"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () =>
          present(sshKeys.create(ctx, principal.workspaceId, body)),
        ),
      {
        ...takes(CreateSshKey),
        detail: describe("Add an SSH key pair; the private key is never shown again", { 201: SshKey }),
      },
    )
    .get("", ({ principal, query }) => sshKeys.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List SSH keys", { 200: listOf(SshKey, "SshKeyList") }),
    })
    .get("/:id", ({ principal, params }) => present(sshKeys.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get an SSH key without its private half", { 200: SshKey }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = sshKeys.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "ssh_key", deleted: true };
      },
      { detail: describe("Delete an SSH key", { 200: Deleted("ssh_key") }) },
    );
};
