import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { listOf, PageQuery } from "../../../../http/answer/pagination.ts";
import { area } from "../../../../http/auth.ts";
import { rootOf } from "../../../../http/host.ts";
import { creates } from "../../../../http/idempotency.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import { Deleted } from "../../../../lib/schema.ts";
import { CreatedInvitation, CreateInvitation, Invitation } from "./schema.ts";
import * as invitations from "./service.ts";

const SHOWN_ONCE = { field: "url", fix: "If it is lost, invite the person again: that replaces the invitation." };

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/invitations", tags: ["Users"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(
          ctx,
          { request, principal, body, set },
          () => {
            const { workspaceId } = principal;
            const { row, token } = invitations.create(ctx, { ...body, workspaceId, by: principal });
            return { ...invitations.show(ctx, row), url: invitations.linkOf(rootOf(ctx, request), token) };
          },
          SHOWN_ONCE,
        ),
      {
        ...takes(CreateInvitation),
        detail: describe(
          "Invite a person to the workspace; the answer is the only one that shows the link",
          { 201: CreatedInvitation },
          {
            description:
              "Send the link yourself: the server sends no mail. Replaces an open invitation of the same person. Only an owner invites owners.",
          },
        ),
      },
    )
    .get("", ({ principal, query }) => invitations.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the open invitations, and those that expired in the last month", {
        200: listOf(Invitation, "InvitationList"),
      }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = invitations.withdraw(ctx, principal.workspaceId, params.id, principal);
        return { id, object: "invitation", deleted: true };
      },
      { detail: describe("Withdraw an invitation: its link stops working", { 200: Deleted("invitation") }) },
    );
};
